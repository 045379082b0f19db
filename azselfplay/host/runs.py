"""The run folder holds everything that a run leaves on disk, so only this folder needs a backup.

runs/NAME/run.json       what the run is: game, history, when it was made, its identity (`id`)
         config.toml     azserver's settings as last used
         trainer.toml    the trainer's
         games.db        finished games (trainer)
         figures.json    the trainer's figures, as last written
         figures.jsonl   the same over time, a line now and then
         weights/        published networks by version and hash, current.json, newest (a link)
         checkpoints/    the trainer's state
         logs/ spool/ tensorboard/
         azserver.lock, trainer.lock   held by the process that works on the run

A lock file (`RunLock`) is empty after a clean end. While the lock is held, and after its holder was killed,
the file names the holder's machine. So the file shows afterwards how the holder ended.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from azselfplay.host.exits import Exit, Fatal, as_fatal
from azselfplay.host.reading import json_in, open_regular, read_bytes, read_json, read_toml

OLD_PART = 600.0
"""Seconds after which an unfinished file counts as abandoned."""
FOLDERS = ("weights", "checkpoints", "logs", "spool", "tensorboard")
FORMAT = 5
"""Format version of run folders, kept in run.json. Records, spools and messages have the same number."""
PARTIAL = ".partial"
"""Suffix of a file or folder that is being written; no run's name ends in it."""
LAST_BYTES = 65_536
"""Number of bytes that are read from the end of figures.jsonl: more than two lines."""
ELSEWHERE = {
    "azserver": "azserver keeps live figures and networks where it works{place}, and has not worked in this "
    "folder",
    # azserver is the first to write into a new run's folder, also where the trainer is about to work in it.
    "trainer": "the trainer has not begun here yet, or keeps games and curves on another machine",
}
TRIES, TRY_AGAIN = 5, 0.05
"""How often a lock is tried while another process holds it, and the seconds between two tries."""


def is_name(name: str) -> bool:
    """Return whether a run may be called `name`."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name)) and not name.endswith(PARTIAL)


class RunFolder:
    """Paths of the run called `name` under `root`. Nothing is written before `create`."""

    def __init__(self, root: Path | str, name: str) -> None:
        if not is_name(name):
            path, what = Path(name), f"{name!r} cannot be a run's name"
            if path.name != name and is_name(path.name):
                todo = f"use --runs {path.parent} --run {path.name}"
                raise Fatal(f"{what}, because it names the run's folder: {todo}", Exit.CONFIG)
            todo = f"use letters, digits and ._- , for example chess-1, and no {PARTIAL} at the end"
            raise Fatal(f"{what}: {todo}", Exit.CONFIG)
        self.name = name
        self.path = Path(root) / name
        self.about = self.path / "run.json"
        self.config = self.path / "config.toml"
        self.trainer_config = self.path / "trainer.toml"
        self.games = self.path / "games.db"
        self.figures = self.path / "figures.json"
        self.figures_log = self.path / "figures.jsonl"
        self.weights = self.path / "weights"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"
        self.spool = self.path / "spool"
        self.tensorboard = self.path / "tensorboard"

    def create(self, game: str, history: int, run_id: bytes = b"") -> None:
        """Create the folder, or open it again if it has the same game, history and identity.

        `run_id`: 16 bytes, the identity that the server names. If empty, the folder keeps its own identity; a
        new folder, or a restored one without identity, gets a random one. Raises Fatal(BAD_DATA) if the
        folder belongs to another run, Fatal(DISK) if it cannot be written.
        """
        with as_fatal(OSError, Exit.DISK, f"cannot write to the run folder {self.path}: "):
            for folder in FOLDERS:
                (self.path / folder).mkdir(parents=True, exist_ok=True)
            # Remove files that killed processes have left. A younger partial file may still be in use, and a
            # partial folder is a backup that somebody is making here.
            for part in self.path.glob(f"*{PARTIAL}"):
                with contextlib.suppress(FileNotFoundError):
                    if part.is_file() and time.time() - part.stat().st_mtime > OLD_PART:
                        part.unlink()
            if not self.about.exists():
                created = datetime.now(UTC).isoformat(timespec="seconds")
                new = {"format": FORMAT, "game": game, "history": history, "created": created}
                write_atomically(self.about, json.dumps(new, indent=1).encode())
            about = self.describe()
            for key, wanted in (("game", game), ("history", history)):
                if about[key] != wanted:
                    raise Fatal(
                        f"run {self.name!r} in {self.path} has {key} {about[key]!r}, not {wanted!r}; "
                        "choose another --run name, or the settings it was made with",
                        Exit.BAD_DATA,
                    )
            found = self.run_id
            if not found:
                about |= {"id": (run_id or secrets.token_bytes(16)).hex()}
                write_atomically(self.about, json.dumps(about, indent=1).encode())
            elif run_id and run_id != found:
                raise Fatal(
                    f"{self.path} is of another run of this name: its identity is {found.hex()}, the "
                    f"server's {run_id.hex()}. Choose another --run or move the folder away; or, if its "
                    f'games and networks may go on in the server\'s run, delete the entry "id" in '
                    f"{self.about}",
                    Exit.BAD_DATA,
                )

    @property
    def run_id(self) -> bytes:
        """Return the run's identity, 16 bytes. It is empty for a restored folder that no server has used yet.

        Raises Fatal(BAD_DATA) as `describe` does.
        """
        found = self.describe().get("id", "")
        with contextlib.suppress(ValueError, TypeError):
            if len(run_id := bytes.fromhex(found)) in (0, 16):
                return run_id
        raise self._damaged()

    @contextlib.contextmanager
    def removed_if_refused(self, *, with_games: bool = False) -> Iterator[None]:
        """Remove the folder, if it is new, when the block raises before the folder contains a network. The
        block must have closed its locks by then.

        with_games: also remove `games.db`, which this process has made and which has no games yet.
        """
        # The parent is removed, too: with a misspelt --runs it would be left behind empty.
        new = [path for path in (self.path, self.path.parent) if not path.exists()]
        try:
            yield
        except Exception:
            kept = [
                *self.path.glob("weights/*"),
                *self.path.glob("checkpoints/*"),
                *self.spool.rglob("*.game"),
            ]
            # Another process may have made the folder just now, and work in it.
            used = any(is_locked(self.lock_of(program)) for program in ("azserver", "trainer"))
            if self.path in new and not (kept or used) and (with_games or not self.games.exists()):
                shutil.rmtree(self.path, ignore_errors=True)
                with contextlib.suppress(OSError):  # not empty: other runs are there by now
                    new[-1].rmdir()
            raise

    def describe(self) -> dict[str, Any]:
        """Return the contents of run.json. Raises Fatal(BAD_DATA) if it is missing, damaged or of another
        version, Fatal(DISK) if it cannot be read now."""
        try:
            about = read_json(self.about)
            if isinstance(about["game"], str) and isinstance(about["history"], int):
                found = about.get("format")
                if found != FORMAT:
                    of = f"format {found}" if found else "an older version, without a format"
                    raise Fatal(
                        f"{self.path} is of {of}, and this azselfplay reads format {FORMAT}: use the version "
                        "that made it, or choose another --run name",
                        Exit.BAD_DATA,
                    )
                return dict(about)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Fatal(
                f"{self.path} has no run.json, which azserver makes at its first start: start it for this "
                "run, or give --run and --runs of another",
                Exit.BAD_DATA,
            ) from error
        except OSError as error:
            raise Fatal(f"{self.about} cannot be read: {error.strerror}", Exit.DISK) from error
        except (ValueError, KeyError, TypeError):
            pass
        raise self._damaged()

    def _damaged(self) -> Fatal:
        text = f"{self.about} is damaged; restore it from a backup, or use another --run name"
        return Fatal(text, Exit.BAD_DATA)

    def lock(self, program: str) -> RunLock:
        """Claim the folder for one `program` (azserver, trainer) until the lock is closed or this process
        ends in any way. Raises Fatal(TRY_AGAIN) if another process holds the lock, since that process may be
        about to end; Fatal(DISK) if the lock file cannot be made."""
        try:
            return RunLock(self.lock_of(program))
        except BlockingIOError as error:
            raise Fatal(
                f"run {self.name!r} in {self.path} belongs to another {program} process: stop that one, or "
                "give another --run name",
                Exit.TRY_AGAIN,
            ) from error
        except OSError as error:
            raise Fatal(f"cannot write to the run folder {self.path}: {error.strerror}", Exit.DISK) from error

    def lock_of(self, program: str) -> Path:
        """Return the path of the program's lock file."""
        return self.path / f"{program}.lock"

    def kept_elsewhere(self, program: str) -> str:
        """Return where the files of `program` (azserver, trainer) are, as text for people, if the other
        program alone has worked in this folder: on several machines each has a folder of its own. Else ""."""
        settings = {"azserver": self.config, "trainer": self.trainer_config}
        if settings.pop(program).exists() or not any(path.exists() for path in settings.values()):
            return ""
        server = shown_settings(self.trainer_config).get("server")
        place = f" ({server})" if server else ""
        return ELSEWHERE[program].format(place=place)

    def write_figures(self, figures: dict[str, Any]) -> None:
        """Write the trainer's figures, for programs that look at the run later. Raises OSError."""
        write_atomically(self.figures, json.dumps(figures, indent=1).encode())

    def read_figures(self) -> dict[str, Any]:
        """Return the trainer's last figures; empty if there are none that can be read."""
        try:
            return dict(read_json(self.figures))
        except (OSError, ValueError, TypeError):
            return {}

    def read_architecture(self) -> str:
        """Return the architecture of the network that plays, such as "4x64tanh"; in a folder without weights,
        that of the trainer's final figures; "": unknown."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if found := read_json(self.weights / "current.json")["architecture"]:
                return str(found)
        found = self.read_figures().get("architecture")
        return found if isinstance(found, str) else ""


def made_at(about: Mapping[str, Any]) -> float | None:
    """Return when a run was made, in seconds since 1970, according to its run.json; None if run.json does not
    say. A restored copy has the date of its original."""
    with contextlib.suppress(KeyError, ValueError, TypeError):
        return datetime.fromisoformat(about["created"]).timestamp()
    return None


def shown_settings(path: Path) -> dict[str, Any]:
    """Return the tables of a program's settings file in a run folder, for display; empty if the file cannot
    be read."""
    try:
        return read_toml(path)
    except (OSError, ValueError):
        return {}


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of this file (`RunFolder.lock`). To find out, this takes a
    shared lock for a moment."""
    try:
        with open_regular(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def write_atomically(path: Path, data: bytes | bytearray, mode: int | None = None) -> None:
    """Write a file so that a crash leaves either the old or the new content, never a part. `mode`: its
    permissions, from the first byte on.

    Raises OSError; then the old content is still there, and the part is removed.
    """

    def opened(name: str, flags: int) -> int:
        handle = os.open(name, flags, 0o666 if mode is None else mode)
        if mode is not None:
            os.fchmod(handle, mode)  # the umask may have removed bits
        return handle

    if not path.name:  # ".", to which no suffix can be added
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb", opener=opened) as file:
            file.write(data)
            file.flush()
            reach("atomic.written")
            os.fsync(file.fileno())
        reach("atomic.synced")
        partial.replace(path)
        reach("atomic.replaced")
    except OSError as error:
        # On a full disk, the partial file would take space that other processes need to continue.
        with contextlib.suppress(OSError):
            partial.unlink()
        # The error of a write names no file, and the message for people must name it.
        error.filename = error.filename or str(path)
        raise
    sync_folder(path.parent)
    reach("atomic.folder_synced")


def check_result(path: Path, flag: str) -> None:
    """Raise Fatal(CONFIG) if the file of a command's `flag` can never be written: before hours of work."""
    folder = path.absolute().parent
    # Path.is_dir would raise for a name that is too long.
    if os.path.isdir(path):  # noqa: PTH112
        raise Fatal(f"{flag} {path} is a folder; name a file to write", Exit.CONFIG)
    if not os.path.isdir(folder):  # noqa: PTH112
        raise Fatal(f"{flag} {path}: there is no folder {folder}; make it first", Exit.CONFIG)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Fatal(f"{flag} {path}: the folder {folder} cannot be written; name another one", Exit.CONFIG)


def write_result(path: Path, data: bytes | bytearray) -> None:
    """Write a file that a command was asked for, as `write_atomically` does. Raises Fatal(DISK)."""
    with as_fatal(OSError, Exit.DISK, f"cannot write {path}: "):
        write_atomically(path, data)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power loss."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- Reading the figures of a run that may be written to ----------------------------------------


def newest_row(run: RunFolder) -> dict[str, Any]:
    """Return the last whole line of figures.jsonl; {} if there is none. Only the end is read, because the
    file grows for hours and some programs read it every second."""
    try:
        with open_regular(run.figures_log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = file.read(LAST_BYTES).split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines[:-1]):  # a kill may have cut off the text after the last newline
        with contextlib.suppress(ValueError):
            found = json_in(line)
            return found if isinstance(found, dict) else {}
    return {}


def has_final_figures(run: RunFolder) -> bool:
    """Return whether figures.json is at least as new as figures.jsonl. The trainer writes figures.json at a
    clean end; a killed trainer leaves only newer lines in figures.jsonl."""
    return modified(run.figures) >= modified(run.figures_log)


def modified(path: Path) -> float:
    """Return when the file was last modified, in seconds since 1970; 0 if there is no such file."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# ---- The lock -------------------------------------------------------------------------------------


class Left(Enum):
    """How the last holder of a lock ended, as far as a lock file that no process here holds can tell."""

    ENDED = "ended"
    """The holder ended cleanly."""
    KILLED = "killed"
    """The holder ran on this machine and was killed."""
    ELSEWHERE = "elsewhere"
    """The holder runs, or ran, where its lock cannot be seen: on another machine, or in another container."""


class RunLock:
    """A lock that this process holds until `close`, or until it ends in any way."""

    def __init__(self, path: Path) -> None:
        """Raises BlockingIOError if another process holds it, OSError if the file cannot be made."""
        self._file = path.open("a")
        try:
            # A process that checks whether the lock is held (`is_locked`) holds it for a moment, so try
            # again.
            for attempt in range(TRIES):
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if attempt == TRIES - 1:
                        raise
                    time.sleep(TRY_AGAIN)
            self._write(here())
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """End cleanly. A second call does nothing."""
        if not self._file.closed:
            self._write("")
            self._file.close()

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # on a full disk the lock still holds
            self._file.truncate(0)
            self._file.write(text)
            self._file.flush()

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def left_by(path: Path) -> Left | None:
    """Return how the last holder of this lock file ended; None if there is no such file. Call this only while
    no process here holds the lock."""
    try:
        holder = read_bytes(path).decode(errors="replace")
    except OSError:
        return None
    # A clean end empties the file.
    if not holder:
        return Left.ENDED
    return Left.KILLED if holder == here() else Left.ELSEWHERE


@cache
def here() -> str:
    """Return an identity of this machine's current boot and process namespace, which differs in each
    container. If the kernel provides none, return the machine's name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


# ---- Crash points: named places around every important write, at which tests kill the process ----------

CRASH_AT = "AZ_CRASH_AT"
"""`AZ_CRASH_AT=spool.renamed:3` kills this process when it reaches that place for the third time. Without the
variable, each place costs one function call and does nothing."""


def killing(name: str, times: int) -> Callable[[str], None]:
    """Return a watcher that kills the process with SIGKILL when it reaches the place `name` for the
    `times`-th time."""
    left = times

    def count(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if left == 0:
                # SIGKILL leaves the process no chance to clean up, which is what the tests examine.
                os.kill(os.getpid(), signal.SIGKILL)

    return count


_place, _, _times = os.environ.get(CRASH_AT, "").partition(":")
watcher: Callable[[str], None] | None = killing(_place, int(_times or 1)) if _place else None
"""Called with the name of each place that is reached. Simulations set their own watcher, which ends one
simulated part instead of the whole process."""


def reach(name: str) -> None:
    """Note that the process has passed the place `name`, of the form PART.PLACE."""
    if watcher is not None:
        watcher(name)
