"""Games of other packages, found by their entry points in the group `azselfplay.games`.

    [project.entry-points."azselfplay.games"]
    avoid_three = "avoid_three:GAME"

The name on the left is the game's name; on the right stands a `games.spec.Game`. Nothing of a package is
imported before its game is asked for, so one that is broken disturbs no other. docs/add_a_game.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from games.spec import Game

GROUP = "azselfplay.games"
NAME = r"[a-z][a-z0-9_]{0,39}"


class UnknownGame(ValueError):
    """No such game is known to this process, or the package that has it cannot be used."""


@cache
def entry_points_by_name() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points of installed packages by the game's name; several if packages claim the same name."""
    from importlib.metadata import entry_points  # takes 30 ms that this program's own games do not need

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        if re.fullmatch(NAME, point.name) and point not in found.get(point.name, ()):
            found[point.name] = (*found.get(point.name, ()), point)
    return found


def plugin_names() -> tuple[str, ...]:
    """Names of all games of other packages, including those that cannot be imported."""
    return tuple(sorted(entry_points_by_name()))


def load_plugin(name: str) -> Game:
    """The game of another package. Raises UnknownGame naming the package and why it cannot be used."""
    first, *others = entry_points_by_name()[name]
    if others:
        packages = " and ".join(_package(point) for point in (first, *others))
        raise UnknownGame(f"several packages have a game {name!r}: {packages}; uninstall all but one")
    try:
        game = first.load()
    except Exception as error:
        raise UnknownGame(
            _unusable(name, first, f"importing {first.module}: {type(error).__name__}: {error}")
        ) from error
    return _checked(name, first, game)


def _checked(name: str, point: EntryPoint, game: Any) -> Game:
    from games.spec import Game

    if not isinstance(game, Game):
        raise UnknownGame(
            _unusable(name, point, f"{point.value} is a {type(game).__name__}, not a games.spec.Game")
        )
    if game.name != name:
        raise UnknownGame(
            _unusable(name, point, f"its entry point is called {name!r}, its game {game.name!r}")
        )
    rule = game.rules.end_reason
    *_, last = inspect.signature(getattr(rule, "py_func", rule)).parameters
    if last != "root":
        why = (
            f"the last argument of its end_reason is {last!r}, but has to be `root`, the index of the "
            "search's root (games/spec.py): the package was written for an older azselfplay"
        )
        raise UnknownGame(_unusable(name, point, why))
    return game


def _unusable(name: str, point: EntryPoint, why: str) -> str:
    return f"the game {name!r} of the package {_package(point)} cannot be used: {why}"


def _package(point: EntryPoint) -> str:
    """Name and version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "of unknown name"
