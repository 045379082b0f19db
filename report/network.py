"""Curves of the network and of what it learns from: weights, known positions, results in the window."""

from __future__ import annotations

from report.history import History

Curves = dict[str, tuple[list[float], list[float]]]


def network_curves(history: History) -> list[tuple[str, str, Curves, str]]:
    """(title, how to read it, curves, unit) of each chart; curves of figures that never came are empty."""
    curve = history.curve
    return [
        (
            "Weight norm",
            "Of all weights. If it rises without end, each step counts for less: a larger "
            "--optimizer.weight-decay.",
            {"weight norm": curve("trainer/weight_norm")},
            "norm",
        ),
        (
            "Results in the window",
            "Positions by the outcome of their game. Beyond 85 % draws with a value loss below 0.4 few runs "
            "came back.",
            {name: curve(f"window_outcomes/{name}") for name in ("first", "draw", "second")},
            "share of positions",
        ),
        (
            "Values of known positions",
            "What the network says of them without a search. Chess: KQK is won for the side to move (near "
            "+1), KKQ lost (near -1), the start level.",
            {name.partition("/")[2]: curve(name) for name in history.names("probe_values")},
            "value",
        ),
        (
            "Spread of values",
            "Standard deviation over positions of held-out games: near 0, it says the same of all. In chess "
            "also its correlation with material: below 0 a sign is wrong, near 0 nothing is known.",
            {
                "spread": curve("trainer/value_spread"),
                "correlation with material": curve("trainer/value_material_r"),
            },
            "value",
        ),
    ]
