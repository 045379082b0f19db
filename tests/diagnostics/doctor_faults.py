"""Helpers for tests of the doctor's findings, and the figures of a healthy server."""

from azselfplay.diagnostics.doctor.findings import Finding, Level

FIGURES = {"evaluators": 1, "evals_per_s": 5.0, "weights_version": 3, "sessions": {"trainer": 1}}


def faults(findings: list[Finding], level: Level = Level.FAULT) -> set[str]:
    """Return the checks that found a fault; each must say what to do."""
    assert all(bool(one.todo) == (one.level is not Level.OK) for one in findings)
    return {one.check for one in findings if one.level is level}
