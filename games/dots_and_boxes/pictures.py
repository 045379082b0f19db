"""A board of dots-and-boxes as SVG."""

from __future__ import annotations

from games.dots_and_boxes.board import SIDES
from games.dots_and_boxes.notation import LETTERS, Text
from games.spec import State

STEP, EDGE, DOT = 40, 4, 5
"""Pixels: from dot to dot, width of an edge, radius of a dot."""
COLOURS = ("#7aa6d9", "#e0a060")
"""Of the first and of the second player's boxes."""
LAST = "#c03030"
"""The last edge."""


def svg(text: Text, state: State, move: str) -> bytes:
    """The position; `move`, in the game's notation, led to it and is marked."""
    board = text.board
    drawn, first, second, _ = text.parts(state)
    height, width = (STEP * (count + 1) for count in (board.rows, board.cols))

    def at(y: int, x: int) -> tuple[float, float]:
        """Pixels (x, y) of a point, the first row below."""
        return STEP * (x + 1) / 2, height - STEP * (y + 1) / 2

    parts = []
    for (y, x), box in board.box_at.items():
        for player, owned in enumerate((first, second)):
            if owned >> box & 1:
                left, top = at(y + SIDES[2][0], x + SIDES[3][1])
                place = f'x="{left}" y="{top}" width="{STEP}" height="{STEP}"'
                parts.append(f'<rect {place} fill="{COLOURS[player]}"/>')
    for (y, x), edge in board.edge_at.items():
        if drawn >> edge & 1:
            (x1, y1), (x2, y2) = (at(y, x - 1), at(y, x + 1)) if x % 2 else (at(y - 1, x), at(y + 1, x))
            colour = LAST if text.move_of(state, edge) == move else "#202020"
            place = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
            parts.append(f'<line {place} stroke="{colour}" stroke-width="{EDGE}"/>')
    for row in range(board.rows + 1):
        for col in range(board.cols + 1):
            cx, cy = at(2 * row, 2 * col)
            name = f"<title>{LETTERS[col]}{row + 1}</title>"
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="{DOT}">{name}</circle>')
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()
