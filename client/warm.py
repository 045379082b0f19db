"""`python -m client.warm GAME[:SELECTION[:NET]]`: compile a game's rules and search into the disk cache.

A network NET of the family `sparse` is compiled into the search; others make no difference.

Run it once before several workers start, so that they load the code instead of all compiling it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from games import get_game
from games.spec import Game
from net.architectures.registry import check_name
from net.sparse import player_for
from runtime.exits import Exit
from search.warm import warm


def warm_with(game: Game, selection: str, network: str) -> float:
    """Compile the search of `game`, with the network if it is part of the search. Returns the seconds it
    took. Raises ValueError as `player_for` does, and for an unknown selection."""
    player = player_for(game, game.history, network)
    if player is not None:
        player.load_zeros()
    return warm(game.name, selection, player)


def main(names: Sequence[str]) -> int:
    """Warm each GAME[:SELECTION[:NET]]. Returns the exit status: CONFIG if there is no such game, selection
    or network."""
    for name in names:
        game, selection, network, *more = [*name.split(":"), "", ""]
        try:
            if network:
                check_name(network)
            if any(more):
                raise ValueError(f"{name!r} has more parts than GAME:SELECTION:NET")
            seconds = warm_with(get_game(game), selection or "puct", network)
        except ValueError as error:
            print(f"client.warm: error: {error}", file=sys.stderr)
            return int(Exit.CONFIG)
        print(f"{name}: rules and search ready in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
