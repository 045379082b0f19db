"""The games. Each game has a module or folder of its own, and `get_game(name)` finds it.

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
    """Return the game called `name`, which may be a variant of a game (`games.names.OPTIONS`).

    Raises UnknownGame (a ValueError) naming the nearest known game, or the package whose game cannot be used.
    Only that game's module is imported.
    """
    try:
        base, options = parts_of(name)
        if base not in GAME_MODULES:
            return load_plugin(base)
        module = importlib.import_module(GAME_MODULES[base])
        # `parts_of` finds options only for games with variants, and those have `game_of_options`.
        game: Game = module.game_of_options(options) if options else module.GAME
        # Each game has exactly one name, by which it is compiled: `go_19x19` would be a second name for `go`,
        # and runs of the two would not match.
        if game.name != name:
            raise ValueError(f"the game {name!r} is called {game.name!r}")
        return game
    # OverflowError: a number in the name has too many digits.
    except (ValueError, OverflowError) as error:
        raise UnknownGame(str(error)) from error


# Other packages use the type `Game` in annotations. It is imported only on access.
def __getattr__(name: str) -> Any:
    if name == "Game":
        return importlib.import_module("azselfplay.games.spec").Game
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
