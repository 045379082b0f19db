"""Exit codes, and the exception that ends a process with a clear message instead of a traceback.

The codes follow sysexits, so that a supervisor can tell what is worth retrying (systemd:
`RestartPreventExitStatus=2 65 76 77 78`).
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import NoReturn

from azselfplay.games.home import NoHome
from azselfplay.games.names import UnknownGame


class Exit(IntEnum):
    """Exit codes and their meaning."""

    OK = 0
    USAGE = 2
    """Wrong flags."""
    FOUND = 3
    """The command succeeded, but what it examined is not well: a fault (doctor), an alert (status), games
    lost (salvage), training that failed without an exit status of ours (azrun)."""
    BAD_DATA = 65
    """A file or run folder is damaged or of the wrong kind."""
    UNREACHABLE = 69
    """The server did not answer within the allowed time."""
    INTERNAL = 70
    """A bug in azselfplay."""
    DISK = 74
    """Reading or writing failed."""
    TRY_AGAIN = 75
    PROTOCOL = 76
    """Server and client speak different versions of the protocol."""
    REFUSED = 77
    """The server rejects this peer."""
    CONFIG = 78
    """A setting is wrong."""
    INTERRUPTED = 130
    """Ctrl-C."""


NOT_RETRIED = frozenset({Exit.USAGE, Exit.BAD_DATA, Exit.PROTOCOL, Exit.REFUSED, Exit.CONFIG})
"""A process that ended with one of these would fail the same way again."""


DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No space left, for everybody or for this user."""

DISK_BROKEN = frozenset({errno.EIO, errno.ESTALE})
"""A disk that fails, and a network drive whose server was restarted."""

OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""No file descriptor left, for this process or for the machine."""

EXTRAS = {
    "train": (
        *("apsw", "chess", "matplotlib", "nacl", "rich"),
        *("sgfmill", "tensorboard", "torch", "zstandard"),
    ),
    "web": ("aiohttp",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "archive": ("obstore",),
    "ray": ("ray",),
}
"""Names of the packages to import, by the extra of pyproject.toml that lists them."""


class Fatal(Exception):
    """Ends the process with `code`. The message says what happened, why, and what to do next."""

    def __init__(self, message: str, code: Exit = Exit.INTERNAL) -> None:
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def as_fatal(
    kind: type[Exception] | tuple[type[Exception], ...], code: Exit, before: str = "", after: str = ""
) -> Iterator[None]:
    """Turn an error of this kind into Fatal: `before`, what the error says, `after`."""
    try:
        yield
    except kind as error:
        raise Fatal(f"{before}{getattr(error, 'strerror', None) or error}{after}", code) from error


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for its threads. Call this when everything else has ended."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or its disk is full
            stream.flush()
    os._exit(code)


def drop_output() -> None:
    """Send the standard output nowhere from now on, because its reader is gone or its disk is full: flushing
    the rest at the exit would fail, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output_utf8() -> None:
    """Write to the standard output in UTF-8 from now on, like a file, whatever the encoding of the locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def guarded(main: Callable[[], int]) -> int:
    """Run `main`; print a Fatal as one "command: error: ..." line and return its code.

    A full or read-only disk, missing permissions, and a missing optional package are reported the same way.
    Any other exception is a bug: its traceback is printed, and the code is INTERNAL.
    """
    # Python sets a stream that was closed before our start (`2>&-`) to None, and the next file to be opened
    # would get its number. The null device gets the lowest free number, which is the closed stream's.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    # The name under which the command was called: a script's, or the module's for `python -m package.module`.
    called = sys.argv[0] if sys.argv and sys.argv[0] else "azselfplay"
    command, spec = Path(called).stem, getattr(sys.modules.get("__main__"), "__spec__", None)
    # `python -m` sets sys.argv[0] to the path of the module's file.
    if spec is not None and called == spec.origin:
        command = _COMMANDS.get(spec.name, spec.name.removesuffix(".__main__"))
    if sys.platform != "linux":
        _say(f"{command}: error: azselfplay needs Linux (on Windows: WSL 2), and this is {sys.platform}")
        return int(Exit.CONFIG)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal's encoding lacks, for example in a path, are printed as escapes instead
        # of raising UnicodeEncodeError.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main()
        # What is still in the buffer would otherwise be written after this function could report an error.
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
        return code
    except KeyboardInterrupt:
        _say(f"{command}: interrupted")
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has closed the pipe (`--help | head`); nothing more may be written to it.
        drop_output()
        return int(Exit.OK)
    except Exception as error:
        try:
            sys.stdout.flush()
        except OSError:
            drop_output()
        text, code = _explained(command, error)
        _say(f"{command}: error: {text}")
        return int(code)


def _explained(command: str, error: Exception) -> tuple[str, Exit]:
    """Return what to say about an error that ends the process, and the exit code. Prints the traceback of a
    bug; call this only while the error is being handled."""
    what = getattr(error, "filename", None) or "a file"
    match error:
        case Fatal():
            return str(error), error.code
        case UnknownGame():  # from a file: code that reads settings names the setting itself
            return str(error), Exit.BAD_DATA
        case NoHome():
            return str(error), Exit.CONFIG
        case ModuleNotFoundError():
            # If the missing module is our own or belongs to an installed package, this is a bug.
            package = (error.name or "").partition(".")[0]
            extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
            if extra is not None and not is_installed(package):
                return how_to_install(command, [package], extra), Exit.CONFIG
        case UnicodeEncodeError() if error.reason.startswith("surrogates"):
            # Surrogates are Python's placeholders for bytes of a path that the file system's encoding cannot
            # decode.
            place = error.object[max(0, error.start - 40) : error.end + 20]
            to_do = "rename it (with LC_ALL=C: set PYTHONUTF8=1)"
            return f"a path or a name has bytes that are not UTF-8 text; {to_do}: {place!a}", Exit.CONFIG
        case OSError() if error.errno in DISK_FULL:
            return f"{what} cannot be written: {error.strerror}; free some space", Exit.DISK
        case OSError() if error.errno in DISK_BROKEN:
            to_do = "look at the disk or the network drive"
            return f"{what} cannot be read or written: {error.strerror}; {to_do}", Exit.DISK
        case OSError() if error.errno == errno.EROFS:
            to_do = "name a folder that can be written, or mount one there"
            return f"{what} cannot be written: {error.strerror}; {to_do}", Exit.DISK
        case OSError() if error.errno == errno.EACCES and error.filename:
            to_do = "run as a user who may use it, or name another file or folder"
            return f"{what}: {error.strerror}; {to_do}", Exit.DISK
    if getattr(error, "errno", None) in OUT_OF_FILES:  # an OSError, or ZeroMQ's own
        text = f"{error}; raise the limit on open files (ulimit -n), or run fewer programs"
        return text, Exit.TRY_AGAIN
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc()
    return "this is a bug in azselfplay; please report it with the traceback above", Exit.INTERNAL


def _say(text: str) -> None:
    from logging import ERROR

    from azselfplay.host.logs import as_line  # imported only when needed: most commands end well

    with contextlib.suppress(OSError, ValueError):  # as in `leave_at_once`: the exit code still says it
        print(as_line(text, ERROR), file=sys.stderr, flush=True)


_COMMANDS = {
    "server.main": "azserver",
    "client.main": "azclient",
    "azselfplay.lab.azrun": "azrun",
    "azselfplay.lab.azcluster": "azcluster",
    "azselfplay.lab.web.command": "azplay web",
}


# ---- packages that may be missing: a client that uses the server's evaluators needs none ---------


BESIDE = ("client", "net", "protocol", "server", "trainer")
"""Our top-level packages other than `azselfplay`."""


@cache
def check_that_nothing_hides_our_packages() -> None:
    """Raise ImportError if a file beside the user's script, such as net.py, is imported in place of one of
    our packages."""
    home = Path(__file__).resolve().parents[2]
    for name in BESIDE:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin and home not in Path(found.origin).resolve().parents:
            raise ImportError(f"{found.origin} hides azselfplay's own package {name!r}: rename that file")


def is_installed(package: str) -> bool:
    """Return whether `package` can be imported. It is not imported, so this takes a millisecond."""
    return importlib.util.find_spec(package) is not None


def how_to_install(what: str, packages: Sequence[str], extra: str) -> str:
    """Return the sentence that tells a person how to install the packages that `what` needs."""
    return (
        f"{what} needs packages that are not installed ({', '.join(packages)}): "
        f"pip install 'azselfplay[{extra}]'"
    )


def require(extra: str, what: str) -> None:
    """Raise Fatal(CONFIG) naming the missing packages of `extra`, if there are any."""
    missing = [package for package in EXTRAS[extra] if not is_installed(package)]
    if missing:
        raise Fatal(how_to_install(what, missing, extra), Exit.CONFIG)
