"""Runs azplay in this process, and returns what it prints and its exit status. That saves the second that a
process takes to start.

Use it for what a command refuses. Another test shows with a real process that the status becomes the
process's exit status.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from azselfplay.host.exits import Exit, Fatal
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


@contextmanager
def ends(code: Exit, match: str | None = None) -> Iterator[pytest.ExceptionInfo[Fatal]]:
    """Expect a `Fatal` with this exit code, whose words match."""
    with pytest.raises(Fatal, match=match) as caught:
        yield caught
    assert caught.value.code == code
