"""The interface of all players: networks, alpha-beta, solvers, engines of other programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from games.game_history import GameHistory


@dataclass(frozen=True)
class Clock:
    """Time left for the side to move, seconds."""

    remaining: float
    increment: float = 0.0
    opponent: float = 0.0


@dataclass(frozen=True)
class Choice:
    """A player's move."""

    action: int
    value: float | None = None
    """Value for the side to move, in [-1, 1]; None if the player gives none."""
    simulations: int = 0
    """Positions searched; 0 if the player does not count them."""


class PlayerFailed(Exception):
    """The player cannot continue (its engine crashed, hung, or sent an invalid answer) and has lost the
    game."""


class PlayerResigned(Exception):
    """The player resigns and has lost the game."""


class Seat(Protocol):
    """A player in one game. Calls come one at a time."""

    async def be_ready(self, game_history: GameHistory, clock: Clock | None = None) -> None:
        """Prepare for the first move, in `game_history`: no clock runs meanwhile. `clock`: as at that move.
        Raises PlayerFailed."""
        ...

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        """The move to play in `game_history`, whose game is not over. Raises PlayerFailed or
        PlayerResigned."""
        ...

    async def close(self) -> None:
        """Release what the game used."""
        ...


class Player(Protocol):
    """Plays any number of games at once."""

    name: str

    async def sit_down(self, seed: int) -> Seat:
        """Begin a game. All the player's random choices follow from `seed`."""
        ...

    async def close(self) -> None:
        """End its processes and threads."""
        ...
