"""The games: what is known of each in a folder of its own. `get_game(name)` finds them.

Importing this loads nothing: `--help` lists the games without Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from games.names import GAME_MODULES, GAME_NAMES, LISTED

if TYPE_CHECKING:
    from games.spec import Game

__all__ = ["GAME_NAMES", "Game", "get_game"]


def get_game(name: str) -> Game:
    """The game called `name`. ValueError names the known games. Imports only that game's module."""
    if name not in GAME_MODULES:
        raise ValueError(f"unknown game {name!r}; known games: {LISTED}")
    game: Game = importlib.import_module(GAME_MODULES[name]).GAME
    return game


def __getattr__(name: str) -> Any:
    if name == "Game":
        return importlib.import_module("games.spec").Game
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
