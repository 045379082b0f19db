"""An event loop whose clock jumps to the next event, and processes in it that can be killed.

Nothing waits and no thread runs: work for a thread is done in the loop, at a time drawn from the seed. So a
run is repeated exactly by its seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import Any

MOST_TURNS = 20_000
"""Most turns of the loop without any time passing."""
LONGEST_WORK = 0.05
"""Most seconds that work for a thread takes."""


class Killed(BaseException):
    """The running process has been killed: none of its code continues."""


class Deadlock(AssertionError):
    """Every part waits forever, or one never waits."""


class Process:
    """A part that can be killed at any time: after that none of its tasks, timers or messages have any
    effect."""

    current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.alive = True
        self.at_end: list[Callable[[], object]] = []
        self.crash_at = ""
        """Crash point at which it dies, the `crash_after`th time that it gets there."""
        self.crash_after = 0
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []

    def spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run a coroutine, and everything that it starts, as part of this process."""
        context = contextvars.copy_context()
        context.run(Process.current.set, self)
        self._tasks.append(context.run(lambda: self._loop.create_task(work())))

    def kill(self) -> None:
        """Kill it, as SIGKILL does. `finally` blocks of coroutines still run in the loop, but cannot reach
        any other part."""
        if not self.alive:
            return
        self.alive = False
        for end in self.at_end:
            end()
        for task in self._tasks:
            task.cancel()

    def reached(self, point: str) -> None:
        """Note that it has reached a crash point."""
        if point == self.crash_at:
            self.crash_after -= 1
            if self.crash_after <= 0:
                self.kill()
                raise Killed(point)


class VirtualLoop(asyncio.BaseEventLoop):
    """`time()` is virtual: seconds since the loop was made."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._now = 0.0
        self._rng = rng
        self._selector = self
        self._turns = 0
        """Turns of the loop at the present time."""
        self.faults: list[str] = []
        """Uncaught errors."""
        self.set_exception_handler(self._on_fault)

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Return at once, instead of waiting."""
        if timeout is None:
            raise Deadlock(f"nothing will ever happen again (at {self._now:.3f} s)")
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise Deadlock(f"time stands still at {self._now:.3f} s: somebody works on and on")
        if timeout > 0:
            self._turns = 0
            self._now = max(self._now + timeout, self._scheduled[0].when())
        return []

    def _process_events(self, _events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No thread has to be woken."""

    def run_in_executor(
        self, _executor: Any, work: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do `work` a little later, and deliver its result a little later still: a process may be killed
        before, during (at a crash point) and after it."""
        done: asyncio.Future[Any] = self.create_future()
        process = Process.current.get()

        def finish(set_result: Callable[[Any], None], result: Any) -> None:
            if not done.done() and (process is None or process.alive):
                set_result(result)

        def begin() -> None:
            if process is not None and not process.alive:
                return
            try:
                result, tell = work(*arguments), done.set_result
            except Killed:
                return
            except Exception as error:
                result, tell = error, done.set_exception
            self.call_later(self._rng.uniform(0, LONGEST_WORK), finish, tell, result)

        self.call_later(self._rng.uniform(0, LONGEST_WORK), begin)
        return done

    def _on_fault(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not _is_only_killed(error):
            self.faults.append(f"{context['message']}: {error!r}")


def _is_only_killed(error: object) -> bool:
    """Ignore an exception group of a killed process, which is reported when it is garbage-collected, at any
    time."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Killed)[1] is None
    return isinstance(error, Killed)
