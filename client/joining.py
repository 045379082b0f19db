"""What a WELCOME means for a worker: which game, under which settings, for which run."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from games import get_game
from games.spec import Game
from protocol.messages import Welcome
from protocol.settings import SelfPlaySettings
from runtime.exits import Exit, Fatal
from search.settings import resolve


@dataclass(frozen=True)
class Run:
    """What a worker plays for. Another one means other games: the process starts afresh then."""

    name: str
    game: Game
    settings: SelfPlaySettings
    """Resolved: zeros replaced by the game's own values."""
    identity: bytes = b""
    """Tells runs of the same name apart, 16 bytes."""


def read_welcome(welcome: Welcome) -> Run:
    """Fatal(PROTOCOL) when the server speaks of a game or settings that this program does not know."""
    try:
        game = get_game(welcome.game)
        settings = msgspec.convert(welcome.self_play, SelfPlaySettings)
        return Run(welcome.run, game, resolve(settings, game), welcome.run_id)
    except ValueError as error:  # msgspec.ValidationError is one
        raise Fatal(
            f"cannot play what the server asks for: {error}; install the server's version of azselfplay here",
            Exit.PROTOCOL,
        ) from error


def is_same_run(run: Run, welcome: Welcome) -> bool:
    """Whether a later WELCOME asks for the games that are being played."""
    try:
        other = read_welcome(welcome)
    except Fatal:
        return False
    mine = run.name, run.identity, run.game.name, run.settings
    return mine == (other.name, other.identity, other.game.name, other.settings)
