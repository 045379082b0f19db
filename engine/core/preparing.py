"""From options to a thinker: load the network, make the tree, compile the kernels."""

from __future__ import annotations

from engine.core.options import Setup
from engine.core.thinker import Thinker
from engine.nets import check_fits, load_net
from engine.search_choice import search_for
from games import get_game
from runtime.exits import Exit, Fatal
from runtime.finding import weights_named

MOST_LEAVES = 128
"""Leaves in flight, unless the option asks for more."""


def prepare(setup: Setup, seed: int) -> Thinker:
    """Load the network, make the tree and compile the kernels. Raises Fatal if the weights cannot be used.

    This takes seconds, or a minute when nothing is compiled yet: run it in a thread.
    """
    game = get_game(setup.game)
    weights = None if not setup.weights else weights_named(setup.weights)
    wanted = "" if weights else game.name
    net = load_net(weights, wanted, device=setup.backend, threads=setup.threads, seed=seed)
    try:
        check_fits(net, game)
        leaves = setup.leaves or min(MOST_LEAVES, net.target_rows)
        thinker = Thinker(net, setup.hash_mib, leaves, seed, search_for(setup.search, game), game)
    except MemoryError as error:
        net.close()
        raise Fatal(f"not enough memory for Hash {setup.hash_mib} MiB: choose less", Exit.CONFIG) from error
    except Fatal:
        net.close()
        raise
    thinker.warm_up()
    return thinker
