"""A board of dots-and-boxes as SVG."""

from __future__ import annotations

from games.dots_and_boxes.board import SIDES, Board
from games.dots_and_boxes.notation import LETTERS, Text
from games.knowledge import Clicks, Spot
from games.spec import State

STEP, EDGE, DOT = 40, 4, 5
"""Pixels: from dot to dot, width of an edge, radius of a dot."""
REACH = 16
"""Width of the area around an edge that can be clicked."""
COLOURS = ("#7aa6d9", "#e0a060")
"""Colours of the first and of the second player's boxes."""
LAST = "#c03030"
"""Colour of the last edge."""


def _size(board: Board) -> tuple[int, int]:
    """(width, height) of the picture, pixels."""
    return STEP * (board.cols + 1), STEP * (board.rows + 1)


def _place(board: Board, y: int, x: int) -> tuple[float, float]:
    """The pixel (x, y) of a point, with the first row at the bottom."""
    return STEP * (x + 1) / 2, _size(board)[1] - STEP * (y + 1) / 2


def clicks(text: Text) -> Clicks:
    """The clickable areas: each edge is clicked around its middle."""
    board, spots = text.board, []
    for edge, (y, x) in enumerate(board.edge_points):
        (middle_x, middle_y), lies = _place(board, y, x), x % 2 == 1
        wide, high = (STEP - REACH, REACH) if lies else (REACH, STEP - REACH)
        spots.append(Spot(_name(text, edge), middle_x - wide / 2, middle_y - high / 2, wide, high))
    return Clicks(*_size(board), tuple(spots), lambda _state, action: (_name(text, action),))


def _name(text: Text, edge: int) -> str:
    return f"edge {text.edge_name(edge)}"


def svg(text: Text, state: State, move: str) -> bytes:
    """The position; `move`, in the game's notation, which led to it, is marked."""
    board = text.board
    drawn, first, second, _ = text.parts(state)
    width, height = _size(board)

    def at(y: int, x: int) -> tuple[float, float]:
        return _place(board, y, x)

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
            colour = LAST if text.edge_name(edge) == move else "#202020"
            place = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
            parts.append(f'<line {place} stroke="{colour}" stroke-width="{EDGE}"/>')
    for row in range(board.rows + 1):
        for col in range(board.cols + 1):
            cx, cy = at(2 * row, 2 * col)
            name = f"<title>{LETTERS[col]}{row + 1}</title>"
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="{DOT}">{name}</circle>')
    parts += _coordinates(board)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def _coordinates(board: Board) -> list[str]:
    """Letters of the columns of dots below them, numbers of the rows to their left."""
    font = 'font-family="sans-serif" font-size="11" text-anchor="middle" fill="#606060"'
    below, found = _size(board)[1] - 4, list[str]()
    for col in range(board.cols + 1):
        found.append(f'<text x="{_place(board, 0, 2 * col)[0]}" y="{below}" {font}>{LETTERS[col]}</text>')
    for row in range(board.rows + 1):
        found.append(f'<text x="7" y="{_place(board, 2 * row, 0)[1] + 4}" {font}>{row + 1}</text>')
    return found
