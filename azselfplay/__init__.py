"""AlphaZero self-play, training and play in Python: `import azselfplay as az`, then `az.load("chess")`.

The names below are the interface for people's own programs (`lab.api`, docs/use_a_network.md); each is loaded
when it is first used, so importing this costs nothing. Beneath are the rooms, from the bottom: `games`
(rules) and `host` (the machine: configuration, run folders, processes), then `search`, `link` (connections),
`batching` (leaves, from players to evaluators), `store` (finished games on disk), `diagnostics` (is a run
well?), `play` (engines, matches, ratings), and `lab` (azrun, azplay, recipes, reports).
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azselfplay.lab.api import (
        Board,
        Error,
        Evaluation,
        Found,
        Game,
        Position,
        Run,
        load,
        play,
        play_async,
        train,
    )

__all__ = [
    "Board",
    "Error",
    "Evaluation",
    "Found",
    "Game",
    "Position",
    "Run",
    "load",
    "play",
    "play_async",
    "train",
]

_OURS = ("client", "net", "protocol", "server", "trainer")
"""The other packages of this project."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_that_nothing_hides_our_packages()
    from azselfplay.lab import api

    return getattr(api, name)


@cache
def check_that_nothing_hides_our_packages() -> None:
    """Raise ImportError if a file beside the user's script, such as net.py, is imported in place of one of
    our packages."""
    home = Path(__file__).resolve().parents[1]
    for name in _OURS:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin and home not in Path(found.origin).resolve().parents:
            raise ImportError(f"{found.origin} hides azselfplay's own package {name!r}: rename that file")
