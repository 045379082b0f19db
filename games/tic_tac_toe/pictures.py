"""A board of tic-tac-toe as SVG."""

from __future__ import annotations

from games.knowledge import Clicks, grid
from games.small import EMPTY, FIRST, board_rows, cells_in_line
from games.spec import State
from games.tic_tac_toe import COLS, ROWS

STEP, ARM, WIDTH = 90, 24, 270
"""Pixels: of a cell, from the middle of a mark to its end, of the board."""
PAPER, LINE, NUMBER, LAST = "#fbfaf6", "#8a8577", "#6b675c", "#f3e6b8"
FIRSTS, SECONDS = "#2d5fa8", "#b5532a"


def svg(state: State, move: str) -> bytes:
    """The position with the numbers of empty cells. The cell of `move`, which led to it, is marked, and so
    are three in a row."""
    parts = [f'<rect width="{WIDTH}" height="{WIDTH}" fill="{PAPER}"/>']
    rows = board_rows(state, ROWS, COLS)
    winning = cells_in_line(rows, 3)
    for down, row in enumerate(rows):
        for col, seen in enumerate(row):
            if move == str(_cell(down, col) + 1) or (down, col) in winning:
                place = f'x="{STEP * col}" y="{STEP * down}" width="{STEP}" height="{STEP}"'
                parts.append(f'<rect {place} fill="{LAST}"/>')
            if seen == EMPTY:
                parts.append(_number(down, col))
            else:
                parts.append(_mark(seen, STEP * col + STEP // 2, STEP * down + STEP // 2))
    for at in (STEP, 2 * STEP):
        for x1, y1, x2, y2 in ((at, 6, at, WIDTH - 6), (6, at, WIDTH - 6, at)):
            parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="3"/>')
    size = f'width="{WIDTH}" height="{WIDTH}" viewBox="0 0 {WIDTH} {WIDTH}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def _mark(side: str, x: int, y: int) -> str:
    if side == FIRST:
        strokes = f"M{x - ARM} {y - ARM}L{x + ARM} {y + ARM}M{x - ARM} {y + ARM}L{x + ARM} {y - ARM}"
        return f'<path d="{strokes}" stroke="{FIRSTS}" stroke-width="9" stroke-linecap="round"/>'
    return f'<circle cx="{x}" cy="{y}" r="{ARM + 2}" fill="none" stroke="{SECONDS}" stroke-width="9"/>'


def _number(down: int, col: int) -> str:
    """The cell's number in its upper left corner."""
    font = f'font-family="sans-serif" font-size="15" fill="{NUMBER}"'
    return f'<text x="{STEP * col + 9}" y="{STEP * down + 20}" {font}>{_cell(down, col) + 1}</text>'


def _cell(down: int, col: int) -> int:
    """Cells are numbered from the bottom left."""
    return (ROWS - 1 - down) * COLS + col


def _clicked(_state: State, action: int) -> tuple[str, ...]:
    return (f"cell {action + 1}",)


_NAMES = [[f"cell {_cell(down, col) + 1}" for col in range(COLS)] for down in range(ROWS)]
CLICKS = Clicks(WIDTH, WIDTH, grid(_NAMES, 0, 0, STEP), _clicked)
