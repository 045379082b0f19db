"""What comes before a worker's first game: reading its run from a WELCOME, and compiling its search.

`python -m client.warm GAME SELECTION NETWORK` compiles a game's rules and search into the disk cache. A
network of the family `sparse` is compiled into the search; others, and "", make no difference. azserver runs
this command once before its workers start, so that they load the code instead of all compiling it.
(azclient's first child joins the server to learn the game, and then compiles it: `client.worker
--warm-only`.)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.host.config import received
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.search.settings import resolve
from azselfplay.search.warm import warm
from net.architectures.registry import check_plays, is_sparse, named
from net.sparse import inference_for
from protocol.messages import Welcome
from protocol.settings import SelfPlaySettings


@dataclass(frozen=True)
class Run:
    """The run that a worker plays for. When the run changes, other games are needed, so the process
    restarts."""

    name: str
    game: Game
    settings: SelfPlaySettings
    """Resolved: zeros are replaced by the game's own values."""
    identity: bytes = b""
    """16 bytes that tell runs of the same name apart."""
    network: str = ""
    """Name of the network if it is part of the players' search, else ""."""


def read_welcome(welcome: Welcome) -> Run:
    """Return the run of a WELCOME. Raises Fatal(PROTOCOL) if this program does not know the game or a
    setting."""
    try:
        game = get_game(welcome.game)
        settings = received(SelfPlaySettings, welcome.self_play)
        # The published weights name the network; a server without weights names the network that it will
        # make.
        name = (welcome.weights.architecture if welcome.weights is not None else "") or welcome.network
        check_plays(name, game)
        # A run called `sparse` has weights called `sparse256`: this is the same network.
        network = named(name).name if is_sparse(name) else ""
        return Run(welcome.run, game, resolve(settings, game), welcome.run_id, network)
    except ValueError as error:  # msgspec.ValidationError is one
        raise Fatal(
            f"cannot play what the server asks for: {error}; install the server's version of azselfplay, and "
            "the package of its game, here",
            Exit.PROTOCOL,
        ) from error


def is_same_run(run: Run, welcome: Welcome) -> bool:
    """Return whether a later WELCOME asks for the same games that are being played."""
    try:
        other = read_welcome(welcome)
    except Fatal:
        return False
    mine = run.name, run.identity, run.game.name, run.settings, run.network
    return mine == (other.name, other.identity, other.game.name, other.settings, other.network)


def warm_with(game: Game, selection: str, network: str) -> float:
    """Compile the search of `game`, with the network if it is part of the search. Returns the seconds it
    took. Raises ValueError as `inference_for` does, and for an unknown selection."""
    own = inference_for(game, game.history, network)
    if own is not None:
        # Any weights will do: code is compiled for types, not for numbers.
        own.load_zeros()
    return warm(game.name, selection, own)


def main(argv: Sequence[str] | None = None) -> int:
    """Compile, and print how long it took. Raises Fatal(CONFIG) if there is no such game, selection or
    network."""
    parser = argparse.ArgumentParser(prog="python -m client.warm", description=__doc__)
    for name in ("game", "selection", "network"):
        parser.add_argument(name)
    given = parser.parse_args(argv)
    try:
        seconds = warm_with(get_game(given.game), given.selection, given.network)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    print(f"{given.game}:{given.selection}:{given.network}: rules and search ready in {seconds:.1f} s")
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
