"""Lines of GTP: commands with their arguments, and answers. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from engine.core.orders import shown

COLOURS = {"b": 0, "black": 0, "w": 1, "white": 1}
"""Colours by name; 0 is the first player."""
NAMES = ("black", "white")
PATHS = frozenset({"loadsgf"})
"""Commands whose arguments are one text: there may be blanks in a path."""
LONGEST_ID = 12
"""Most digits of an id. The specification has 31 bits."""


class GtpError(ValueError):
    """A command that cannot be carried out; the text is the answer."""


@dataclass(frozen=True)
class Command:
    id: str
    """Digits that the answer repeats, or nothing."""
    name: str
    arguments: tuple[str, ...]


def parse(line: str) -> Command | None:
    """The command in a line; None if there is none."""
    printable = "".join(one for one in line.replace("\t", " ") if one >= " " and one != "\x7f")
    text = printable.partition("#")[0].strip()
    if not text:
        return None
    first = text.split()[0]
    has_id = first.isascii() and first.isdigit() and len(first) <= LONGEST_ID
    head = first if has_id else ""
    name, _, rest = text.removeprefix(head).strip().partition(" ")
    arguments = tuple(filter(None, [rest.strip()])) if name in PATHS else tuple(rest.split())
    return Command(head, name, arguments)


def success(command: Command, text: str = "") -> str:
    """The answer to a command that succeeded, without the last newline."""
    return f"={command.id} {text}".rstrip() + "\n"


def failure(command: Command, text: str) -> str:
    """The answer to a command that failed."""
    return f"?{command.id} {' '.join(text.split())}\n"


def begun(command: Command) -> str:
    """The first line of an answer that continues."""
    return f"={command.id}"


def colour_of(text: str) -> int:
    """0 for Black, 1 for White. Raises GtpError for anything else."""
    colour = COLOURS.get(text.lower())
    if colour is None:
        raise GtpError(f"syntax error: a colour is b or w, not {shown(text)}")
    return colour


def whole_number(text: str, what: str) -> int:
    """A number of at most six digits. Raises GtpError otherwise."""
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise GtpError(f"syntax error: {what} is a whole number, not {shown(text)}")
    return int(text)


def number(text: str, what: str) -> float:
    """A finite number. Raises GtpError otherwise."""
    try:
        found = float(text) if len(text) < 30 else math.nan
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise GtpError(f"syntax error: {what} is a number, not {shown(text)}")
    return found


def expect(arguments: tuple[str, ...], usage: str) -> None:
    """Raise GtpError unless there are as many arguments as `usage` has words; words in [] are optional."""
    words = usage.split()[1:]
    least = sum(not word.startswith("[") for word in words)
    if not least <= len(arguments) <= len(words):
        raise GtpError(f"syntax error: write {usage}")
