"""A shogi board as SVG: Black at the bottom, each hand on its own side. Pieces are letters, as in SFEN, so
that no Japanese font is needed; they point in their direction of movement."""

from __future__ import annotations

from games.bits import ONE
from games.knowledge import Clicks, Spot, grid
from games.shogi.actions import DROP_PLANE, squares_of
from games.shogi.layout import CODE_LETTERS, REST, WHITES, codes_of
from games.shogi.notation import dropped_kind
from games.shogi.sfen import COLOURS, HAND_ORDER, SQUARE_NAMES, hand_counts
from games.spec import State

STEP, MARGIN, HAND = 42, 18, 48
"""Pixels: a square, the margin left and right of the board, and the height of a hand above and below it."""
TOP, WIDTH, HEIGHT = HAND + 16, 9 * STEP + 2 * MARGIN, 9 * STEP + 2 * HAND + 32
WOOD, LINE, PIECE, PROMOTED, LAST = "#efd9a7", "#6b5427", "#fbf3dd", "#b02a2a", "#e3b04f"


def svg(state: State, move: str) -> bytes:
    """The position; `move` (USI, "" at the start) led to it, and its squares are marked."""
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#f6efdf"/>',
        f'<rect x="{MARGIN}" y="{TOP}" width="{9 * STEP}" height="{9 * STEP}" fill="{WOOD}"/>',
    ]
    marked = {move[:2], move[2:4]}
    for spot in SQUARES:
        if spot.name in marked:
            place = f'x="{spot.x}" y="{spot.y}" width="{STEP}" height="{STEP}"'
            parts.append(f'<rect {place} fill="{LAST}"/>')
    parts += [*_lines(), *_coordinates()]
    by_name = dict(zip(SQUARE_NAMES, codes_of(state), strict=True))
    for spot in SQUARES:
        code = int(by_name[spot.name])
        if code:
            parts.append(_piece(spot, CODE_LETTERS[code % WHITES], turned=code >= WHITES))
    for side in range(2):
        parts += _hand(state, side)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def _lines() -> list[str]:
    right, bottom, found = MARGIN + 9 * STEP, TOP + 9 * STEP, []
    for at in range(10):
        x, y = MARGIN + at * STEP, TOP + at * STEP
        for x1, y1, x2, y2 in ((x, TOP, x, bottom), (MARGIN, y, right, y)):
            found.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}"/>')
    return found


def _coordinates() -> list[str]:
    files = [_text(f"{9 - col}", MARGIN + STEP * (col + 0.5), TOP - 4, 11) for col in range(9)]
    ranks = [
        _text(name, WIDTH - MARGIN / 2, TOP + STEP * (row + 0.6), 11) for row, name in enumerate("abcdefghi")
    ]
    return files + ranks


def _text(text: str, x: float, y: float, size: int, colour: str = LINE) -> str:
    font = f'font-family="sans-serif" font-size="{size}" text-anchor="middle" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {font}>{text}</text>'


def _piece(spot: Spot, letters: str, *, turned: bool) -> str:
    """A pentagon that points to the other side."""
    x, y = spot.x + spot.width / 2, spot.y + spot.height / 2
    up = -1 if turned else 1
    outline = " ".join(
        f"{x + dx:g},{y - up * dy:g}" for dx, dy in ((0, 18), (12, 12), (16, -16), (-16, -16), (-12, 12))
    )
    colour = PROMOTED if letters.startswith("+") else "#202020"
    shape = f'<polygon points="{outline}" fill="{PIECE}" stroke="{LINE}"/>'
    return shape + _text(letters, x, y + 6 + 2 * up, 17, colour)


def _hand(state: State, side: int) -> list[str]:
    counts, found = hand_counts(state, side), []
    for spot, letter in zip(HANDS[side], HAND_ORDER, strict=True):
        count = counts[CODE_LETTERS.index(letter)]
        if count:
            found.append(_piece(spot, letter, turned=side == 1))
            found.append(_text(str(count), spot.x + spot.width + 4, spot.y + spot.height - 6, 12))
    return found


def _in_hand(side: int, letter: str) -> str:
    """The name of a spot."""
    return f"{COLOURS[side]}'s {letter} in hand"


def _hand_spots(side: int) -> tuple[Spot, ...]:
    top = 4 if side else HEIGHT - HAND + 2
    return tuple(
        Spot(_in_hand(side, letter), MARGIN + at * 54, top, STEP, STEP)
        for at, letter in enumerate(HAND_ORDER)
    )


def _clicked(state: State, action: int) -> tuple[str, ...]:
    """The square that the piece leaves, or its kind in the hand, and the square that it goes to."""
    origin, target, plane = squares_of(action, state[REST] & ONE)
    if plane >= DROP_PLANE:
        letter = CODE_LETTERS[dropped_kind(action)]
        return _in_hand(int(state[REST]) & 1, letter), SQUARE_NAMES[target]
    return SQUARE_NAMES[origin], SQUARE_NAMES[target]


SQUARES = grid([[f"{file}{rank}" for file in range(9, 0, -1)] for rank in "abcdefghi"], MARGIN, TOP, STEP)
HANDS = (_hand_spots(0), _hand_spots(1))
CLICKS = Clicks(WIDTH, HEIGHT, (*SQUARES, *HANDS[0], *HANDS[1]), _clicked)
