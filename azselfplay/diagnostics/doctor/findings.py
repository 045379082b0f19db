"""What the checks of `azclient doctor` and `azserver doctor` find, and how it is shown.

`machine` and `probe` gather facts. Pure functions turn facts into findings: `machine` has those for the
machine, `service` those for a server as its peers see it. docs/troubleshooting.md lists all checks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from azselfplay.host.exits import Exit
from azselfplay.host.view import aligned


@dataclass(frozen=True)
class DoctorOptions:
    """How a doctor checks, besides the settings of what it checks."""

    json: bool = False
    """Print JSON, for scripts."""


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, but not as well as it could, or not for long."""
    FAULT = "fault"
    """It does not work."""


_NAMES = {Level.OK: "ok", Level.WARNING: "WARNING", Level.FAULT: "FAULT"}


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
    """Return FOUND if there is a fault, else OK; warnings do not count."""
    return Exit.FOUND if any(one.level is Level.FAULT for one in findings) else Exit.OK


def as_json(findings: Sequence[Finding]) -> str:
    """Return one JSON object: `findings`, and the number of findings of each level."""
    counts = {level.value: sum(one.level is level for one in findings) for level in Level}
    return json.dumps({**counts, "findings": [asdict(one) for one in findings]}, indent=1)


def as_text(findings: Sequence[Finding]) -> str:
    """Return a table, then what to do (the most serious findings first), then a summary line."""
    rows = [(_NAMES[one.level], one.check, one.found) for one in findings]
    lines = [aligned([("", "check", "found"), *rows], left=3)]
    for level in (Level.FAULT, Level.WARNING):
        found = [one for one in findings if one.level is level]
        lines += [f"\n{_NAMES[level]} {one.check}: {one.found}\n  {one.todo}" for one in found]
    faults, warnings = (sum(one.level is level for one in findings) for level in (Level.FAULT, Level.WARNING))
    return "\n".join([*lines, f"\n{len(findings)} checks; faults: {faults}, warnings: {warnings}"])


def printed(findings: Sequence[Finding], *, json: bool) -> int:
    """Print the findings, and return the exit status."""
    print(as_json(findings) if json else as_text(findings))
    return int(exit_status(findings))
