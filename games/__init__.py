"""The games: rules and encodings, one module or folder a game. `get_game(name)` finds them."""

from __future__ import annotations

import importlib

from games.names import GAME_MODULES, GAME_NAMES
from games.spec import Game

__all__ = ["GAME_NAMES", "Game", "get_game"]


def get_game(name: str) -> Game:
    """The game called `name`. ValueError names the known games. Imports only that game's module."""
    if name not in GAME_MODULES:
        raise ValueError(f"unknown game {name!r}; known games: {', '.join(GAME_NAMES)}")
    game: Game = importlib.import_module(GAME_MODULES[name]).GAME
    return game
