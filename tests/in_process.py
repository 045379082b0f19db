"""Runs azplay in this process, and returns what it prints and its exit status. That saves the second that a
process takes to start.

Use it for what a command refuses. Another test shows with a real process that the status becomes the
process's exit status.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from azselfplay.lab.azplay import main


class Ended(NamedTuple):
    """What a process returns: exit status and output."""

    returncode: int
    stdout: str
    stderr: str


def azplay_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return a function that runs `azplay(*arguments)` in this process."""

    def azplay(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["azplay", *arguments])
        capsys.readouterr()
        try:
            code = main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Ended(code, *capsys.readouterr())

    return azplay
