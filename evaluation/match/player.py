"""What a match, a ladder or a test asks of a player: network, alpha-beta, solver, UCI engine."""

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
    """For the side to move, in [-1, 1], if the player has an opinion."""
    simulations: int = 0
    """Positions looked at, if it counts them."""


class PlayerFailed(Exception):
    """The player cannot go on in this game (engine crashed, hung, or answered nonsense): the game is lost."""


class Seat(Protocol):
    """A player in one game. Calls come one at a time."""

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        """The move to play in `game_history`, whose game goes on. Raises PlayerFailed."""
        ...

    async def close(self) -> None:
        """The game is over."""
        ...


class Player(Protocol):
    """Plays any number of games at once."""

    name: str

    async def sit_down(self, seed: int) -> Seat:
        """Begin a game; what is random in it draws from `seed`."""
        ...

    async def close(self) -> None:
        """Give back processes and threads."""
        ...
