"""The games: what is known of each in a folder of its own. `get_game(name)` finds them.

Importing this loads nothing: `--help` lists the games without Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from games.names import GAME_MODULES, GAME_NAMES, LISTED, SIZED_GAMES, SIZED_NAME
from games.nearest import nearest

if TYPE_CHECKING:
    from games.spec import Game

__all__ = ["GAME_NAMES", "Game", "get_game"]


def get_game(name: str) -> Game:
    """The game called `name`, which may be one on a board of another size (`games.names.SIZED_NAME`).

    ValueError names the known games. Imports only that game's module.
    """
    game: Game
    sized = SIZED_NAME.fullmatch(name)
    if name in GAME_MODULES:
        game = importlib.import_module(GAME_MODULES[name]).GAME
    elif sized is not None and sized[1] in SIZED_GAMES:
        game = importlib.import_module(GAME_MODULES[sized[1]]).game_of_size(int(sized[2]), int(sized[3]))
        if game.name != name:
            raise ValueError(f"the game {name!r} is called {game.name!r}")
    else:
        near = nearest(name, GAME_MODULES)
        raise ValueError(f"unknown game {name!r} (the nearest is {near}); known games: {LISTED}")
    return game


def __getattr__(name: str) -> Any:
    if name == "Game":
        return importlib.import_module("games.spec").Game
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
