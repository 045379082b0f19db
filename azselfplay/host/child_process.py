"""One child process, from its start to its end: never forked without exec, and it never outlives its parent.

Before exec the kernel is told to kill the child when this process dies (PR_SET_PDEATHSIG), so the promise
holds for any command, even while it is still importing. To the kernel the parent is a thread, so children are
started from the main thread alone. `subprocess.Popen` and a pidfd take the place of uvloop's own start, which
leaks descriptors when it fails for want of them. The end is SIGKILL: a child that hangs must end, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from azselfplay.host.config import without_settings
from azselfplay.host.exits import Exit, Fatal

log = logging.getLogger(__name__)

BACKOFF_FIRST = 0.5
BACKOFF_LONGEST = 30.0
"""Longest wait in seconds between a child's end (or a failed start) and its next start; the wait doubles."""
READ_LIMIT = 1 << 16
"""Bytes of a child's output that are buffered before the child must wait."""
SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""Errors of a start that may work later: no room for a process, no memory, or no open files."""

_PR_SET_PDEATHSIG = 1


def is_shortage(error: OSError) -> bool:
    """Return whether the machine lacks a resource at the moment, so that the same start may work later."""
    return error.errno in SHORTAGES


class ChildProcess:
    """A process that runs, or ran. Made by `start`; its output is in `stdout` (and `stderr`).

    The caller must close it: `async with contextlib.aclosing(await start(argv)) as child`.
    """

    def __init__(self, process: subprocess.Popen[bytes], pidfd: int | None) -> None:
        """`pidfd`: a file descriptor of the process; None where Python or the kernel has none."""
        self.pid = process.pid
        self.stdout = asyncio.StreamReader(READ_LIMIT)
        self.stderr = asyncio.StreamReader(READ_LIMIT)
        """Ends at once unless stderr was requested."""
        self._process = process
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._transports: list[asyncio.ReadTransport] = []
        if pidfd is None:
            threading.Thread(target=self._watch, name=f"child {self.pid}", daemon=True).start()
        else:
            self._loop.add_reader(pidfd, self._on_end)

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
            transport, _ = await self._loop.connect_read_pipe(_protocol(reader), pipe)
            self._transports.append(transport)

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to it and to everything it started in its session."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        self.kill()
        try:
            await self.wait()
        finally:
            for transport in self._transports:
                transport.close()

    def _on_end(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._ended.set_result(self._process.wait())

    def _watch(self) -> None:
        """Wait for its end in a thread."""
        with contextlib.suppress(ChildProcessError):  # `terminate` found that it has ended
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # not reaped: its number stays its own
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_end)


async def start(
    argv: Sequence[str], env: Mapping[str, str] | None = None, *, stderr: int = subprocess.STDOUT
) -> ChildProcess:
    """Start `argv` in a session of its own. Raises OSError if it cannot be started (see `is_shortage`).

    `env` is added to this process's environment without our settings (`AZ_*`); `stderr` as for Popen.
    """
    child = _start(argv, env or {}, stderr)
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
            if not is_shortage(error):
                raise Fatal(f"{name}: {argv[0]} cannot be started: {error.strerror}") from error
            log.warning("%s cannot be started (%s), trying again in %.1f s", name, error.strerror, backoff)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), backoff)
        backoff = min(2 * backoff, BACKOFF_LONGEST)
    return None


def _start(argv: Sequence[str], env: Mapping[str, str], stderr: int) -> ChildProcess:
    if threading.current_thread() is not threading.main_thread():
        # For the kernel, the parent is the thread that started the child: when that thread ends, the child is
        # killed.
        raise RuntimeError("child processes are started by the main thread only")
    process = subprocess.Popen(
        argv,
        env={**without_settings(os.environ), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=_ending_with_parent(),
    )
    try:
        return ChildProcess(process, _pidfd(process.pid))
    except BaseException:
        process.kill()
        process.communicate()
        raise


def _pidfd(pid: int) -> int | None:
    """Return a descriptor of the process, if this Python has `pidfd_open`: those built for old systems (of
    conda, for example) lack it."""
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None


def _ending_with_parent() -> Callable[[], None]:
    """Return what the child does between fork and exec; nothing is looked up or imported there any more."""
    prctl, parent, code = ctypes.CDLL(None).prctl, os.getpid(), int(Exit.INTERRUPTED)

    def tell_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(code)

    return tell_kernel


def _protocol(reader: asyncio.StreamReader) -> Callable[[], Any]:
    return lambda: asyncio.StreamReaderProtocol(reader)
