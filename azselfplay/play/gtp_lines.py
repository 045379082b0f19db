"""Lines of GTP: commands, answers, and the streams of `lz-analyze`, `kata-analyze` and `genmove_analyze`.

A command is an optional id, a name and words; the answer repeats the id after `=` or `?` and ends with an
empty line. Streams are written in the formats of Leela Zero and KataGo. Fields that a value network without
score cannot fill (scoreLead, lcb) are left out; ownership is given if the network has an ownership head.
Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from azselfplay.play.orders import Report, shown

COLOURS = {"b": 0, "black": 0, "w": 1, "white": 1}
"""Colours by name; 0 is the first player."""

NAMES = ("black", "white")

PATHS = frozenset({"loadsgf", "printsgf"})
"""Commands whose arguments are one text, because a path may contain blanks."""

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
    """Return the command in a line; None if there is none."""
    # Control characters, comments and tabs: section 3.1 of the specification.
    printable = "".join(one for one in line.replace("\t", " ") if one >= " " and one != "\x7f")
    text = printable.partition("#")[0].strip()
    if not text:
        return None
    first = text.split()[0]
    # A longer number counts as the name of an unknown command, so it is refused instead of cut.
    has_id = first.isascii() and first.isdigit() and len(first) <= LONGEST_ID
    head = first if has_id else ""
    name, _, rest = text.removeprefix(head).strip().partition(" ")
    arguments = tuple(filter(None, [rest.strip()])) if name in PATHS else tuple(rest.split())
    return Command(head, name, arguments)


def success(command: Command, text: str = "") -> str:
    """Return the answer to a command that succeeded, without the last newline."""
    # `print` adds a second newline; the resulting empty line ends a GTP answer.
    return f"={command.id} {text}".rstrip() + "\n"


def failure(command: Command, text: str) -> str:
    """Return the answer to a command that failed."""
    return f"?{command.id} {' '.join(text.split())}\n"


def begun(command: Command) -> str:
    """Return the first line of an answer that continues."""
    return f"={command.id}"


def colour_of(text: str) -> int:
    """Return 0 for Black, 1 for White. Raises GtpError for anything else."""
    colour = COLOURS.get(text.lower())
    if colour is None:
        raise GtpError(f"syntax error: a colour is b or w, not {shown(text)}")
    return colour


def whole_number(text: str, what: str) -> int:
    """Parse a number of at most six digits. Raises GtpError otherwise."""
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise GtpError(f"syntax error: {what} is a whole number, not {shown(text)}")
    return int(text)


def number(text: str, what: str) -> float:
    """Parse a finite number. Raises GtpError otherwise."""
    try:
        # No sensible number is longer.
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


USUAL_INTERVAL = 0.5
"""Seconds between two lines, if not given."""

SHORTEST_INTERVAL = 0.05

MOST_MOVES = 400

IGNORED = frozenset(
    {
        *("minmoves", "ownershipStdev", "movesOwnership", "movesOwnershipStdev"),
        *("pvVisits", "pvEdgeVisits", "noResultValue"),
    }
)
"""Keys of KataGo that have no effect here."""


@dataclass(frozen=True)
class Restriction:
    """The key `allow` or `avoid`: moves of one colour."""

    allows: bool
    colour: int
    vertices: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """The arguments of an analysis command."""

    colour: int | None = None
    """The side to analyse; None: the side to move."""
    interval: float = USUAL_INTERVAL
    """Seconds between two lines."""
    most: int = MOST_MOVES
    """Most moves in a line."""
    restrictions: tuple[Restriction, ...] = ()
    root_info: bool = False
    ownership: bool = False


def wanted_of(arguments: tuple[str, ...]) -> Wanted:
    """Parse `[COLOUR] [INTERVAL] [KEY VALUE ...]`, with the interval in hundredths of a second. Raises
    GtpError."""
    words = list(arguments)
    colour = colour_of(words.pop(0)) if words and words[0].lower() in COLOURS else None
    interval, most = USUAL_INTERVAL, MOST_MOVES
    root_info = ownership = False
    restrictions: list[Restriction] = []
    # An interval may come without its key.
    if words and words[0][:1].isdigit():
        words.insert(0, "interval")
    while words:
        key, value = words.pop(0), _next(words)
        if key == "interval":
            interval = max(SHORTEST_INTERVAL, number(value, "the interval") / 100)
        elif key == "maxmoves":
            most = max(1, min(MOST_MOVES, int(number(value, "maxmoves"))))
        elif key == "rootInfo":
            root_info = value.lower() == "true"
        elif key == "ownership":
            ownership = value.lower() == "true"
        elif key in ("allow", "avoid"):
            vertices = tuple(_next(words).split(","))
            # In KataGo, this number is the depth up to which the restriction holds. Here the restriction
            # holds only for the move to be played.
            number(_next(words), f"the last move of {key}")
            restrictions.append(Restriction(key == "allow", colour_of(value), vertices))
        elif key not in IGNORED:
            raise GtpError(f"syntax error: nothing is known of {shown(key)}")
    return Wanted(colour, interval, most, tuple(restrictions), root_info, ownership)


def _next(words: list[str]) -> str:
    if not words:
        raise GtpError("syntax error: a value is missing at the end")
    return words.pop(0)


def lz_line(report: Report, wanted: Wanted) -> str:
    """Return a line in Leela Zero's format: winrate and prior in hundredths of a percent."""
    return " ".join(
        f"info move {line.moves[0]} visits {line.visits} winrate {round(10_000 * winrate(line.value))} "
        f"prior {round(10_000 * line.prior)} order {order} pv {' '.join(line.moves)}"
        for order, line in enumerate(report.lines[: wanted.most])
    )


def kata_line(report: Report, wanted: Wanted) -> str:
    """Return a line in KataGo's format: winrate and prior in [0, 1], utility and ownership in [-1, 1], for
    the side to move; ownership by rows from the upper left."""
    text = " ".join(
        f"info move {line.moves[0]} visits {line.visits} utility {line.value:.6f} "
        f"winrate {winrate(line.value):.6f} prior {line.prior:.6f} order {order} pv {' '.join(line.moves)}"
        for order, line in enumerate(report.lines[: wanted.most])
    )
    if wanted.root_info:
        visits = sum(line.visits for line in report.lines)
        value = sum(line.visits * line.value for line in report.lines) / max(1, visits)
        text += f" rootInfo visits {visits} utility {value:.6f} winrate {winrate(value):.6f}"
    if report.ownership:
        size = math.isqrt(len(report.ownership))
        # Our cells are counted from the lowest row, so reverse the rows.
        rows = [report.ownership[row * size :][:size] for row in reversed(range(size))]
        text += f" ownership {' '.join(f'{one:.4f}' for row in rows for one in row)}"
    return text


def winrate(value: float) -> float:
    """Return a value in [-1, 1] as a share of wins, where a draw is half a win."""
    return (value + 1) / 2


Format = Callable[[Report, Wanted], str]

FORMATS: dict[str, Format] = {"analyze": lz_line, "lz-analyze": lz_line, "kata-analyze": kata_line}
"""Streams that end at any input."""

GENMOVE_FORMATS: dict[str, Format] = {
    "genmove_analyze": lz_line,
    "lz-genmove_analyze": lz_line,
    "kata-genmove_analyze": kata_line,
}
"""Streams that end with a move, and not before it."""
