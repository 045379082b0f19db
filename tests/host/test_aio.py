"""The process shell: two stages of stopping, and plain errors out of task groups."""

import asyncio
import errno
import io
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import zmq

from azselfplay.host.aio import TICK, Stop, patience, run
from azselfplay.host.exits import Exit, Fatal, guarded


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_for_a_clean_end(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sets `finishing`, and main ends by itself; a program without a log says so, too. SIGHUP comes from a
    terminal that is closed."""
    ended = []

    async def main(stop: Stop) -> None:
        os.kill(os.getpid(), number)
        await stop.finishing.wait()
        ended.append("cleanly")

    monkeypatch.setattr("azselfplay.host.aio.log", logging.Logger("alone", logging.WARNING))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    try:
        run(main)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended == ["cleanly"]
    assert f"{number.name}: finishing (waiting for what is in flight)" in capsys.readouterr().err


def test_a_program_under_nohup_survives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def main(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(5):  # a handler would run in one of the loop's next turns
            await asyncio.sleep(0)
        assert not stop.finishing.is_set()

    try:
        run(main)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_fatal_inside_nested_task_groups_surfaces_as_itself() -> None:
    async def fail() -> None:
        raise Fatal("the disk is full", Exit.DISK)

    async def main(stop: Stop) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(stop.finishing.wait())
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fail())

    with pytest.raises(Fatal, match="the disk is full") as caught:
        run(main)
    assert caught.value.code == Exit.DISK


def test_an_exception_in_a_loop_callback_ends_the_program() -> None:
    """No process goes on with half of its callbacks dead."""

    async def main(stop: Stop) -> None:
        asyncio.get_running_loop().call_soon(lambda: {}["missing"])
        await stop.finishing.wait()

    with pytest.raises(KeyError, match="missing"):
        run(main)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Fatal("port 5600 is in use: give another", Exit.CONFIG), 78, "port 5600 is in use: give another"),
        (OSError(errno.EIO, "I/O error", "a/file"), 74, "a/file cannot be read or written: I/O error"),
        (OSError(errno.EROFS, "read-only", "a/file"), 74, "a/file cannot be written: .*mount one there"),
        (OSError(errno.EACCES, "not permitted", "a/file"), 74, "a/file: not permitted; run as"),
        *(
            (kind(errno.EMFILE, "Too many open files"), 75, "Too many open files; raise the limit on open")
            for kind in (OSError, zmq.ZMQError)
        ),
    ],
)
def test_guarded_prints_what_is_no_bug_as_one_line(error: Exception, code: int, told: str, capsys) -> None:
    """It prints no traceback. After the codes 74 and 75 a parent starts the process again."""

    def main() -> int:
        raise error

    assert guarded(main) == code
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert re.search(f"error: .*{told}", printed)


def test_a_path_that_is_no_text_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python can read file names with bytes that are not UTF-8, but it cannot write such text."""

    def main() -> int:
        (tmp_path / "config.toml").write_text(f"runs = '{os.fsdecode(b'/tmp/Jos' + bytes([233]))}'", "utf-8")
        return 0

    assert guarded(main) == Exit.CONFIG
    said = capsys.readouterr().err
    assert "bytes that are not UTF-8 text; rename it" in said
    assert "/tmp/Jos\\udce9" in said


@pytest.mark.parametrize(("error", "code"), [(Fatal("no", Exit.CONFIG), 78), (KeyError("no"), 70)])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> int:
        raise error

    full = io.StringIO()
    monkeypatch.setattr(full, "write", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
    monkeypatch.setattr(sys, "stderr", full)
    assert guarded(main) == code


def test_streams_that_were_closed_before_the_start_take_what_is_written_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def main() -> int:
        print("to nobody", sys.stderr.isatty(), sys.stdin.read(), file=sys.stderr)
        return 0

    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert guarded(main) == 0


def test_a_result_counts_though_nobody_reads_what_is_said_of_it() -> None:
    code = (
        "import sys\nfrom azselfplay.host.exits import guarded\n"
        "def main():\n    print('bad')\n    sys.stdin.read()\n    return 65\nraise SystemExit(guarded(main))"
    )
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    asked = [sys.executable, "-c", code]
    with subprocess.Popen(asked, stdin=-1, stdout=-1, stderr=-1, env=buffered) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.communicate(b"")[1] == b""
    assert process.returncode == 65


def test_output_that_a_full_disk_does_not_take_ends_with_one_line_however_short_it_is() -> None:
    code = (
        "from azselfplay.host.exits import guarded\ndef main():\n    print('short')\n    return 0\n"
        "raise SystemExit(guarded(main))"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == Exit.DISK
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """`azserver --help | head -1` ends and writes nothing to stderr."""
    code = (
        "from azselfplay.host.exits import guarded\n"
        "def main():\n    while True:\n        print('line ' * 1000, flush=True)\n"
        "raise SystemExit(guarded(main))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("command", "files"),
    [
        *(("trainer", 24), ("client.main --server 127.0.0.1:1", 64)),
        *(("server.main --gpus cpu", 24), ("azselfplay.lab.web.command .", 64)),
    ],
)
def test_a_program_that_may_open_hardly_any_files_ends_with_a_sentence(
    tmp_path: Path, command: str, files: int
) -> None:
    """Before, the trainer ended with a traceback or was killed by libzmq, and the pages and azclient answered
    nobody."""
    limited = ["sh", "-c", f"ulimit -n {files}; exec {sys.executable} -m {command}"]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == Exit.CONFIG
    assert f"this user may open {files} files, and at least" in done.stderr
    assert "Traceback" not in done.stderr


class ClockOfTest(asyncio.SelectorEventLoop):
    """Its time passes only if `now` is set."""

    now = 0.0

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("step", "steps", "is_late"), [(3600.0, 1, False), (TICK, 9, False), (TICK, 11, True)]
)
def test_patience_does_not_count_time_in_which_the_process_itself_stood_still(
    step: float, steps: int, is_late: bool
) -> None:
    loop = ClockOfTest()

    async def main() -> bool:
        try:
            async with patience(10 * TICK):
                for _ in range(steps):
                    await turns()
                    loop.now += step
                await turns()
        except TimeoutError:
            return True
        return False

    async def turns() -> None:
        for _ in range(9):
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(main()) is is_late
