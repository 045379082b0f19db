"""Child processes: restarted when they die, ended with the parent, reported in plain words."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runtime.aio import Stop, run
from runtime.exits import Exit, Fatal
from runtime.processes import Children, describe_exit

SLEEP = "import time; time.sleep(600)"


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def run_with(children: Children, script: Callable[[Stop], Coroutine[Any, Any, None]]) -> None:
    async def main(stop: Stop) -> None:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(children.run(stop))
            await script(stop)

    run(main)


def test_a_killed_child_is_started_again() -> None:
    """SIGKILL one: its exit is told, and another process takes its place."""
    ends: asyncio.Queue[int] = asyncio.Queue()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    children = Children(sink=lines.put_nowait, backoff=0.01)
    children.add(
        "worker", python(f"import os; print(os.getpid(), flush=True); {SLEEP}"), on_exit=ends.put_nowait
    )
    pids = []

    async def script(stop: Stop) -> None:
        pids.append(int(await lines.get()))
        os.kill(pids[0], 9)
        assert await ends.get() == -9
        pids.append(int(await lines.get()))
        stop.request()

    run_with(children, script)
    assert pids[0] != pids[1]
    assert children.restarts() == 1
    assert children.pids() == {}


def test_children_that_ignore_sigterm_are_killed_after_the_grace() -> None:
    """A stop always ends, whatever children do."""
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


def test_a_child_with_a_wrong_setting_ends_the_parent_with_its_words() -> None:
    """CONFIG, USAGE, PROTOCOL and REFUSED are not retried."""
    children = Children(sink=lambda _: None)
    children.add(
        "worker-0", python("import sys; print('worker: error: no such game', file=sys.stderr); sys.exit(78)")
    )

    async def main(stop: Stop) -> None:
        await children.run(stop)

    with pytest.raises(Fatal, match="worker-0: no such game") as caught:
        run(main)
    assert caught.value.code == Exit.CONFIG


def test_a_child_without_restart_runs_once() -> None:
    """Its end is told and nothing else happens."""
    ends: asyncio.Queue[int] = asyncio.Queue()
    children = Children(sink=lambda _: None)
    children.add("once", python("raise SystemExit(3)"), restart=False, on_exit=ends.put_nowait)

    async def script(stop: Stop) -> None:
        assert await ends.get() == 3
        stop.request()

    run_with(children, script)
    assert children.restarts() == 0


def test_a_child_does_not_outlive_a_killed_parent() -> None:
    """`die_with_parent` holds even when the parent gets SIGKILL and can clean up nothing."""
    child = (
        "from runtime.processes import die_with_parent; die_with_parent(); print('up', flush=True); " + SLEEP
    )
    parent = (
        "import sys, asyncio\n"
        "from runtime.aio import run\nfrom runtime.processes import Children\n"
        "children = Children()\n"
        f"children.add('child', [sys.executable, '-c', {child!r}])\n"
        "run(children.run)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"up\n"
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=True)
        child_pid = int(found.stdout)
        pidfd = os.pidfd_open(child_pid)
        process.kill()
        assert select.select([pidfd], [], [], 10)[0], "the child is still alive"
        os.close(pidfd)


def test_exit_codes_are_told_by_name() -> None:
    """A log line says what happened without a table beside it."""
    assert describe_exit(78) == "exit 78 (CONFIG)"
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(3) == "exit 3"


def test_the_second_signal_kills_children_at_once() -> None:
    """Even those that ignore SIGTERM, and without waiting for the grace."""
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
