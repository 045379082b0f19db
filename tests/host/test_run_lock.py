"""A run folder's lock tells how its last holder ended."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from azselfplay.host import runs
from azselfplay.host.runs import Left, RunLock, left_by

HOLD = "import sys; from azselfplay.host.runs import RunLock; from pathlib import Path; "


def test_a_clean_end_and_a_kill_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "trainer.lock"
    assert left_by(path) is None
    RunLock(path).close()
    assert left_by(path) is Left.ENDED
    program = HOLD + f"held = RunLock(Path({str(path)!r})); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    assert left_by(path) is Left.KILLED
    with RunLock(path):
        pass
    assert left_by(path) is Left.ENDED


def test_a_lock_of_another_machine_says_nothing_of_its_end(tmp_path: Path) -> None:
    path = tmp_path / "azserver.lock"
    path.write_text("8c1e9f2a-boot-of-another 4026531836")
    assert left_by(path) is Left.ELSEWHERE


def test_whoever_does_not_get_the_lock_leaves_its_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "azserver.lock"
    with RunLock(path):
        held = path.read_text()
        with pytest.raises(BlockingIOError):
            RunLock(path)
        assert path.read_text() == held != ""


def test_whoever_looks_whether_it_is_held_keeps_nobody_from_taking_it(tmp_path, monkeypatch) -> None:
    """`azplay status` holds the lock for a moment."""
    path, waits = tmp_path / "azserver.lock", []
    looking = path.open("a")
    fcntl.flock(looking, fcntl.LOCK_SH)

    def look_away(seconds: float) -> None:
        waits.append(seconds)
        looking.close()

    monkeypatch.setattr(runs.time, "sleep", look_away)
    RunLock(path).close()
    assert len(waits) == 1
