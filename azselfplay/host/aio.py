"""Runs one asyncio program per process: uvloop, two-stage stop on signals, plain errors.

The first SIGINT, SIGTERM or SIGHUP asks for a clean end (`Stop.finishing`), the second one cancels at once.
Signals that follow the first within TOGETHER seconds count as one signal with it: `timeout` and some
supervisors signal a process and then its group.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from azselfplay.host.exits import Exit, Fatal

T = TypeVar("T")

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""SIGHUP, which the kernel sends when a terminal is closed, is handled too, unless the process was started
with SIGHUP ignored (nohup)."""
TOGETHER = 0.3
"""Seconds. Nobody presses Ctrl-C twice within this time."""
LEAST_FILES = 128
"""File descriptors that any of our programs may need: a trainer has 34 open, and more while it writes a
checkpoint or uses a GPU. When a process has no descriptor left, libzmq aborts it before we can print an error
message."""


TICK = 0.5
"""Seconds between two looks of `patience` at the clock."""


class Stop:
    """How a process is asked to end. `finishing` is set by the first signal or by `request()`."""

    def __init__(self) -> None:
        self.finishing = asyncio.Event()
        self.waits_for = "what is in flight"
        """What a clean end waits for, as text for people. The program may set a more exact text."""
        self.cancel: Callable[[], object] = self.request
        """Second stage: end now; unfinished work is lost. The program that runs sets it."""
        self._signalled: float | None = None

    def request(self) -> None:
        """First stage: finish cleanly. Safe to call more than once."""
        self.finishing.set()

    def on_signal(self, number: int, now: float) -> None:
        """Handle a signal. `now` is in seconds, on any one clock."""
        name = signal.Signals(number).name
        # One Ctrl-C may reach a process twice: from the terminal through its group, and from its supervisor.
        if self._signalled is not None and now - self._signalled < TOGETHER:
            return
        self._signalled = now
        if self.finishing.is_set():
            log.warning("%s again: stopping at once", name)
            self.cancel()
            return
        # A command that sets up no log shows warnings only.
        level = logging.INFO if log.isEnabledFor(logging.INFO) else logging.WARNING
        log.log(level, "%s: finishing (waiting for %s); repeat it to stop at once", name, self.waits_for)
        self.request()


def run(main: Callable[[Stop], Coroutine[Any, Any, None]]) -> None:
    """Run `main(stop)` to its end on uvloop.

    Raises the Fatal that a task inside raised, however many task groups wrapped it, Fatal(CONFIG) as
    `raise_file_limit` does, and KeyboardInterrupt when a second signal cut the program short.
    """
    import uvloop  # only programs with a loop of their own pay for it

    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_with_signals(main))
    except BaseExceptionGroup as group:
        raise first_cause(group) from group


def raise_file_limit(least: int = LEAST_FILES) -> int:
    """Raise RLIMIT_NOFILE to this user's maximum and return that maximum. Raises Fatal(CONFIG) if it is below
    `least`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # If there is no limit, take a number that is larger than any of our programs needs.
    files = 1_048_576 if hard == resource.RLIM_INFINITY else hard
    if files < least:
        raise Fatal(
            f"this user may open {files} files, and at least {least} are needed: raise the limit (ulimit -n, "
            "LimitNOFILE= in systemd, --ulimit nofile= in Docker)",
            Exit.CONFIG,
        )
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return files


async def unless_stopped(work: Awaitable[T], stop: Stop) -> T | None:
    """Return the result of `work`. If a clean end is asked for first, cancel `work` and return None."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.finishing.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (task, stopped):
            one.cancel()
        await asyncio.wait({task, stopped})  # it must not run any more when its caller closes what it uses
    return None if task.cancelled() else task.result()


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Like asyncio.timeout, but time in which this process itself stood still (Ctrl-Z, a paused container)
    does not count: what it waits for may have stood still, too, or its answer is not read yet."""
    loop = asyncio.get_running_loop()

    async def count() -> None:
        left = seconds
        while left > 0:
            before, step = loop.time(), min(left, TICK)
            await asyncio.sleep(step)
            if loop.time() - before < step + TICK:
                left -= step
        limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        counting = asyncio.create_task(count())
        try:
            yield
        finally:
            counting.cancel()


async def first_of(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, for `seconds` at most."""
    waits = {asyncio.ensure_future(event.wait()) for event in events}
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def first_cause(error: BaseException) -> BaseException:
    """Return the Fatal inside a (nested) exception group, else its first exception that is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = (error.subgroup(Fatal) or error).exceptions[0]
    return error


async def _with_signals(main: Callable[[Stop], Coroutine[Any, Any, None]]) -> None:
    """Run `main` as a task of its own, so that the second signal cancels it and not the runner."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    failures: list[BaseException] = []

    def on_signal(number: int) -> None:
        stop.on_signal(number, time.monotonic())

    def on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # If the context names a transport, only that connection has failed, and the loop has closed it.
        if error is None or "transport" in context:
            loop.default_exception_handler(context)
            return
        # A callback of the loop has raised. The program ends; otherwise half of it would keep running.
        failures.append(error)
        task.cancel()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(main(stop))
        stop.cancel = task.cancel
        loop.set_exception_handler(on_error)
        # Under nohup the terminal may go away, so SIGHUP stays ignored.
        hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
        handled = (*SIGNALS, *hangup)
        for number in handled:
            loop.add_signal_handler(number, on_signal, number)
        try:
            await asyncio.wait({task})
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
    if failures:
        raise failures[0]
    if task.cancelled():
        raise KeyboardInterrupt


class Faults:
    """Counts and logs the unexpected exceptions of one process. A Fatal is not unexpected: it ends the
    process on purpose."""

    def __init__(self, log: logging.Logger) -> None:
        self.count = 0
        self._log = log
        self._known: set[str] = set()

    def note(self, where: str, error: Exception) -> None:
        """Count `error`. The first error of its kind at `where` is logged with its traceback; each further
        one gets a single line.

        Raises `error` again if it is a Fatal.
        """
        if isinstance(error, Fatal):
            raise error
        self.count += 1
        kind = f"{where}: {type(error).__name__}"
        if kind in self._known:
            self._log.warning("%s: again %r", where, error)
            return
        self._known.add(kind)
        self._log.error("%s: a bug in azselfplay; only this event is lost", where, exc_info=error)

    @contextmanager
    def survived(self, where: str) -> Iterator[None]:
        """Note an exception that the block raises, and continue after the block."""
        try:
            yield
        except Exception as error:
            self.note(where, error)
