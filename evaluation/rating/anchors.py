"""Players that never change, with their ratings: the same marks on the scale of every run of a game.

They stand with the game (`games.knowledge`). The ratings were measured, not chosen: see
`evaluation.rating.calibrate` and docs/ratings.md for the games behind them. They are kept fixed, because an
interval that reached down to `random` through each ladder's own few games would be hundreds of Elo wide,
whatever the ladder says about its networks.
"""

from __future__ import annotations

from games.knowledge import knowledge_of
from games.spec import Game
from runtime.exits import Exit, Fatal

ZERO = "random"
"""The player whose rating is 0."""

UNMEASURED = (ZERO, "greedy")
"""Anchors of a game for which nobody has measured any."""


def anchors_of(chosen: str, game: Game) -> list[str]:
    """Player specs from a list with commas, or the game's own; Fatal(CONFIG) unless `random` comes first."""
    specs = [spec.strip() for spec in chosen.split(",") if spec.strip()]
    found = list(dict.fromkeys(specs or knowledge_of(game).anchors or UNMEASURED))
    if found[0] != ZERO:
        raise Fatal(f"--anchors must begin with {ZERO!r}, the zero of the scale", Exit.CONFIG)
    return found


def fixed_ratings(specs: list[str], game: Game) -> dict[str, float]:
    """Those of `specs` that were measured; the others are rated along with the networks."""
    known = {ZERO: 0.0, **knowledge_of(game).anchors}
    return {spec: known[spec] for spec in specs if spec in known}
