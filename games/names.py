"""Names of the games, without importing any of them (for `--help` and configuration checks): our own, and
those of other packages (`games.plugins`).

A game with variants is called by its name, followed by what is unusual: `go_9x9_komi6.5`.
"""

import re
from collections.abc import Mapping, Sequence

from games.nearest import near, nearest
from games.plugins import UnknownGame, entry_points_by_name, plugin_names

GAME_MODULES = {
    "tic_tac_toe": "games.tic_tac_toe",
    "connect_four": "games.connect_four",
    "chess": "games.chess",
    "dots_and_boxes": "games.dots_and_boxes",
    "go": "games.go",
    "shogi": "games.shogi",
}

GAME_NAMES = tuple(GAME_MODULES)

WITH_SOLVED = (*GAME_NAMES, "go_2x2", "go_3x3")
"""Also the variants that are solved although their game is not."""

SIZE = r"\d{1,3}x\d{1,3}"
"""Rows x columns."""

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "dots_and_boxes": {"2x4": SIZE},
    "go": {"9x9": SIZE, "komi6.5": r"komi.*", "situational": "situational", "nosuicide": "nosuicide"},
    "shogi": {"declaration": "declaration"},
}
"""Games with variants, and what may follow their names, in this order and each after a `_`: an example, and
the pattern. Their modules have `game_of_options`."""
USUAL_SIZE = {"dots_and_boxes": "3x3", "go": "19x19"}
"""The size in a name without one."""

VARIANTS = "variants are called dots_and_boxes_2x4, go_9x9, go_5x5_komi24.5, shogi_declaration and so on"

DEFAULT_GAME = "chess"
"""Used where no game is given, and none follows from a weights file."""


def listed() -> str:
    """All games, including those of other packages, for `--help` and error messages."""
    plugins = plugin_names()
    others = f"; of other packages: {', '.join(plugins)}" if plugins else ""
    return f"{', '.join(GAME_NAMES)} ({VARIANTS}){others}"


def parts_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Split a name into the game's own and its options. Raises ValueError (UnknownGame) naming the nearest
    valid one."""
    if name in GAME_MODULES or name in entry_points_by_name():
        return name, ()
    bases = [base for base in OPTIONS if name.startswith(f"{base}_")]
    if not bases:
        meant = near(name, [*GAME_MODULES, *plugin_names()])
        hint = f" (the nearest is {meant})" if meant else ""
        raise UnknownGame(f"unknown game {name!r}{hint}; known games: {listed()}")
    options = name.removeprefix(f"{bases[0]}_").split("_")
    _check_options(name, options, OPTIONS[bases[0]])
    return bases[0], tuple(options)


def _check_options(name: str, options: Sequence[str], known: Mapping[str, str]) -> None:
    places = []
    for option in options:
        matching = [place for place, pattern in enumerate(known.values()) if re.fullmatch(pattern, option)]
        if not matching:
            meant = nearest(option, known)
            raise ValueError(
                f"unknown game {name!r}: {option!r} is none of its options (the nearest is {meant}); "
                f"known games: {listed()}"
            )
        places += matching
    if places != sorted(set(places)):
        raise ValueError(f"unknown game {name!r}: give each option once, in the order {', '.join(known)}")


def is_game(name: str) -> bool:
    """Whether `games.get_game` may know it: the options' values are checked only when the game is
    imported."""
    try:
        parts_of(name)
    except ValueError:
        return False
    return True


def with_board(name: str, board: str) -> str:
    """The name of the game `name` on a board of another size, `9` or `2x4`; "" leaves the name as it is.

    Raises ValueError for a game with only one board, or for an invalid size.
    """
    if not board:
        return name
    base, options = parts_of(name)
    size = board if "x" in board else f"{board}x{board}"
    if base not in USUAL_SIZE:
        raise ValueError(f"{base} has one board only; there are sizes of {', '.join(USUAL_SIZE)}")
    if not re.fullmatch(SIZE, size):
        raise ValueError(f"{board!r} is not a size: write rows and columns (2x4), or one number of both (9)")
    others = [option for option in options if not re.fullmatch(SIZE, option)]
    return "_".join([base, *([] if size == USUAL_SIZE[base] else [size]), *others])
