"""AlphaZero self-play, training and play in Python: `import azselfplay as az`, then `az.load("chess")`.

The names below are the interface for people's own programs (`lab.api`, docs/use_a_network.md); each is loaded
when it is first used, so importing this costs nothing. Beneath are the packages, from the bottom: `games`
(rules) and `host` (the machine: configuration, run folders, processes), then `search`, `link` (connections),
`batching` (leaves, from players to evaluators), `store` (finished games on disk), `diagnostics` (is a run
well?), `play` (engines, matches, ratings), and `lab` (azrun, azplay, recipes, reports).
"""

from __future__ import annotations

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from azselfplay.host.exits import check_that_nothing_hides_our_packages

    check_that_nothing_hides_our_packages()
    from azselfplay.lab import api

    return getattr(api, name)
