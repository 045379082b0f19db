"""Figures of the sides as tables, and their place in bench/PEERS.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.peers.answering import Counts
from bench.peers.plan import OURS, PLIES, SIMULATIONS, Group
from bench.turns import Spread, ratio

PAGE = Path(__file__).resolve().parents[1] / "PEERS.md"
BEGIN, END = "<!-- figures: make peers ARGS=--write -->", "<!-- end of figures -->"
HEAD = (
    "| program | simulations/s | network evaluations/s | games/s | ours beside it |",
    "|---|---|---|---|---|",
)


@dataclass
class Measured:
    """Results of one group: the counts of each side per second, turn by turn, and why others have none."""

    group: Group
    turns: dict[str, list[Counts]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


def with_simulations(measured: Measured) -> Measured:
    """For a side that counts only evaluations, assume as many simulations per evaluation as ours beside
    it."""
    ours = measured.turns.get(OURS, [])
    whole = {
        name: [_guessed(one, beside) for one, beside in zip(turns, ours, strict=False)]
        if any(one.simulations is None for one in turns)
        else turns
        for name, turns in measured.turns.items()
    }
    return replace(measured, turns=whole)


def _guessed(counts: Counts, ours: Counts) -> Counts:
    assert ours.simulations is not None
    return replace(counts, simulations=counts.evaluations * ours.simulations / ours.evaluations)


def rates(turns: Sequence[Counts]) -> list[float]:
    """Simulations a second, turn by turn."""
    return [one.simulations or 0.0 for one in turns]


def table(measured: Measured) -> list[str]:
    """Lines of a table in Markdown, and a line for each side that is missing. Fastest first."""
    full = with_simulations(measured)
    lines = [f"**{full.group.title}**", "", *HEAD]
    ours = full.turns.get(OURS, [])
    by_speed = sorted(full.turns.items(), key=lambda item: -Spread.of(rates(item[1])).median)
    for name, turns in by_speed:
        lines.append(_row(full.group, name, turns, ours))
    lines += ["", *(f"Not measured: {name}: {reason}" for name, reason in full.missing.items())]
    return lines if full.missing else lines[:-1]


def _row(group: Group, name: str, turns: Sequence[Counts], ours: Sequence[Counts]) -> str:
    simulations = Spread.of(rates(turns))
    evaluations = Spread.of([one.evaluations for one in turns])
    games = simulations.median / SIMULATIONS / PLIES[group.game]
    beside = "" if name == OURS or not ours else ratio(rates(ours), rates(turns)).text(".3g") + " times"
    shown = f"{evaluations.median:,.0f}" if group.has_network else ""
    return f"| {name} | {simulations.text()} | {shown} | {games:.3g} | {beside} |"


def figures(found: Sequence[Measured]) -> Mapping[str, Mapping[str, float]]:
    """Medians of simulations a second, by title and side, for the last line of the output."""
    return {
        one.group.title: {
            name: round(Spread.of(rates(turns)).median, 1)
            for name, turns in with_simulations(one).turns.items()
        }
        for one in found
    }


def written_into(page: str, lines: Sequence[str]) -> str:
    """`page` with `lines` between the two marks. Raises ValueError if it lacks them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no {BEGIN} ... {END}")
    return "\n".join([before + begin, "", *lines, "", end + after])
