"""A Connect Four board as SVG."""

from __future__ import annotations

from games.connect_four import COLS, ROWS
from games.knowledge import Clicks, Spot
from games.small import EMPTY, FIRST, board_rows, cells_in_line
from games.spec import State

STEP, MARGIN, FOOT = 44, 8, 24
"""Pixels: of a cell, around the board, and below it for the columns' numbers."""
DOT = 6
"""Radius of the mark on each stone of a four, pixels."""
WIDTH, HEIGHT = COLS * STEP + 2 * MARGIN, ROWS * STEP + 2 * MARGIN + FOOT
FRAME, HOLE, FIRSTS, SECONDS, LAST = "#2d5fa8", "#dfe7f2", "#e2b93b", "#c8443c", "#ffffff"


def svg(state: State, move: str) -> bytes:
    """The position; `move`, the number of the column that led to it, has its top stone marked with a rim, and
    the stones of a four have a dot each."""
    rows = board_rows(state, ROWS, COLS)
    last = _uppermost(rows, int(move) - 1) if move else None
    winning = cells_in_line(rows, 4)
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<rect width="{WIDTH}" height="{HEIGHT - FOOT}" rx="{MARGIN}" fill="{FRAME}"/>',
    ]
    for down, row in enumerate(rows):
        for col, seen in enumerate(row):
            colour = HOLE if seen == EMPTY else FIRSTS if seen == FIRST else SECONDS
            rim = f' stroke="{LAST}" stroke-width="4"' if (down, col) == last else ""
            place = f'cx="{MARGIN + STEP * col + STEP // 2}" cy="{MARGIN + STEP * down + STEP // 2}"'
            parts.append(f'<circle {place} r="{STEP // 2 - 4}" fill="{colour}"{rim}/>')
            if (down, col) in winning:
                parts.append(f'<circle {place} r="{DOT}" fill="{LAST}"/>')
    for col in range(COLS):
        place = f'x="{MARGIN + STEP * col + STEP // 2}" y="{HEIGHT - MARGIN}"'
        font = 'font-family="sans-serif" font-size="14" text-anchor="middle" fill="#404040"'
        parts.append(f"<text {place} {font}>{col + 1}</text>")
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def _uppermost(rows: list[str], col: int) -> tuple[int, int] | None:
    """(row from the top, column) of the top stone."""
    return next(((down, col) for down, row in enumerate(rows) if row[col] != EMPTY), None)


def _clicked(_state: State, action: int) -> tuple[str, ...]:
    return (f"column {action + 1}",)


CLICKS = Clicks(
    WIDTH,
    HEIGHT,
    tuple(Spot(f"column {col + 1}", MARGIN + STEP * col, 0, STEP, HEIGHT) for col in range(COLS)),
    _clicked,
)
