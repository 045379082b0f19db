"""Where a process spends its processor time, by thread and function: `AZ_PROFILE=FOLDER`.

A thread looks every few milliseconds which function each thread of Python is in, and credits it with the
processor time that the thread has used since the last look. Compiled code counts for the Python function that
called it. Threads that libraries start (ZeroMQ, torch) have no such functions and count by their name. At the
end of the process, `FOLDER/COMMAND-PID.json` has the seconds of each. `python -m bench profile` shows them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

VARIABLE = "AZ_PROFILE"
AFTER = "AZ_PROFILE_AFTER"
"""Seconds after which the profile begins; without it, at once."""
EVERY = 0.005
"""Seconds between two looks."""
OURS = frozenset({"__main__", "azselfplay", "bench", "client", "net", "protocol", "server", "trainer"})
"""Top-level modules whose functions are named."""


@contextmanager
def profiled(command: str, folder: Path, after: float) -> Iterator[None]:
    """Profile what runs inside, from `after` seconds on, into `folder`."""
    profile = Profile(after)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)  # it would end the process before its profile is written
    watcher = threading.Thread(target=profile.watch, name="profile", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        profile.ended.set()
        watcher.join()
        path = folder / f"{command.replace('/', '_')}-{os.getpid()}.json"
        path.write_text(json.dumps({"seconds": profile.seconds, "functions": profile.used}, indent=1))


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


class Profile:
    """Processor seconds by `thread | function`."""

    def __init__(self, after: float) -> None:
        self._after = after
        self.used: defaultdict[str, float] = defaultdict(float)
        self.seconds = 0.0
        """How long was watched."""
        self.ended = threading.Event()

    def watch(self) -> None:
        """Look until `ended` is set. To be run in a thread of its own, which is left out."""
        if self.ended.wait(self._after):
            return
        began, own = time.monotonic(), threading.get_native_id()
        before = threads_seconds()
        while not self.ended.wait(EVERY):
            now = threads_seconds()
            self.credit({thread: now[thread] - before.get(thread, 0.0) for thread in now if thread != own})
            before = now
        self.seconds = time.monotonic() - began

    def credit(self, used: dict[int, float]) -> None:
        """Credit the threads' current functions with `used` seconds, by native thread."""
        frames = sys._current_frames()
        names = {one.native_id: (one.name, frames.get(one.ident or 0)) for one in threading.enumerate()}
        for thread, seconds in used.items():
            if seconds > 0:
                name, frame = names.get(thread, (_name_of(thread), None))
                self.used[f"{name} | {function_of(frame)}"] += seconds


def function_of(frame: FrameType | None) -> str:
    """Return `module:function` of the innermost frame that is ours, else of the innermost; `-` for none."""
    if frame is None:
        return "-"
    found: FrameType | None = frame
    while found is not None and _module_of(found).partition(".")[0] not in OURS:
        found = found.f_back
    found = found or frame
    return f"{_module_of(found)}:{found.f_code.co_qualname}"


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))


def threads_seconds() -> dict[int, float]:
    """Return the processor seconds of each thread of this process, by native thread."""
    found = {}
    for folder in Path("/proc/self/task").iterdir():
        try:
            nanoseconds = int((folder / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        found[int(folder.name)] = nanoseconds / 1e9
    return found


def _name_of(thread: int) -> str:
    """Return the system's name of a thread that Python does not know."""
    try:
        return Path(f"/proc/self/task/{thread}/comm").read_text().strip()
    except OSError:
        return "ended"
