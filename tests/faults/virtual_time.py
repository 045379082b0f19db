"""An event loop whose clock jumps to the next thing to do, and processes that can be killed in it.

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
"""Turns of the loop without any time passing."""
LONGEST_WORK = 0.05
"""Seconds that work for a thread may take."""


class Killed(BaseException):
    """The process that runs now has been ended: none of its code goes on."""


class Deadlock(AssertionError):
    """Everybody waits for ever, or somebody never does."""


class Process:
    """A part that can be killed at any time: then none of its tasks, timers or messages do anything more."""

    current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.alive = True
        self.at_end: list[Callable[[], object]] = []
        self.crash_at = ""
        """Crash point at which it dies when it comes there for the `crash_after`th time."""
        self.crash_after = 0
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []

    def spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run a coroutine, and all that it starts, as part of this process."""
        context = contextvars.copy_context()
        context.run(Process.current.set, self)
        self._tasks.append(context.run(lambda: self._loop.create_task(work())))

    def kill(self) -> None:
        """As SIGKILL does. Ends of coroutines still run in the loop, and find that they can reach nobody."""
        if not self.alive:
            return
        self.alive = False
        for end in self.at_end:
            end()
        for task in self._tasks:
            task.cancel()

    def reached(self, point: str) -> None:
        """It has come to a crash point."""
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
        """Of the loop at this very time."""
        self.faults: list[str] = []
        """What nobody caught."""
        self.set_exception_handler(self._on_fault)

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Instead of waiting."""
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
        """Do `work` a little later, and hand its result over a little later still: a process may be killed
        before, in the middle (at a crash point) and behind it."""
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
    """A group of a killed process is told of when it is thrown away, which may be at any time."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Killed)[1] is None
    return isinstance(error, Killed)
