"""The trainer's figures over time, from figures.jsonl."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from diagnostics.alerts import Lesson
from runtime.reading import json_in, open_regular
from runtime.runs import RunFolder

STEP = "trainer/step"
LEARNED = ("policy_loss", "policy_entropy", "value_loss")
LESSONS = 30
"""Number of training figures that alerts compare."""


@dataclass(frozen=True)
class History:
    """Figures by name, one row per moment, in the order of training."""

    rows: list[dict[str, float]]
    """Rows of figures with the names that TensorBoard shows, such as `trainer/policy_loss`; `time` in seconds
    since 1970."""
    damaged: int = 0
    """Lines that could not be read. The last line may be incomplete because it is being written."""

    def curve(self, name: str) -> tuple[list[float], list[float]]:
        """(steps, values) of the rows that have the figure."""
        known = [row for row in self.rows if name in row]
        return [row[STEP] for row in known], [row[name] for row in known]

    def names(self, group: str) -> list[str]:
        """Names of a group's figures, in their order: `probe_values` -> `probe_values/start`, ..."""
        prefix = f"{group}/"
        return list({name: None for row in self.rows for name in row if name.startswith(prefix)})

    def lessons(self) -> list[Lesson]:
        """Losses at points spread over the last half of training."""
        known = [row for row in self.rows if all(f"trainer/{name}" in row for name in LEARNED)]
        last = known[len(known) // 2 :]
        chosen = last[:: max(1, -(-len(last) // LESSONS))]
        return [_lesson(row) for row in chosen]


def _lesson(row: dict[str, float]) -> Lesson:
    policy, entropy, value = (row[f"trainer/{name}"] for name in LEARNED)
    return Lesson(int(row[STEP]), policy, entropy, value, row.get("trainer/held_out_value_loss"))


def read_history(run: RunFolder) -> History:
    """The figures of a run; none if it has not trained yet."""
    rows, damaged = _lines(run.figures_log)
    return History(_forward(rows), damaged)


def _lines(path: Path) -> tuple[list[dict[str, float]], int]:
    rows, damaged = [], 0
    try:
        with open_regular(path) as file:
            for line in file:
                row = row_of(line)
                if row is None:
                    damaged += 1
                else:
                    rows.append(row)
    except OSError:
        pass
    return rows, damaged


def row_of(line: bytes) -> dict[str, float] | None:
    """The numbers of a line of figures.jsonl; None if it is damaged, or incomplete."""
    try:
        found = json_in(line)
        row = {name: float(n) for name, n in found.items() if isinstance(n, int | float)}
        row[STEP], row["time"]
    except (ValueError, AttributeError, KeyError, OverflowError):
        return None
    return row


def _forward(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Drop rows of steps that the trainer repeated after it returned to a checkpoint."""
    kept: list[dict[str, float]] = []
    for row in rows:
        while kept and kept[-1][STEP] >= row[STEP]:
            kept.pop()
        kept.append(row)
    return kept
