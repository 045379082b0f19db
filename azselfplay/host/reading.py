"""Reads files that people have made, moved or damaged. Anything wrong with a file becomes an error that
callers can catch.

Only regular files are read: reading a pipe could block, and a device may have no end. A fault of the file
raises OSError, a fault of its content ValueError. Nothing here raises RecursionError, MemoryError or
OverflowError.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

MOST_BYTES = 1 << 28
"""Most bytes of a text file, or of another file that is read as a whole: 256 MiB. Our files are far
smaller."""
MOST_LEVELS = 50
"""Most levels of nested tables or lists; our files have up to 6."""
_TOO_DEEP = f"it has more than {MOST_LEVELS} levels in each other"
_SPECIAL = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"))
_WIDE = {  # UTF-32 first, because its byte order mark begins with that of UTF-16
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def open_regular(path: Path | str) -> io.BufferedReader:
    """Open a regular file for reading. Raises OSError, also for a folder, a pipe or a device; the error's
    strerror says which of these it is."""
    # The file is opened before its type is checked, so that nobody can replace it in between. Without
    # O_NONBLOCK, opening a pipe would wait for a writer.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb")
    mode = os.fstat(file.fileno()).st_mode
    try:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
        if not stat.S_ISREG(mode):
            what = next((name for fits, name in _SPECIAL if fits(mode)), "a device")
            raise OSError(errno.EINVAL, f"it is {what}, not a file", str(path))
    except OSError:
        file.close()
        raise
    return file


def is_file(path: Path | str) -> bool:
    """Return whether this is a file. Before Python 3.14, `Path.is_file` raises OSError for a name that is too
    long, or in a folder of another user."""
    return os.path.isfile(path)  # noqa: PTH113


def is_endless(path: Path | str) -> bool:
    """Return whether this is a pipe, a socket or a device, on which another library might block for ever."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False  # the library will report the error
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def read_bytes(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises OSError."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:  # a sparse file may be larger than memory
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return file.read()


def read_text(path: Path | str) -> str:
    """Return the text of a regular file. Raises OSError, and ValueError as `text_in` does."""
    return text_in(read_bytes(path))


def text_in(data: bytes, otherwise: str = "") -> str:
    """Decode UTF-8 text, without the byte order mark that some editors write at its beginning. Bytes that are
    not UTF-8 are decoded with the encoding `otherwise`, if one is given. Raises ValueError for any other
    encoding."""
    for mark, name in _WIDE.items():
        if data.startswith(mark):
            raise ValueError(f"it is text in {name}; save it as UTF-8")
    try:
        # "utf-8-sig" also decodes text without a byte order mark.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if otherwise:
            return data.decode(otherwise)
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not text in UTF-8; save it as UTF-8") from error


def read_toml(path: Path | str) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises OSError and ValueError."""
    return toml_in(read_text(path))


def toml_in(text: str) -> dict[str, Any]:
    """Return the tables in a TOML text. Raises ValueError."""
    table: dict[str, Any] = _parsed(tomllib.loads, text)
    return table


def read_json(path: Path | str) -> Any:
    """Return what a JSON file holds. Raises OSError and ValueError."""
    return json_in(read_bytes(path))


def json_in(data: bytes) -> Any:
    """Return what a JSON text in UTF-8 holds. Raises ValueError."""
    return _parsed(json.loads, text_in(data))


def read_struct(path: Path | str, kind: type[T]) -> T:
    """Return the `msgspec.Struct` in a JSON file. Raises OSError and ValueError."""
    try:
        return msgspec.json.decode(read_text(path), type=kind)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        found = parse(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        # Python's own message advises a call that does not help the user here.
        if "integer string conversion" in str(error):
            raise ValueError("a number in it has thousands of digits") from None
        raise

    def values(one: Any) -> list[Any]:
        if isinstance(one, str):
            one.encode()  # ValueError for a lone surrogate, which JSON can hold but which cannot be printed
        return [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else []

    # Level by level instead of recursively, because a recursion would be as deep as the file's nesting.
    inside = [found]
    for _ in range(MOST_LEVELS + 1):
        inside = [value for one in inside for value in values(one)]
        if any(isinstance(value, int) and abs(value) >> 64 for value in inside):
            raise ValueError("a number in it has more than 64 bits")
        if not inside:
            return found
    raise ValueError(_TOO_DEEP)
