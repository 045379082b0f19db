"""What is solved of Go: boards up to 3 x 3, every position with any past."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from games.go.notation import Text
from games.go.rules import SMALLEST, GoRules
from games.go.table import LARGEST, Table
from games.knowledge import Check, Known, Row, Say, Solution
from games.spec import Positions, State

GROUPS = ("opening", "middle", "end")
"""Stones on less than half of the points, on less than three quarters, on more."""
PER_GROUP = 300
SEED, FINAL_SEED = 1, 2
"""Seeds of positions: for tuning, and for final judgements."""
DEPTH = 6
"""Plies of alpha-beta with which the perfect player chooses where the exact search does not end."""
VALUES = {2: 1, 3: 9}
"""Points by which the first player wins with best play, as published."""


class Truth:
    """The truth about one set of rules."""

    def __init__(self, rules: GoRules, text: Text) -> None:
        self.rules, self.text = rules, text

    @cached_property
    def table(self) -> Table:
        """Made on first use, in seconds."""
        return Table(self.rules)

    def probe(self, state: State) -> Known | None:
        """What is known about a position at which a game begins."""
        return self.probe_with_past(state.reshape(1, -1))

    def probe_with_past(self, positions: Positions) -> Known | None:
        """What is known about the newest of `positions`, the history of a game that continues."""
        results = self.table.results(positions)
        if results is None:
            return None
        state = positions[-1]
        sign = 1 - 2 * int(self.text.kernels.side_to_move(state))
        value = max(sign * result for result in results.values())
        keeps = frozenset(action for action, result in results.items() if sign * result == value)
        return Known(self._group(state), value, keeps, len(results))

    def _group(self, state: State) -> str:
        stones = sum(int(word).bit_count() for word in state[: 2 * self.text.board.words])
        points = self.text.board.points
        return GROUPS[(2 * stones >= points) + (4 * stones >= 3 * points)]

    def rows(self, seed: int, limit: int, apart_from: frozenset[str] = frozenset()) -> list[Row]:
        """Positions without a past, drawn from all of them, equally many of each group; at most half of a
        group are positions in which every move keeps the result."""
        wanted = min(limit or PER_GROUP, PER_GROUP)
        codes = np.flatnonzero(self.table.numbers >= 0)
        drawn = np.random.default_rng([seed, self.rules.size]).permutation(2 * len(codes))
        taken: dict[str, list[Row]] = {group: [] for group in GROUPS}
        for number in drawn.tolist():
            row = self._row(int(codes[number // 2]), number % 2)
            if row is None or row.start in apart_from:
                continue
            rows = taken[row.group]
            dull = not row.matters and 2 * sum(not one.matters for one in rows) >= wanted
            if len(rows) < wanted and not dull:
                rows.append(row)
            if all(len(rows) == wanted for rows in taken.values()):
                break
        return [row for rows in taken.values() for row in rows]

    def _row(self, code: int, side: int) -> Row | None:
        state = self.table.state_of(code, side)
        known = self.probe(state)
        if known is None:
            return None
        return Row(known.group, self.text.text_of(state), (), known.value, known.keeps, known.legal, {})

    def final_rows(self) -> list[Row]:
        """Positions other than those that `rows` returns for SEED, as far as there are others."""
        return self.rows(FINAL_SEED, 0, frozenset(row.start for row in self.rows(SEED, 0)))

    def checks(self, _file: Path | None, say: Say) -> Iterator[Check]:
        """Check against the published value."""
        size = self.rules.size
        say(f"Go: {size} x {size}")
        yield Check(f"Go: value of {self.rules.name} without komi", self.table.value(), VALUES[size])


def solution_of(rules: GoRules, text: Text) -> Solution | None:
    """The truth about these rules; None for a board that is too large."""
    if rules.size > LARGEST[rules.superko]:
        return None
    truth = Truth(rules, text)
    return Solution(
        covers="nearly all positions, with their past",
        probe=truth.probe,
        probe_with_past=truth.probe_with_past,
        rows=truth.rows,
        checks=truth.checks,
        groups=GROUPS,
        depth=DEPTH if rules.size > SMALLEST else 0,
        final_rows=truth.final_rows if rules.size > SMALLEST else None,
    )
