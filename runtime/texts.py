"""Texts of people and their programs: UTF-8, maybe with a byte order mark, which is no part of the text."""

from __future__ import annotations

import codecs

MARK = codecs.BOM_UTF8
_OTHERS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins like UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def without_mark(data: bytes) -> bytes:
    """The bytes after a byte order mark. Raises ValueError if it is that of another encoding than UTF-8."""
    for mark, name in _OTHERS.items():
        if data.startswith(mark):
            raise ValueError(f"it is text in {name}; save it as UTF-8")
    return data.removeprefix(MARK)


def text_of(data: bytes, otherwise: str = "") -> str:
    """The text of a file. Bytes that are not UTF-8 are in the encoding `otherwise`.

    Raises ValueError if there is none, and for UTF-16.
    """
    data = without_mark(data)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if otherwise:
            return data.decode(otherwise)
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not text in UTF-8; save it as UTF-8") from error
