"""The result of one check, and how results are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from runtime.exits import Exit
from runtime.text_table import aligned


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but not as well as it could, or not for long."""
    FAULT = "fault"
    """It does not work."""


@dataclass(frozen=True)
class Finding:
    """What a check has found."""

    check: str
    level: Level
    found: str
    todo: str = ""
    """What to do about it; empty if all is well."""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Level.OK, found)


def warning(check: str, found: str, todo: str) -> Finding:
    return Finding(check, Level.WARNING, found, todo)


def fault(check: str, found: str, todo: str) -> Finding:
    return Finding(check, Level.FAULT, found, todo)


def exit_status(findings: Iterable[Finding]) -> Exit:
    """FOUND if there is a fault; warnings do not count."""
    return Exit.FOUND if any(one.level is Level.FAULT for one in findings) else Exit.OK


def as_json(findings: Sequence[Finding]) -> str:
    """One object: `findings`, and how many of each level there are."""
    counts = {level.value: sum(one.level is level for one in findings) for level in Level}
    return json.dumps({**counts, "findings": [asdict(one) for one in findings]}, indent=1)


def as_text(findings: Sequence[Finding]) -> str:
    """A table, then what to do, the most serious first, then a summary line."""
    rows = [(_NAMES[one.level], one.check, one.found) for one in findings]
    lines = [aligned([("", "check", "found"), *rows], left=3)]
    for level in (Level.FAULT, Level.WARNING):
        found = [one for one in findings if one.level is level]
        lines += [f"\n{_NAMES[level]} {one.check}: {one.found}\n  {one.todo}" for one in found]
    faults, warnings = (sum(one.level is level for one in findings) for level in (Level.FAULT, Level.WARNING))
    return "\n".join([*lines, f"\n{len(findings)} checks; faults: {faults}, warnings: {warnings}"])


_NAMES = {Level.OK: "ok", Level.WARNING: "WARNING", Level.FAULT: "FAULT"}
