"""Child processes: started fresh (never forked), watched, restarted with back-off, ended in two stages.

A child has its own session, so that Ctrl-C in a terminal reaches only the parent, which then ends its
children in order. It never outlives a parent that was killed (`host.child_process`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from azselfplay.host.aio import Stop
from azselfplay.host.child_process import BACKOFF_FIRST, BACKOFF_LONGEST, ChildProcess, start_patiently
from azselfplay.host.exits import NOT_RETRIED, Exit, Fatal
from azselfplay.host.logs import event_in

log = logging.getLogger(__name__)

HEALTHY_AFTER = 60.0
"""Seconds alive after which the back-off starts again from its shortest wait."""
_SOURCES = Path(__file__).resolve().parents[2]
"""The folder that holds our packages."""
TAIL = 4096
"""Bytes of a child's last output that are kept, for the error message if it must not be restarted."""


def python_module(module: str, *flags: str) -> list[str]:
    """Return the command line that runs one of our modules in a process of its own.

    `-P` keeps the current folder out of its imports: a file `server.py` or `net.py` there is not ours. Only
    where that folder is our own source tree may it be how our packages are found at all.
    """
    apart = () if Path.cwd() == _SOURCES else ("-P",)
    return [sys.executable, *apart, "-m", module, *flags]


_BUG = "this is a bug in azselfplay"


def describe_exit(code: int) -> str:
    """Return a description such as `exit 78 (CONFIG)` or `killed by SIGKILL`."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    name = next((f" ({known.name})" for known in Exit if known == code), "")
    return f"exit {code}{name}"


def _tell_end(name: str, code: int) -> None:
    """Log how a child ended after a stop, which asked it to end with SIGTERM."""
    if code in (Exit.OK, -signal.SIGTERM):
        log.info("%s has ended, as asked", name)
    else:
        log.warning("%s has ended: %s", name, describe_exit(code))


def to_stderr(output: bytes) -> None:
    """Default place for a child's output; what stderr does not accept is dropped."""
    with contextlib.suppress(OSError):
        sys.stderr.buffer.write(output)
        sys.stderr.buffer.flush()


@dataclass
class Child:
    """One child that is kept running."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    restart: bool
    on_start: Callable[[], None] | None
    on_exit: Callable[[int], None] | None
    sink: Callable[[bytes], None]
    pid: int | None = None
    """Process id of the running process; None between two."""
    starts: int = 0
    tail: bytearray = field(default_factory=bytearray)

    def last_error(self) -> str:
        """Return its last line about an error, without its command name and without box-drawing frames."""
        words = [line for line in self._lines() if line and line[0].isalnum()]
        return self.told_error() or (words or ["it said nothing"])[0]

    def told_error(self) -> str:
        """Return its last line about an error, "" if there is none. For a bug also what was raised."""
        lines = [line for line in self._lines() if line]
        for index in reversed(range(len(lines))):
            told = lines[index].partition("error: ")[2]
            if told and _BUG in told and index:
                return f"{lines[index - 1]} ({_BUG})"
            if told:
                return told
        return ""

    def _lines(self) -> list[str]:
        text = bytes(self.tail).decode(errors="replace")
        return [event_in(line.strip(" \u2502\r")) for line in text.splitlines()]


class Children:
    """A set of child processes that end together: `run(stop)` returns when all have ended after a stop."""

    def __init__(
        self,
        *,
        grace: float = 10.0,
        sink: Callable[[bytes], None] = to_stderr,
        backoff: float = BACKOFF_FIRST,
    ) -> None:
        """`grace`: seconds between SIGTERM and SIGKILL. `sink` gets what children print on both streams.
        `backoff`: seconds before the first restart."""
        self._grace = grace
        self._sink = sink
        self._backoff = backoff
        self._children: dict[str, Child] = {}
        self._new: asyncio.Queue[Child] = asyncio.Queue(maxsize=4096)

    def add(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        restart: bool = True,
        on_start: Callable[[], None] | None = None,
        on_exit: Callable[[int], None] | None = None,
        sink: Callable[[bytes], None] | None = None,
    ) -> None:
        """Keep `argv` running under this name, from now on or from the beginning of `run`.

        `env` is added to this process's environment without our settings (`AZ_*`). `on_start()` is called
        after each start, `on_exit(code)` after each end; negative codes are signals. Without `restart` it
        runs once, and `on_exit` decides what its end means.
        """
        child = Child(name, argv, env or {}, restart, on_start, on_exit, sink or self._sink)
        self._children[name] = child
        self._new.put_nowait(child)

    def pids(self) -> dict[str, int]:
        """Return the process ids of the children that run at this moment."""
        return {child.name: child.pid for child in self._children.values() if child.pid is not None}

    def told_error(self, name: str) -> str:
        """Return the last line about an error of a child's last process, "" if there is none."""
        return self._children[name].told_error()

    def restarts(self) -> int:
        """Return how often a child was restarted."""
        return sum(max(0, child.starts - 1) for child in self._children.values())

    async def run(self, stop: Stop) -> None:
        """Keep all children running until `stop`, then end them. When cancelled, kill them at once.

        Raises Fatal with a child's own message when it ended with a code that no restart can fix.
        """
        async with asyncio.TaskGroup() as group:
            starter = group.create_task(self._start_added(group, stop))
            await stop.finishing.wait()
            starter.cancel()

    async def _start_added(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        while True:
            group.create_task(self._keep(await self._new.get(), stop))

    async def _keep(self, child: Child, stop: Stop) -> None:
        """Start the child, wait for its end, report it, wait, and start again."""
        delay = self._backoff
        while not stop.finishing.is_set():
            started = time.monotonic()
            code = await self._run_once(child, stop)
            if code is None:
                return
            asked = stop.finishing.is_set()
            if child.on_exit is not None:
                child.on_exit(code)
            if not child.restart and not asked:
                return
            if stop.finishing.is_set():
                _tell_end(child.name, code)
                return
            if code in NOT_RETRIED:
                raise Fatal(f"{child.name}: {child.last_error()}", Exit(code))
            if time.monotonic() - started > HEALTHY_AFTER:
                delay = self._backoff
            why = describe_exit(code) + (f": {told}" if (told := child.told_error()) else "")
            log.warning("%s ended (%s), starting it again in %.1f s", child.name, why, delay)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.finishing.wait(), delay)
            delay = min(2 * delay, BACKOFF_LONGEST)

    async def _run_once(self, child: Child, stop: Stop) -> int | None:
        """Run one process and return its exit code. It is gone when this returns or is cancelled.

        Returns None when the stop came before it could be started.
        """
        child.tail.clear()
        process = await start_patiently(
            child.name, child.argv, child.env, stop=stop.finishing, backoff=self._backoff
        )
        if process is None:
            return None
        child.pid = process.pid
        child.starts += 1
        if child.on_start is not None:
            child.on_start()
        try:
            async with contextlib.aclosing(process), asyncio.TaskGroup() as group:
                ender = group.create_task(self._end_on_stop(process, stop))
                copier = group.create_task(_copy_output(process, child))
                code = await process.wait()
                ender.cancel()
                # A grandchild may keep the pipe open: read what is there, but do not wait for the pipe's end.
                await asyncio.wait({copier}, timeout=1.0)
                copier.cancel()
        finally:
            child.pid = None
        return code

    async def _end_on_stop(self, process: ChildProcess, stop: Stop) -> None:
        await stop.finishing.wait()
        process.terminate()
        await asyncio.sleep(self._grace)
        log.warning("process %d did not end within %.0f s: killing it", process.pid, self._grace)
        process.kill()


async def _copy_output(process: ChildProcess, child: Child) -> None:
    while output := await process.stdout.read(65_536):
        child.tail += output
        del child.tail[:-TAIL]
        child.sink(output)
