"""Connect Four's solver and its labelled positions, in the form that `games.knowledge` requires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from games.connect_four import labelled
from games.connect_four.labelled import Labelled
from games.connect_four.solver import Solver
from games.knowledge import Check, Known, Labels, Row, Say, Solution
from games.spec import State

FEWEST_STONES = 10
"""With fewer stones a position takes longer to solve: seconds to minutes (docs/measure_strength.md)."""


@cache
def _solver() -> Solver:
    """One solver for all callers, because it remembers what it has seen."""
    return Solver()


def probe(state: State) -> Known | None:
    """What is known about a position with at least FEWEST_STONES stones."""
    stones = int(state[2])
    if stones < FEWEST_STONES:
        return None
    verdict = _solver().verdict(state)
    group = next((phase for phase, (_, most) in labelled.PHASES.items() if stones <= most), "end")
    return Known(group, verdict.value, frozenset(verdict.keeps), len(verdict.legal))


def rows_in(file: Path) -> list[Row]:
    """The labelled positions in a file. Raises BadTruth."""
    return [
        Row(
            one.phase,
            "",
            tuple(int(column) - 1 for column in one.moves),
            one.value,
            frozenset(one.keeps),
            len(one.legal),
            {},
        )
        for one in labelled.read(file)
    ]


def _label(labels: Labels, say: Say) -> bytes:
    others = labelled.read(labels.apart_from) if labels.apart_from else []
    return labelled.to_lines(labelled.generate(labels.seed, labels.per_group, say, others))


def _checks(file: Path | None, say: Say) -> Iterator[Check]:
    files = [file] if file else [labelled.COMMITTED, labelled.FINAL]
    sets = {one: labelled.read(one) for one in files}
    keys = {labelled.key_of(labelled.states_of(row.moves)[-1]) for rows in sets.values() for row in rows}
    count = sum(len(rows) for rows in sets.values())
    yield Check("connect four: positions that are different, mirror images too", len(keys), count)
    for one, rows in sets.items():
        say(str(one))
        for line in _shape_of(rows):
            say(line)
        late = [row for row in rows if len(row.moves) >= 14]
        agree = sum(_mirror_agrees(row) for row in late)
        yield Check("connect four: mirror images solved anew that agree", agree, len(late))


def _shape_of(rows: Sequence[Labelled]) -> Iterator[str]:
    for phase in labelled.PHASES:
        of_phase = [row for row in rows if row.phase == phase]
        matter = sum(row.matters for row in of_phase)
        values = "/".join(str(sum(row.value == value for row in of_phase)) for value in (1, 0, -1))
        yield f"{phase}: {len(of_phase)} positions, won/drawn/lost {values}, the move matters in {matter}"


def _mirror_agrees(row: Labelled) -> bool:
    mirrored = "".join(str(8 - int(column)) for column in row.moves)
    found = _solver().verdict(labelled.states_of(mirrored)[-1])
    return found.value == row.value and {6 - column for column in found.keeps} == set(row.keeps)


SOLUTION = Solution(
    covers=f"positions of {FEWEST_STONES} stones or more",
    probe=probe,
    rows=lambda _seed, _limit: rows_in(labelled.COMMITTED),
    checks=_checks,
    groups=tuple(labelled.PHASES),
    final_rows=lambda: rows_in(labelled.FINAL),
    label=_label,
    depth=10,
)
