"""Runs azplay in this process: what it prints and its exit status, without the second that a process takes to
start.

For what a command refuses. That a status is the process's own, another test shows with a real process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from commands.azplay import main


class Ended(NamedTuple):
    """As of a process."""

    returncode: int
    stdout: str
    stderr: str


def azplay_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`azplay(*arguments)` of this process."""

    def azplay(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["azplay", *arguments])
        capsys.readouterr()
        try:
            code = main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Ended(code, *capsys.readouterr())

    return azplay
