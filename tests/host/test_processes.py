"""Child processes: restarted when they die, ended with the parent, and described in plain words."""

import asyncio
import contextlib
import errno
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from azselfplay.host import processes
from azselfplay.host.aio import Stop, run
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.processes import Children, python_module, start

SLEEP = "import time; time.sleep(600)"


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def run_with(children: Children, script: Callable[[Stop], Coroutine[Any, Any, None]]) -> None:
    async def main(stop: Stop) -> None:
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            group.create_task(children.run(stop))
            await script(stop)

    run(main)


def test_a_killed_child_is_started_again() -> None:
    ends: asyncio.Queue[int] = asyncio.Queue()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    children = Children(sink=lines.put_nowait, backoff=0.01)
    command = python(f"import os; print(os.getpid(), flush=True); {SLEEP}")
    children.add("worker", command, on_exit=ends.put_nowait)
    pids = []

    async def script(stop: Stop) -> None:
        pids.append(int(await lines.get()))
        os.kill(pids[0], 9)
        assert await ends.get() == -9
        pids.append(int(await lines.get()))
        stop.request()

    run_with(children, script)
    assert pids[0] != pids[1]
    assert [children.restarts(prefix) for prefix in ("", "work", "evaluator-")] == [1, 1, 0]
    assert children.pids() == {}


def test_a_child_that_ends_again_and_again_is_an_error_and_one_end_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends: asyncio.Queue[int] = asyncio.Queue()
    children = Children(sink=lambda _: None, backoff=0.01)
    children.add("worker", python("raise SystemExit(75)"), on_exit=ends.put_nowait)

    async def script(stop: Stop) -> None:
        for _ in range(4):
            await ends.get()
        stop.request()

    run_with(children, script)
    found = [one.message for one in caplog.records]
    assert found[:2] == [
        "worker ended (exit 75 (TRY_AGAIN)), starting it again in 0.0 s",
        "worker ends again and again (exit 75 (TRY_AGAIN))",
    ]


def test_the_end_of_a_child_is_seen_with_its_code_and_output() -> None:
    async def main() -> None:
        async with contextlib.aclosing(await start(python("print('done'); raise SystemExit(3)"))) as child:
            assert (await child.stdout.read(), await child.wait()) == (b"done\n", 3)
        async with contextlib.aclosing(await start(python(SLEEP))) as child:
            child.terminate()
            assert await child.wait() == -signal.SIGTERM

    asyncio.run(main())


def test_a_file_in_the_current_folder_takes_no_module_s_place(tmp_path, monkeypatch) -> None:
    (tmp_path / "server.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    ended = subprocess.run(python_module("server.main", "--version"), capture_output=True, check=False)
    assert ended.returncode == Exit.OK, ended.stderr


def test_children_that_ignore_sigterm_are_killed_after_the_grace() -> None:
    """A stop always comes to an end, whatever children do."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    ends: list[int] = []
    children = Children(grace=0.1, sink=lines.put_nowait)
    ignoring = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); "
    children.add("stubborn", python(ignoring + SLEEP), on_exit=ends.append)

    async def script(stop: Stop) -> None:
        await lines.get()
        stop.request()

    run_with(children, script)
    assert ends == [-9]


def test_a_child_that_serves_others_ends_after_them() -> None:
    """Games in progress thus still get evaluations while azclient drains."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    ends: list[str] = []
    children = Children(sink=lines.put_nowait)
    children.add("evaluator", python(SLEEP), serves=True, on_exit=lambda _: ends.append("evaluator"))
    # `os.write`, because a signal may come within `print`, which cannot be entered twice.
    drains = "import os, signal; signal.signal(15, lambda *_: os.write(1, b'draining')); "
    drains += "os.write(1, b'ready'); signal.pause(); signal.pause()"
    children.add("worker", python(drains), on_exit=lambda _: ends.append("worker"))

    async def script(stop: Stop) -> None:
        assert await lines.get() == b"ready"
        stop.request()
        assert await lines.get() == b"draining"
        os.kill(children.pids()["worker"], signal.SIGKILL)

    run_with(children, script)
    assert ends == ["worker", "evaluator"]


@pytest.mark.parametrize(
    ("end", "level"), [("", "INFO"), ("signal.signal(15, lambda *_: sys.exit(3));", "WARNING")]
)
def test_after_a_stop_only_an_unusual_end_is_a_warning(end: str, level: str, caplog) -> None:
    """A child that SIGTERM ends has done what it was asked to do."""
    caplog.set_level(logging.INFO, "azselfplay.host.processes")
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    children = Children(sink=lines.put_nowait)
    children.add("child", python(f"import signal, sys; {end} print('ready', flush=True); {SLEEP}"))

    async def script(stop: Stop) -> None:
        await lines.get()
        stop.request()

    run_with(children, script)
    (told,) = [record for record in caplog.records if "has ended" in record.getMessage()]
    assert told.levelname == level
    assert ("as asked" in told.getMessage()) == (level == "INFO")


def test_a_child_with_a_wrong_setting_ends_the_parent_with_its_words() -> None:
    """CONFIG, USAGE, PROTOCOL and REFUSED are not retried."""
    children = Children(sink=lambda _: None)
    complains = "import sys; print('worker: error: no such game', file=sys.stderr); sys.exit(78)"
    children.add("worker-0", python(complains))
    with pytest.raises(Fatal, match="worker-0: no such game") as caught:
        run(children.run)
    assert caught.value.code == Exit.CONFIG


def test_a_child_does_not_outlive_a_killed_parent() -> None:
    """This holds even when the parent gets SIGKILL and cannot clean up. The child need not take part."""
    parent = (
        "from azselfplay.host.aio import run\nfrom azselfplay.host.processes import Children\n"
        "children = Children()\n"
        f"children.add('child', {python(f'import os; print(os.getpid(), flush=True); {SLEEP}')})\n"
        "run(children.run)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        pidfd = os.pidfd_open(int(process.stderr.readline()))
        process.kill()
        assert select.select([pidfd], [], [], 240)[0], "the child is still alive"
        os.close(pidfd)


def test_a_child_that_cannot_be_started_for_want_of_open_files_is_started_later(monkeypatch, caplog) -> None:
    """So is one for want of processes or of memory."""
    missing = [errno.EMFILE, errno.EAGAIN, errno.ENOMEM]
    popen, left = subprocess.Popen, list(missing)

    def short(*args: Any, **options: Any) -> Any:
        if left:
            code = left.pop(0)
            raise OSError(code, os.strerror(code))
        return popen(*args, **options)

    monkeypatch.setattr(processes.subprocess, "Popen", short)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    children = Children(sink=lines.put_nowait, backoff=0.01)
    children.add("child", python("print('up')"))

    async def script(stop: Stop) -> None:
        assert (await lines.get()).strip() == b"up"  # the end of the line may come by itself
        stop.request()

    run_with(children, script)
    said = [line.partition("(")[2].partition(")")[0] for line in caplog.messages if "cannot be" in line]
    assert said == [os.strerror(code) for code in missing]


def test_a_command_that_is_not_there_ends_the_parent_with_its_name() -> None:
    """Another attempt would not help."""
    children = Children(sink=lambda _: None)
    children.add("worker-0", ["/no/such/command"])
    with pytest.raises(Fatal, match="worker-0: /no/such/command cannot be started: No such file"):
        run(children.run)


def test_the_second_signal_kills_children_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azselfplay.host.aio.TOGETHER", 0.0)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    children = Children(grace=600, sink=lines.put_nowait)
    ignoring = "import os, signal; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); "
    children.add("stubborn", python(ignoring + SLEEP))
    pids: list[int] = []

    async def script(stop: Stop) -> None:
        pids.append(int(await lines.get()))
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.finishing.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        run_with(children, script)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert children.pids() == {}
