"""`lz-analyze`, `kata-analyze` and `genmove_analyze`: their arguments, and the lines of the stream. Pure.

Fields that need figures which a value network without score does not have (scoreLead, ownership, lcb) are
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.core.orders import shown
from engine.core.report import Line, Report
from engine.gtp.protocol import COLOURS, GtpError, colour_of, number

USUAL_INTERVAL = 0.5
"""Seconds between two lines, if not given."""
SHORTEST_INTERVAL = 0.05
MOST_MOVES = 400
IGNORED = frozenset(
    {
        *("minmoves", "ownership", "ownershipStdev", "movesOwnership", "movesOwnershipStdev"),
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
    """The side to move; None: whose turn it is."""
    interval: float = USUAL_INTERVAL
    """Seconds between two lines."""
    most: int = MOST_MOVES
    """Most moves in a line."""
    restrictions: tuple[Restriction, ...] = ()
    root_info: bool = False


def wanted_of(arguments: tuple[str, ...]) -> Wanted:
    """Parse `[COLOUR] [INTERVAL] [KEY VALUE ...]`, with the interval in hundredths of a second. Raises
    GtpError."""
    words = list(arguments)
    colour = colour_of(words.pop(0)) if words and words[0].lower() in COLOURS else None
    interval, most, root_info = USUAL_INTERVAL, MOST_MOVES, False
    restrictions: list[Restriction] = []
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
        elif key in ("allow", "avoid"):
            vertices = tuple(_next(words).split(","))
            number(_next(words), f"the last move of {key}")
            restrictions.append(Restriction(key == "allow", colour_of(value), vertices))
        elif key not in IGNORED:
            raise GtpError(f"syntax error: nothing is known of {shown(key)}")
    return Wanted(colour, interval, most, tuple(restrictions), root_info)


def _next(words: list[str]) -> str:
    if not words:
        raise GtpError("syntax error: a value is missing at the end")
    return words.pop(0)


def lz_line(report: Report, wanted: Wanted) -> str:  # noqa: ARG001 - as kata_line
    """Leela Zero's format: winrate and prior in hundredths of a percent."""
    return " ".join(
        f"info move {line.moves[0]} visits {line.visits} winrate {round(10_000 * winrate(line.value))} "
        f"prior {round(10_000 * line.prior)} order {order} pv {' '.join(line.moves)}"
        for order, line in enumerate(report.lines)
    )


def kata_line(report: Report, wanted: Wanted) -> str:
    """KataGo's format: winrate and prior in [0, 1], utility in [-1, 1], for the side to move."""
    text = " ".join(
        f"info move {line.moves[0]} visits {line.visits} utility {line.value:.6f} "
        f"winrate {winrate(line.value):.6f} prior {line.prior:.6f} order {order} pv {' '.join(line.moves)}"
        for order, line in enumerate(report.lines)
    )
    return text + (_root_info(report.lines) if wanted.root_info else "")


def _root_info(lines: tuple[Line, ...]) -> str:
    visits = sum(line.visits for line in lines)
    value = sum(line.visits * line.value for line in lines) / max(1, visits)
    return f" rootInfo visits {visits} utility {value:.6f} winrate {winrate(value):.6f}"


def winrate(value: float) -> float:
    """A value in [-1, 1] as the share of wins, a draw being half of one."""
    return (value + 1) / 2


Format = Callable[[Report, Wanted], str]
FORMATS: dict[str, Format] = {
    "analyze": lz_line,
    "lz-analyze": lz_line,
    "kata-analyze": kata_line,
}
"""Streams that end at any input."""
GENMOVE_FORMATS: dict[str, Format] = {
    "genmove_analyze": lz_line,
    "lz-genmove_analyze": lz_line,
    "kata-genmove_analyze": kata_line,
}
"""Streams that end with a move, at the latest at any input."""
