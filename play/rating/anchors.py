"""Players that never change, with their ratings: the same marks on the scale of every run of a game.

The ratings were measured, not chosen: see `play.rating.calibrate` and docs/ratings.md for the games behind
them. They are kept fixed, because an interval that reached down to `random` through each ladder's own few
games would be hundreds of Elo wide, whatever the ladder says about its networks.
"""

from __future__ import annotations

from runtime.exits import Exit, Fatal

ZERO = "random"
"""The player whose rating is 0."""

ANCHORS: dict[str, dict[str, float]] = {
    "chess": {
        "random": 0,
        "blend:greedy:30": 306,
        "blend:greedy:60": 519,
        "blend:greedy:85": 597,
        "greedy": 677,
        "blend:alphabeta:1:80": 1063,
        "blend:alphabeta:1:92": 1352,
        "alphabeta:1": 1550,
        "blend:alphabeta:2:92": 1577,
        "alphabeta:2": 1906,
        "alphabeta:3": 2324,
    },
    "connect_four": {
        "random": 0,
        "rollouts:2": 62,
        "rollouts:5": 109,
        "rollouts:10": 252,
        "greedy": 569,
        "alphabeta:1": 673,
        "rollouts:100": 785,
        "alphabeta:2": 1002,
        "rollouts:1000": 1046,
        "alphabeta:4": 1056,
        "alphabeta:6": 1114,
    },
    "tic_tac_toe": {"random": 0, "rollouts:5": 134, "greedy": 420, "rollouts:50": 489, "alphabeta:9": 571},
}
"""Elo of each player over `random`, by game, weak to strong."""


def anchors_of(chosen: str, game: str) -> list[str]:
    """Player specs from a list with commas, or the game's own; Fatal(CONFIG) unless `random` comes first."""
    specs = [spec.strip() for spec in chosen.split(",") if spec.strip()]
    found = list(dict.fromkeys(specs or ANCHORS.get(game, {ZERO: 0.0, "greedy": 0.0})))
    if found[0] != ZERO:
        raise Fatal(f"--anchors must begin with {ZERO!r}, the zero of the scale", Exit.CONFIG)
    return found


def fixed_ratings(specs: list[str], game: str) -> dict[str, float]:
    """Those of `specs` that were measured; the others are rated along with the networks."""
    known = {ZERO: 0.0} | ANCHORS.get(game, {})
    return {spec: known[spec] for spec in specs if spec in known}
