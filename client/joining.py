"""How a worker reads a WELCOME: which game, under which settings, for which run."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from games import get_game
from games.spec import Game
from net.architectures.registry import check_plays, is_sparse
from protocol.messages import Welcome
from protocol.settings import SelfPlaySettings
from runtime.exits import Exit, Fatal
from search.settings import resolve


@dataclass(frozen=True)
class Run:
    """The run that a worker plays for. When it changes, other games are needed, and the process restarts."""

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
        settings = msgspec.convert(welcome.self_play, SelfPlaySettings)
        network = _network_in_search(welcome)
        check_plays(network, game)
        return Run(welcome.run, game, resolve(settings, game), welcome.run_id, network)
    except ValueError as error:  # msgspec.ValidationError is one
        raise Fatal(
            f"cannot play what the server asks for: {error}; install the server's version of azselfplay here",
            Exit.PROTOCOL,
        ) from error


def is_same_run(run: Run, welcome: Welcome) -> bool:
    """Return whether a later WELCOME asks for the games that are being played."""
    try:
        other = read_welcome(welcome)
    except Fatal:
        return False
    mine = run.name, run.identity, run.game.name, run.settings, run.network
    return mine == (other.name, other.identity, other.game.name, other.settings, other.network)


def _network_in_search(welcome: Welcome) -> str:
    network = (welcome.weights.architecture if welcome.weights is not None else "") or welcome.network
    return network if is_sparse(network) else ""
