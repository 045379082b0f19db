"""One child process, from its start to its end: never forked without exec, and it never outlives its parent.

The kernel is told before exec to kill the child when this process dies (PR_SET_PDEATHSIG), so the
promise holds for any command, also while it still imports. docs/decisions/0024-children.md has the reasons.
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

from runtime.config import without_settings
from runtime.exits import Exit, Fatal

log = logging.getLogger(__name__)

BACKOFF_FIRST = 0.5
BACKOFF_LONGEST = 30.0
"""Seconds between a child's end (or an attempt to start it) and its next start, doubling."""
READ_LIMIT = 1 << 16
"""Bytes of a child's output buffered before it has to wait."""
SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""Why a start may fail now and work later: no room for a process, memory, or open files."""

_PR_SET_PDEATHSIG = 1


def is_shortage(error: OSError) -> bool:
    """Whether the machine lacks something at the moment, so that the same start may work later."""
    return error.errno in SHORTAGES


class ChildProcess:
    """A process that runs, or ran. Made by `start`; its output is in `stdout` (and `stderr`).

    Whoever started it closes it: `async with contextlib.aclosing(await start(argv)) as child`.
    """

    def __init__(self, process: subprocess.Popen[bytes], pidfd: int) -> None:
        self.pid = process.pid
        self.stdout = asyncio.StreamReader(READ_LIMIT)
        self.stderr = asyncio.StreamReader(READ_LIMIT)
        """At its end at once unless asked for."""
        self._process = process
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._transports: list[asyncio.ReadTransport] = []
        self._loop.add_reader(pidfd, self._on_end)

    @property
    def returncode(self) -> int | None:
        """None while it runs; below 0 the signal that ended it."""
        return self._ended.result() if self._ended.done() else None

    async def connect(self) -> None:
        """Read what it writes from now on."""
        for reader, pipe in ((self.stdout, self._process.stdout), (self.stderr, self._process.stderr)):
            if pipe is None:
                reader.feed_eof()
                continue
            transport, _ = await self._loop.connect_read_pipe(_protocol(reader), pipe)
            self._transports.append(transport)

    async def wait(self) -> int:
        """Its exit code, as soon as it has ended."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL to it and to whatever it started in its session."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """End it at once if it still runs, and give its pipes back."""
        self.kill()
        try:
            await self.wait()
        finally:
            for transport in self._transports:
                transport.close()

    def _on_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set_result(self._process.wait())


async def start(
    argv: Sequence[str], env: Mapping[str, str] | None = None, *, stderr: int = subprocess.STDOUT
) -> ChildProcess:
    """`argv` in a session of its own. Raises OSError if it cannot be started (see `is_shortage`).

    `env` is added to this process's environment less our settings (`AZ_*`); `stderr` as for Popen.
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
    """As `start`, but a machine that is short of something is asked again; None once `stop` is set.

    `name`: for the log. `backoff`: seconds before the second attempt, doubled for each further one.
    Raises Fatal if no later attempt can work either.
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
        # The kernel means the thread that started the child: its end would kill the child.
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
        return ChildProcess(process, os.pidfd_open(process.pid))
    except BaseException:
        process.kill()
        process.communicate()
        raise


def _ending_with_parent() -> Callable[[], None]:
    """What the child does between fork and exec; nothing is looked up or imported there any more."""
    prctl, parent, code = ctypes.CDLL(None).prctl, os.getpid(), int(Exit.INTERRUPTED)

    def tell_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the call above
            os._exit(code)

    return tell_kernel


def _protocol(reader: asyncio.StreamReader) -> Callable[[], Any]:
    return lambda: asyncio.StreamReaderProtocol(reader)
