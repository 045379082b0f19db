"""A Go board as SVG."""

from __future__ import annotations

from games.go.notation import Text
from games.go.vertices import PASS, vertex_of
from games.knowledge import Clicks, grid
from games.spec import State

STEP, MARGIN = 24, 30
"""Pixels: between two lines, and the margin around the board, which holds the coordinates."""
WOOD, LINE, LAST = "#e3b76b", "#5a4520", "#c03030"
STONES = (("x", "#202020", "#000000"), ("o", "#f8f8f8", "#707070"))
"""Letter, colour and rim of each side's stones."""


def svg(text: Text, state: State, move: str) -> bytes:
    """The position; `move`, in the game's notation, which led to it, is marked."""
    size = text.board.size
    last, width = STEP * (size - 1) + MARGIN, STEP * (size - 1) + 2 * MARGIN
    parts = [f'<rect width="{width}" height="{width}" fill="{WOOD}"/>']
    for at in range(MARGIN, last + 1, STEP):
        for x1, y1, x2, y2 in ((at, MARGIN, at, last), (MARGIN, at, last, at)):
            parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}"/>')
    parts += _coordinates(size)
    for down, row in enumerate(text.rows(state)):
        for col, letter in enumerate(row):
            vertex = vertex_of(size, (size - 1 - down) * size + col)
            place = f'cx="{MARGIN + STEP * col}" cy="{MARGIN + STEP * down}"'
            for stone, colour, rim in STONES:
                if letter == stone:
                    title = f"<title>{vertex}</title>"
                    radius = STEP // 2 - 1
                    parts.append(
                        f'<circle {place} r="{radius}" fill="{colour}" stroke="{rim}">{title}</circle>'
                    )
            if vertex == move:
                parts.append(f'<circle {place} r="{STEP // 5}" fill="{LAST}"/>')
    frame = f'width="{width}" height="{width}" viewBox="0 0 {width} {width}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>{"".join(parts)}</svg>'.encode()


def _coordinates(size: int) -> list[str]:
    """Letters of the columns below, numbers of the rows on the left."""
    font = f'font-family="sans-serif" font-size="11" text-anchor="middle" fill="{LINE}"'
    below, found = STEP * (size - 1) + 2 * MARGIN - 5, list[str]()
    for at in range(size):
        letter = vertex_of(size, at)[0]
        found.append(f'<text x="{MARGIN + STEP * at}" y="{below}" {font}>{letter}</text>')
        found.append(f'<text x="9" y="{MARGIN + STEP * (size - 1 - at) + 4}" {font}>{at + 1}</text>')
    return found


def clicks(size: int) -> Clicks:
    """The clickable areas: each point is clicked around it; a pass belongs to no point."""
    rows = [[vertex_of(size, row * size + col) for col in range(size)] for row in reversed(range(size))]
    width, corner = STEP * (size - 1) + 2 * MARGIN, MARGIN - STEP / 2

    def clicked(_state: State, action: int) -> tuple[str, ...]:
        vertex = vertex_of(size, action)
        return () if vertex == PASS else (vertex,)

    return Clicks(width, width, grid(rows, corner, corner, STEP), clicked)
