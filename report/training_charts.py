"""Charts of training: losses, norms, the replay window, and the network's values of known positions."""

from __future__ import annotations

from report.drawing import Chart, chart, curves
from report.history import History

_Described = tuple[str, str, dict[str, tuple[list[float], list[float]]], str]
"""Title, how to read it, (steps, values) by the label of a curve, unit."""


def training_charts(history: History) -> list[Chart]:
    """Charts of the trainer's figures; those without data are left out."""
    if len(history.rows) < 2:
        return []
    return [
        chart(title, caption, curves(lines, "training step", unit))
        for title, caption, lines, unit in (*_of_steps(history), *_of_values(history))
        if any(len(steps) > 1 for steps, _ in lines.values())
    ]


def _of_steps(history: History) -> list[_Described]:
    """Losses, norms and the window."""
    curve = history.curve
    return [
        (
            "Policy loss",
            "Cross-entropy to the visits. It cannot go below the entropy of its targets; what is between "
            "them is left to learn. Both rise when searches become less sure, which is no fault.",
            {
                "policy loss": curve("trainer/policy_loss"),
                "entropy of targets": curve("trainer/policy_entropy"),
                "on games held out": curve("trainer/held_out_policy_loss"),
            },
            "cross-entropy, nats",
        ),
        (
            "Value loss",
            "Of a win-draw-loss head: 1.10 is a guess, 0.4 to 0.9 healthy while games are decisive. Low with "
            "many draws: it only says draw. If it rises on held-out games while it falls in training, the "
            "network memorises.",
            {
                "value loss": curve("trainer/value_loss"),
                "on games held out": curve("trainer/held_out_value_loss"),
            },
            "cross-entropy, nats",
        ),
        (
            "Gradient norm",
            "Before clipping.",
            {"gradient norm": curve("trainer/gradient_norm")},
            "gradient norm",
        ),
        (
            "Samples per position",
            "How often a position has been trained on, mean over all searched positions.",
            {"samples per position": curve("trainer/samples_per_position")},
            "samples per position",
        ),
        (
            "Replay window",
            "Positions in the window, and all positions so far.",
            {"window": curve("trainer/window_positions"), "all": curve("trainer/positions")},
            "positions",
        ),
        (
            "Weight norm",
            "Of all weights. If it keeps rising, each step changes less: use a larger "
            "--optimizer.weight-decay.",
            {"weight norm": curve("trainer/weight_norm")},
            "weight norm",
        ),
        (
            "Results in the window",
            "Positions by the outcome of their game. Few runs recovered from more than 85 % draws with a "
            "value loss below 0.4.",
            {name: curve(f"window_outcomes/{name}") for name in ("first", "draw", "second")},
            "share of positions",
        ),
    ]


def _of_values(history: History) -> list[_Described]:
    """What the network makes of positions whose value is known, and of held-out ones."""
    curve = history.curve
    known = {name.partition("/")[2]: curve(name) for name in history.names("probe_values")}
    spread, material = {"spread": curve("trainer/value_spread")}, curve("trainer/value_material_r")
    errors = {name.partition("/")[2]: curve(name) for name in history.names("known_errors")}
    on_mates = " In mates in one, every move that does not mate counts." if "mate in one" in errors else ""
    on_material = on_endgames = ""
    if material[0]:
        spread["correlation with material"] = material
        on_material = " Correlation with material: below 0 a sign is wrong, near 0 nothing is learned."
    if "KQK" in known:
        on_endgames = " KQK is won for the side to move (near +1), KKQ is lost (near -1), the start is level."
    return [
        (
            "Values of known positions",
            f"The network's values without a search.{on_endgames}",
            known,
            "value for the side to move",
        ),
        (
            "Errors in known positions",
            "Share of positions in which the likeliest move of the network, without a search, throws the "
            "result away. Only positions in which some move does, and a sample of them; `azplay truth` tests "
            f"all.{on_mates}",
            errors,
            "share of positions",
        ),
        (
            "Spread of values",
            "Standard deviation over positions of held-out games: near 0, all values are the same."
            f"{on_material}",
            spread,
            "standard deviation, correlation",
        ),
    ]
