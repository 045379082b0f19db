"""The games: what is known about each is in a folder of its own. `get_game(name)` finds them.

Importing this package loads no game, so `--help` lists the games without Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from azselfplay.games.names import GAME_MODULES, GAME_NAMES, UnknownGame, load_plugin, parts_of

if TYPE_CHECKING:
    from azselfplay.games.spec import Game

__all__ = ["GAME_NAMES", "Game", "get_game"]


def get_game(name: str) -> Game:
    """The game called `name`, which may be a variant of a game (`games.names.OPTIONS`).

    Raises UnknownGame (a ValueError) naming the nearest known game, or the package whose game cannot be used.
    Only that game's module is imported.
    """
    try:
        base, options = parts_of(name)
        if base not in GAME_MODULES:
            return load_plugin(base)
        module = importlib.import_module(GAME_MODULES[base])
        # Only games with variants have `game_of_options`, and `parts_of` finds options for no others.
        game: Game = module.game_of_options(options) if options else module.GAME
        # One game, one name: `go_19x19` would otherwise be a second one for `go`, and its runs would not fit.
        if options and game.name != name:
            raise ValueError(f"the game {name!r} is called {game.name!r}")
        return game
    # A number of many digits in a name overflows.
    except (ValueError, OverflowError) as error:
        raise UnknownGame(str(error)) from error


# The type is there for annotations of other packages, and is imported only when asked for.
def __getattr__(name: str) -> Any:
    if name == "Game":
        return importlib.import_module("azselfplay.games.spec").Game
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
