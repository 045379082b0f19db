"""Child processes: started fresh (never forked without exec), watched, restarted with back-off, and ended in
two stages. `ChildProcess` is one process from start to end; `Children` keeps a set of child processes
running.

A child has its own session, so that Ctrl-C in a terminal reaches only the parent, which then ends its
children in order. A child never outlives its parent: before exec, the kernel is told to kill the child when
this process dies (PR_SET_PDEATHSIG). This holds for any command, even while it is still importing. The kernel
regards a thread as the parent, so only the main thread starts children. We use `subprocess.Popen` instead
of uvloop's own subprocess support, which leaks descriptors when a start fails because there are too few of
them. A thread waits for the child's end, because some systems have no pidfd. The last stage of ending is
SIGKILL, because a child that hangs must end, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from azselfplay.host.aio import Stop, first_of, unless_stopped
from azselfplay.host.config import without_settings
from azselfplay.host.exits import NOT_RETRIED, Exit, Fatal
from azselfplay.host.hardware import Gpus
from azselfplay.host.logs import event_in

log = logging.getLogger(__name__)

BACKOFF_FIRST = 0.5
BACKOFF_LONGEST = 30.0
"""Longest wait in seconds between a child's end (or a failed start) and its next start; the wait doubles."""
READ_LIMIT = 1 << 16
"""Bytes of a child's output that are buffered before the child must wait."""
SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""Errors of a start that may succeed later: no room for another process, no memory, or no file descriptor
left."""

HEALTHY_AFTER = 60.0
"""If a child has run for this many seconds, the back-off starts again from its shortest wait."""
_SOURCES = Path(__file__).resolve().parents[2]
"""The folder that holds our packages."""
TAIL = 4096
"""Bytes of a child's last output that are kept, for the error message if it must not be restarted."""
_BUG = "this is a bug in azselfplay"
_PR_SET_PDEATHSIG = 1
"""From Linux's <sys/prctl.h>."""


class ChildProcess:
    """A process that runs or has run. `start` makes it; its output is in `stdout` (and `stderr`).

    The caller must close it: `async with contextlib.aclosing(await start(argv)) as child`.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.stdout = asyncio.StreamReader(READ_LIMIT)
        self.stderr = asyncio.StreamReader(READ_LIMIT)
        """Ends at once unless stderr was requested."""
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._transports: list[asyncio.ReadTransport] = []

        def watch() -> None:
            """Wait in a thread for the end of the process."""
            with contextlib.suppress(ChildProcessError):  # `terminate` has already reaped the process
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # not reaped: the pid stays reserved
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(lambda: self._ended.set_result(process.wait()))

        threading.Thread(target=watch, name=f"child {self.pid}", daemon=True).start()

    @property
    def returncode(self) -> int | None:
        """None while it runs; a negative number is the signal that ended it."""
        return self._ended.result() if self._ended.done() else None

    async def connect(self) -> None:
        """Start reading its output."""
        for reader, pipe in ((self.stdout, self._process.stdout), (self.stderr, self._process.stderr)):
            if pipe is None:
                reader.feed_eof()
                continue
            protocol = partial(asyncio.StreamReaderProtocol, reader)
            transport, _ = await self._loop.connect_read_pipe(protocol, pipe)
            self._transports.append(transport)

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code."""
        # Shielded, because several tasks may wait: cancelling one must not cancel the future for the others.
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the process and to everything that it started in its session."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # Kill its whole process group; otherwise processes that it has started would be orphaned.
                os.killpg(self.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        self.kill()
        try:
            await self.wait()
        finally:
            for transport in self._transports:
                transport.close()


async def start(
    argv: Sequence[str], env: Mapping[str, str] | None = None, *, stderr: int = subprocess.STDOUT
) -> ChildProcess:
    """Start `argv` in a session of its own. Raises OSError if it cannot be started (see `SHORTAGES`).

    `env` is added to this process's environment without our settings (`AZ_*`); `stderr` as for Popen.
    """
    if threading.current_thread() is not threading.main_thread():
        # For the kernel, the parent is the thread that started the child: when that thread ends, the child is
        # killed.
        raise RuntimeError("child processes are started by the main thread only")
    process = subprocess.Popen(  # noqa: ASYNC220 (why it is not asyncio's: see the top)
        argv,
        env={**without_settings(os.environ), **(env or {})},
        # The child must not read keyboard input that is meant for its parent.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        # With a session of its own, Ctrl-C in the terminal reaches only the parent.
        start_new_session=True,
        preexec_fn=ending_with_parent(),
    )
    # From here on a process exists, which must not be left behind if anything fails.
    try:
        child = ChildProcess(process)
    except BaseException as error:
        process.kill()
        process.communicate()
        if isinstance(error, RuntimeError):  # no thread can be started: as when no process can
            raise OSError(errno.EAGAIN, str(error)) from error
        raise
    try:
        await child.connect()
    except BaseException:
        await child.aclose()
        raise
    return child


async def start_patiently(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    stop: asyncio.Event,
    stderr: int = subprocess.STDOUT,
    backoff: float = BACKOFF_FIRST,
) -> ChildProcess | None:
    """Like `start`, but try again while the machine lacks a resource. Returns None once `stop` is set.

    `name`: for the log. `backoff`: seconds before the second attempt, doubled for each further one. Raises
    Fatal if no later attempt can work either.
    """
    while not stop.is_set():
        try:
            return await start(argv, env, stderr=stderr)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise Fatal(f"{name}: {argv[0]} cannot be started: {error.strerror}") from error
            log.warning("%s cannot be started (%s), trying again in %.1f s", name, error.strerror, backoff)
        await first_of(stop, seconds=backoff)
        backoff = min(2 * backoff, BACKOFF_LONGEST)
    return None


def ending_with_parent(by: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return the function that the child calls after the fork. It makes the kernel send the signal `by` to
    the child when this process ends. All look-ups and imports happen here, before the fork."""
    prctl, parent, code = ctypes.CDLL(None).prctl, os.getpid(), int(Exit.INTERRUPTED)

    def tell_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(code)

    return tell_kernel


# ---- Children that are kept running --------------------------------------------------------------


def python_module(module: str, *flags: str) -> list[str]:
    """Return the command line that runs one of our modules in a process of its own.

    `-P` keeps the current folder out of the import path, because a file `server.py` or `net.py` there is not
    ours. `-P` is left out if the current folder is our own source tree: Python may find our packages only
    there.
    """
    apart = () if Path.cwd() == _SOURCES else ("-P",)
    return [sys.executable, *apart, "-m", module, *flags]


def gpus_of_torch() -> Gpus | None:
    """Return the GPUs that torch finds in a process of its own, because torch takes seconds to import; None
    if it cannot be asked."""
    asked = subprocess.run(python_module("net.gpu"), capture_output=True, check=False)
    return None if asked.returncode else Gpus(*json.loads(asked.stdout))


def describe_exit(code: int) -> str:
    """Return a description such as `exit 78 (CONFIG)` or `killed by SIGKILL`."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    name = next((f" ({known.name})" for known in Exit if known == code), "")
    return f"exit {code}{name}"


class Stopped(Exception):
    """The program was stopped before a child had ended."""


async def output_of(module: str, *arguments: str, stop: Stop) -> str:
    """Return what `python -m module` prints. Raises Fatal with its last line if it fails, Stopped if `stop`
    comes first."""
    process = await start_patiently(
        f"python -m {module}", python_module(module, *arguments), stop=stop.finishing, stderr=subprocess.PIPE
    )
    if process is None:
        raise Stopped

    async def talked() -> tuple[bytes, bytes, int]:
        # Read both pipes to the end before waiting: a full pipe would stop the child.
        output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        return output, errors, await process.wait()

    async with contextlib.aclosing(process):
        said = await unless_stopped(talked(), stop)
    if said is None or stop.finishing.is_set():
        raise Stopped
    output, errors, code = said
    if code:
        lines = (errors or output).decode(errors="replace").strip().splitlines() or ["it said nothing"]
        # Our own exit statuses say what to do; a signal or a crash is an internal fault.
        known = Exit(code) if code in set(Exit) else Exit.INTERNAL
        raise Fatal(f"python -m {module} failed ({describe_exit(code)}): {lines[-1]}", known)
    return output.decode(errors="replace")


def to_stderr(output: bytes) -> None:
    """Write a child's output to stderr (the default sink). Output that stderr does not accept is dropped."""
    with contextlib.suppress(OSError):
        sys.stderr.buffer.write(output)
        sys.stderr.buffer.flush()


@dataclass
class Child:
    """One child that is kept running."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    sink: Callable[[bytes], None]
    restart: bool = True
    serves: bool = False
    on_start: Callable[[], None] | None = None
    on_exit: Callable[[int], None] | None = None
    pid: int | None = None
    """Process id of the running process; None while none runs."""
    starts: int = 0
    tail: bytearray = field(default_factory=bytearray)

    def reported_error(self) -> str:
        """Return the child's last line about an error, "" if there is none. For a bug, the line also names
        the exception."""
        lines = [line for line in self.lines() if line]
        for index in reversed(range(len(lines))):
            told = lines[index].partition("error: ")[2]
            # The line before names the exception, which says more than "this is a bug".
            if told and _BUG in told and index:
                return f"{lines[index - 1]} ({_BUG})"
            if told:
                return told
        return ""

    def lines(self) -> list[str]:
        """Return the lines of its last output, without box-drawing frames."""
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
        self._served_ended = asyncio.Event()
        """Set after a stop, once all children have ended except those that serve others."""

    def add(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        restart: bool = True,
        serves: bool = False,
        on_start: Callable[[], None] | None = None,
        on_exit: Callable[[int], None] | None = None,
        sink: Callable[[bytes], None] | None = None,
    ) -> None:
        """Keep `argv` running under this name, from now on or from the beginning of `run`.

        `env` is added to this process's environment without our settings (`AZ_*`). `on_start()` is called
        after each start, `on_exit(code)` after each end; negative codes are signals. Without `restart` the
        child runs once, and `on_exit` decides what its end means. A child that `serves` the others is needed
        until they have ended, so a stop ends it only after them.
        """
        child = Child(name, argv, env or {}, sink or self._sink, restart, serves, on_start, on_exit)
        self._children[name] = child
        self._new.put_nowait(child)

    def pids(self) -> dict[str, int]:
        """Return the process ids of the children that run at this moment."""
        return {child.name: child.pid for child in self._children.values() if child.pid is not None}

    def reported_error(self, name: str) -> str:
        """Return the last line about an error that the child's last process printed, "" if there is none."""
        return self._children[name].reported_error()

    def restarts(self, prefix: str = "") -> int:
        """Return how often children whose names begin with `prefix` were restarted, in total."""
        named = (child for name, child in self._children.items() if name.startswith(prefix))
        return sum(max(0, child.starts - 1) for child in named)

    async def run(self, stop: Stop) -> None:
        """Keep all children running until `stop`, then end them. When cancelled, kill them at once.

        Raises Fatal with a child's own message when it ended with a code that no restart can fix.
        """

        served: set[asyncio.Task[None]] = set()

        async def start_added() -> None:
            while True:
                child = await self._new.get()
                task = group.create_task(self._supervise(child, stop))
                if not child.serves:
                    served.add(task)

        async with asyncio.TaskGroup() as group:
            starter = group.create_task(start_added())
            await stop.finishing.wait()
            starter.cancel()
            if served:
                await asyncio.wait(served)
            self._served_ended.set()

    async def _supervise(self, child: Child, stop: Stop) -> None:
        """Start the child, wait for its end, report it, wait, and start again."""
        ending = self._served_ended if child.serves else stop.finishing
        delay = self._backoff
        while not ending.is_set():
            started = time.monotonic()
            code = await self._run_once(child, ending)
            if code is None:
                return
            # Read this before calling `on_exit`, which may itself request the stop.
            asked = ending.is_set()
            if child.on_exit is not None:
                child.on_exit(code)
            if not child.restart and not asked:
                return
            if ending.is_set():
                if code in (Exit.OK, -signal.SIGTERM):  # SIGTERM is how the stop asked it to end
                    log.info("%s has ended, as asked", child.name)
                else:
                    log.warning("%s has ended: %s", child.name, describe_exit(code))
                return
            # With the same settings, the child would end in the same way again.
            if code in NOT_RETRIED:
                said = next((line for line in child.lines() if line[:1].isalnum()), "it said nothing")
                raise Fatal(f"{child.name}: {child.reported_error() or said}", Exit(code))
            # A child that ran for a while ended for another reason than the times before.
            if time.monotonic() - started > HEALTHY_AFTER:
                delay = self._backoff
            why = describe_exit(code) + (f": {told}" if (told := child.reported_error()) else "")
            # One end may be an accident. The error has the same text each time: azrun says it once.
            if delay > self._backoff:
                log.error("%s ends again and again (%s)", child.name, why)
            log.warning("%s ended (%s), starting it again in %.1f s", child.name, why, delay)
            await first_of(ending, seconds=delay)
            # A child that keeps failing must not be restarted in a tight loop.
            delay = min(2 * delay, BACKOFF_LONGEST)

    async def _run_once(self, child: Child, ending: asyncio.Event) -> int | None:
        """Run one process and return its exit code. The process has ended when this returns or is cancelled.

        Returns None when `ending` was set before it could be started.
        """
        child.tail.clear()
        process = await start_patiently(child.name, child.argv, child.env, stop=ending, backoff=self._backoff)
        if process is None:
            return None
        child.pid = process.pid
        child.starts += 1
        if child.on_start is not None:
            child.on_start()

        async def end_on_stop() -> None:
            await ending.wait()
            process.terminate()
            await asyncio.sleep(self._grace)
            log.warning("process %d did not end within %.0f s: killing it", process.pid, self._grace)
            process.kill()

        async def copy_output() -> None:
            while output := await process.stdout.read(65_536):
                child.tail += output
                # Only the end of the output is kept: errors are there.
                del child.tail[:-TAIL]
                child.sink(output)

        try:
            async with contextlib.aclosing(process), asyncio.TaskGroup() as group:
                ender = group.create_task(end_on_stop())
                copier = group.create_task(copy_output())
                code = await process.wait()
                ender.cancel()
                # A grandchild may keep the pipe open: read what is there, but do not wait for the pipe's end.
                await asyncio.wait({copier}, timeout=1.0)
                copier.cancel()
        finally:
            child.pid = None
        return code
