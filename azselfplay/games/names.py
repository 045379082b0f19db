"""Names of the games, and the nearest name to a misspelt one. Importing this module imports no game, so
`--help` and configuration checks are fast.

The name of a variant is the game's name followed by the unusual options: `go_9x9_komi6.5`. Games of other
packages are found by their entry points in the group `azselfplay.games` (docs/add_a_game.md):

    [project.entry-points."azselfplay.games"]
    avoid_three = "avoid_three:GAME"

The left side is the game's name, the right side names a `games.spec.Game`. A package is imported only when
its game is requested, so a broken package does not affect other games.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from azselfplay.games.spec import Game

GAME_MODULES = {
    "tic_tac_toe": "azselfplay.games.tic_tac_toe",
    "connect_four": "azselfplay.games.connect_four",
    "chess": "azselfplay.games.chess",
    "chess960": "azselfplay.games.chess.chess960",
    "dots_and_boxes": "azselfplay.games.dots_and_boxes",
    "go": "azselfplay.games.go",
    "shogi": "azselfplay.games.shogi",
}

GAME_NAMES = tuple(GAME_MODULES)

SIZE = r"\d{1,3}x\d{1,3}"
"""Rows x columns."""

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "dots_and_boxes": {"2x4": SIZE},
    "go": {"9x9": SIZE, "komi6.5": r"komi.*", "situational": "situational|simple", "nosuicide": "nosuicide"},
    "shogi": {"declaration": "declaration"},
}
"""The options of games with variants, as example: pattern. Options follow the name in this order, each after
a `_`. The modules of these games define `game_of_options`."""
USUAL_SIZE = {"dots_and_boxes": "3x3", "go": "19x19"}
"""The board size meant by a name without a size."""

VARIANTS = "variants are called dots_and_boxes_2x4, go_9x9, go_5x5_komi24.5, shogi_declaration and so on"

DEFAULT_GAME = "chess"
"""Used if no game is given and none follows from a weights file."""


def listed() -> str:
    """Return the names of all games, including those of other packages, for `--help` and error messages."""
    plugins = plugin_names()
    others = f"; of other packages: {', '.join(plugins)}" if plugins else ""
    return f"{', '.join(GAME_NAMES)} ({VARIANTS}){others}"


def parts_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Split a name into the base name and the options. Raises ValueError (UnknownGame for an unknown base
    name) naming the nearest valid name."""
    # Try whole names first, because the name of another package's game may also contain underscores.
    if name in GAME_MODULES or name in entry_points_by_name():
        return name, ()
    # At most one matches: no name of a game with variants is the beginning of another's.
    bases = [base for base in OPTIONS if name.startswith(f"{base}_")]
    if not bases:
        meant = near(name, [*GAME_MODULES, *plugin_names()])
        hint = f" (the nearest is {meant})" if meant else ""
        raise UnknownGame(f"unknown game {name!r}{hint}; known games: {listed()}")
    options, known = name.removeprefix(f"{bases[0]}_").split("_"), OPTIONS[bases[0]]
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
    # Each game has one spelling, because its name is stored in weights, runs and records.
    if places != sorted(set(places)):
        raise ValueError(f"unknown game {name!r}: give each option once, in the order {', '.join(known)}")
    return bases[0], tuple(options)


def is_game(name: str) -> bool:
    """Return whether `name` has the form of a known game's name. Values of options are only checked when
    `games.get_game` imports the game."""
    try:
        parts_of(name)
    except ValueError:
        return False
    return True


def with_board(name: str, board: str) -> str:
    """Return the name of the game `name` on a board of another size, such as `9` or `2x4`; "" leaves the name
    unchanged.

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


# ---- Games of other packages ---------------------------------------------------------------------


GROUP = "azselfplay.games"
NAME = r"[a-z][a-z0-9_]{0,39}"


class UnknownGame(ValueError):
    """This process knows no such game, or cannot use the package that provides it."""


@cache
def entry_points_by_name() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of installed packages by the game's name; several if packages claim the same
    name."""
    from importlib.metadata import entry_points  # imported here because it takes 30 ms, and is seldom needed

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        # Skip duplicates: a package that is on the path twice is found twice.
        if point not in found.get(point.name, ()):
            found[point.name] = (*found.get(point.name, ()), point)
    return found


def plugin_names() -> tuple[str, ...]:
    """Return the names of all games of other packages, including those that cannot be imported."""
    return tuple(sorted(entry_points_by_name()))


def load_plugin(name: str) -> Game:
    """Return the game of another package. Raises UnknownGame naming the package and the reason why it cannot
    be used."""
    first, *others = entry_points_by_name()[name]
    if others:
        packages = " and ".join(_package(point) for point in (first, *others))
        raise UnknownGame(f"several packages have a game {name!r}: {packages}; uninstall all but one")
    unusable = f"the game {name!r} of the package {_package(first)} cannot be used"
    if not re.fullmatch(NAME, name):  # it becomes part of the names of files
        raise UnknownGame(f"{unusable}: write its name with at most 40 of a-z, 0-9 and _, a letter first")
    try:
        game = first.load()
    # Catch everything: whatever a package raises on import, the other games must stay usable.
    except Exception as error:
        text = f"{unusable}: importing {first.module}: {type(error).__name__}: {error}"
        raise UnknownGame(text) from error
    from azselfplay.games.spec import Game  # imports Numba, as the game has done by now

    if not isinstance(game, Game):
        kind = type(game).__name__
        raise UnknownGame(f"{unusable}: {first.value} is a {kind}, not an azselfplay.games.spec.Game")
    if game.name != name:
        raise UnknownGame(f"{unusable}: its entry point is called {name!r}, its game {game.name!r}")
    # Check signatures here: otherwise Numba would report the wrong arguments from deep inside the search.
    for called, wanted in (("end_reason", "root"), ("maybe_wins", "found")):
        rule = getattr(game.rules, called)
        if rule is None:
            continue
        *_, last = inspect.signature(getattr(rule, "py_func", rule)).parameters
        if last != wanted:
            raise UnknownGame(
                f"{unusable}: the last argument of its {called} is {last!r}, but has to be `{wanted}` "
                "(azselfplay/games/spec.py): the package was written for an older azselfplay"
            )
    return game


def _package(point: EntryPoint) -> str:
    """Return the package's name and version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "of unknown name"


# ---- The name that was probably meant ------------------------------------------------------------


NEAR = 0.6
"""Least `difflib` ratio of similar names: it is 0.75 for `paly` and `play`, 0.44 for `nosuch` and `uci`."""
SHOWN = 12
"""Number of names listed if none is similar."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name in `known` that is most similar to `name`; '' if `known` is empty."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)), "")


def near(name: str, known: Iterable[str]) -> str:
    """Return the same as `nearest`, but '' if no name is similar to `name`."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=NEAR)), "")


def near_or_all(name: str, known: Iterable[str], kind: str = "") -> str:
    """Return the text after "there is no NAME: ": the similar name, or else the known ones. `kind`: such as
    "key"."""
    names = list(known)
    if meant := near(name, names):
        return f"the nearest{f' {kind}' if kind else ''} is {meant!r}"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:SHOWN])}{more}"
