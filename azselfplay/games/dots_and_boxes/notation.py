"""Dots-and-boxes as text and pictures: moves from dot to dot (`a1b1`), positions row by row, a board for a
terminal.

Columns of dots are letters from the left, rows are numbers from the bottom. A position is written from the
top: rows of horizontal edges (1 drawn, 0 not) alternate with rows of boxes and the edges between them, and
the side to move follows. For example, on two boxes side by side, in `11/1x1.0/10 x` the first player owns the
left box, and the edge above the other box is drawn.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np

from azselfplay.games.boards import Clicks, Spot, bits_of, picture, text_at, words_of
from azselfplay.games.dots_and_boxes.rules import SIDES, Board, Point
from azselfplay.games.spec import Notation, State

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST, SECOND, NOBODY = "x", "o", "."


@dataclass(frozen=True)
class Text:
    """The text of positions and moves for one board size."""

    board: Board

    def notation(self) -> Notation:
        return Notation(self.state_from, self.text_of, self.move_of, self.action_from, self.render)

    def parts(self, state: State) -> tuple[int, int, int, int]:
        """Return (drawn edges, the first player's boxes, the second's, side to move), with edges and boxes as
        bits."""
        edges, boxes = state[: self.board.edge_words], state[self.board.edge_words : -1]
        first, second = boxes[: self.board.box_words], boxes[self.board.box_words :]
        return bits_of(edges), bits_of(first), bits_of(second), int(state[-1])

    def score(self, state: State) -> int:
        """Return the first player's boxes minus the second's."""
        _, first, second, _ = self.parts(state)
        return first.bit_count() - second.bit_count()

    def _letter_at(self, point: Point, state: State, drawn: str, open_: str) -> str:
        """Return the text of a point that is not a dot."""
        edges, first, second, _ = self.parts(state)
        if point in self.board.edge_at:
            return drawn if edges >> self.board.edge_at[point] & 1 else open_
        box = self.board.box_at[point]
        return FIRST if first >> box & 1 else SECOND if second >> box & 1 else NOBODY

    def _rows(self) -> list[list[Point]]:
        """Return the points that are written, row by row from the top."""
        height, width = 2 * self.board.rows, 2 * self.board.cols
        # Leave out the dots, which are the same in every position.
        return [[(y, x) for x in range(width + 1) if y % 2 or x % 2] for y in range(height, -1, -1)]

    def text_of(self, state: State) -> str:
        rows = ["".join(self._letter_at(point, state, "1", "0") for point in row) for row in self._rows()]
        return "/".join(rows) + f" {(FIRST, SECOND)[int(state[-1])]}"

    def state_from(self, text: str) -> State:
        """Return the state in `text`; "" is the empty board. Raises ValueError that says what is wrong."""
        if not text:
            return np.zeros(self.board.edge_words + 2 * self.board.box_words + 1, np.uint64)
        board, _, mover = text.strip().partition(" ")
        rows, points = board.split("/"), self._rows()
        if [len(row) for row in rows] != [len(row) for row in points] or mover not in (FIRST, SECOND):
            raise ValueError(
                f"{text!r} is not a position of {self.board.rows} x {self.board.cols} boxes: write its rows "
                f"from the top and who moves, as in {self.text_of(self.state_from(''))!r}"
            )
        # Strict: the lengths were compared above.
        seen = dict(zip(itertools.chain(*points), itertools.chain(*rows), strict=True))
        edges = self._bits(seen, self.board.edge_at, "1", "01")
        boxes = [self._bits(seen, self.board.box_at, one, FIRST + SECOND + NOBODY) for one in (FIRST, SECOND)]
        # A box must have an owner exactly if its four edges are drawn.
        owned = boxes[0] | boxes[1]
        for (y, x), box in self.board.box_at.items():
            closed = all(edges >> self.board.edge_at[y + dy, x + dx] & 1 for dy, dx in SIDES)
            if closed != bool(owned >> box & 1):
                what = "is closed and nobody's" if closed else "is somebody's and not closed"
                raise ValueError(f"the box in row {y // 2 + 1}, column {x // 2 + 1} {what}")
        words = [*words_of(edges, self.board.edge_words)]
        for one in boxes:
            words += words_of(one, self.board.box_words)
        return np.array([*words, (FIRST, SECOND).index(mover)], np.uint64)

    def _bits(self, seen: dict[Point, str], places: dict[Point, int], letter: str, allowed: str) -> int:
        for point in places:
            if seen[point] not in allowed:
                raise ValueError(f"{seen[point]!r} stands where one of {' '.join(allowed)} should")
        return sum(1 << place for point, place in places.items() if seen[point] == letter)

    def move_of(self, _state: State, action: int) -> str:
        """Return an edge, written as its two dots."""
        return self.edge_name(action)

    def edge_name(self, edge: int) -> str:
        """Return the name of an edge, which is the same in any position."""
        y, x = self.board.edge_points[edge]
        # An edge in an odd column is horizontal, between the dots to its left and right.
        ends = ((y, x - 1), (y, x + 1)) if x % 2 else ((y - 1, x), (y + 1, x))
        return "".join(f"{LETTERS[column // 2]}{row // 2 + 1}" for row, column in ends)

    def action_from(self, state: State, text: str) -> int:
        """Return the legal action that two dots name. Raises ValueError listing the legal ones."""
        edges = self.parts(state)[0]
        legal = {self.move_of(state, edge): edge for edge in range(self.board.edges) if not edges >> edge & 1}
        if text.strip() not in legal:
            listed = " ".join(legal) or "none: the game is over"
            raise ValueError(f"{text.strip()!r} is not an edge that can be drawn here; there are {listed}")
        return legal[text.strip()]

    def render(self, state: State) -> str:
        """Return the board with the names of the dots, the owners of boxes, the score and the side to
        move."""
        lines = []
        for y in range(2 * self.board.rows, -1, -1):
            line = f"{y // 2 + 1:2} " if y % 2 == 0 else "   "
            for x in range(2 * self.board.cols + 1):
                if y % 2 == 0 and x % 2 == 0:
                    line += "+"
                elif y % 2 and x % 2:
                    line += f" {self._letter_at((y, x), state, '', '').replace(NOBODY, ' ')} "
                else:
                    line += self._letter_at((y, x), state, *(("---", "   ") if x % 2 else ("|", " ")))
            lines.append(line.rstrip())
        names = "   ".join(LETTERS[: self.board.cols + 1])
        score = self.score(state)
        mover = (FIRST, SECOND)[int(state[-1])]
        return "\n".join([*lines, f"   {names}", f"score for {FIRST}: {score:+d}", f"{mover} to move"])


# ---- Pictures ------------------------------------------------------------------------------------


STEP, EDGE, DOT = 40, 4, 5
"""Pixels: distance of dots, width of an edge, radius of a dot."""
REACH = 16
"""Width of the clickable area around an edge, pixels."""
COLOURS = ("#7aa6d9", "#e0a060")
"""Colours of the first and of the second player's boxes."""
INK, FAINT, LAST = "#202020", "#808080", "#d04040"
"""Colours of dots, letters and edges; of edges that are not drawn; of the last edge."""


def _size(board: Board) -> tuple[int, int]:
    """Return (width, height) of the picture, in pixels."""
    return STEP * (board.cols + 1), STEP * (board.rows + 1)


def _place(board: Board, y: int, x: int) -> tuple[float, float]:
    """Return the pixel (x, y) of a point; the first row is at the bottom."""
    return STEP * (x + 1) / 2, _size(board)[1] - STEP * (y + 1) / 2


def clicks(text: Text) -> Clicks:
    """Return the clickable areas: one around the middle of each edge."""
    board, spots = text.board, []
    for edge, (y, x) in enumerate(board.edge_points):
        (middle_x, middle_y), lies = _place(board, y, x), x % 2 == 1
        # Areas are shorter than edges, so that those around one dot do not overlap.
        wide, high = (STEP - REACH, REACH) if lies else (REACH, STEP - REACH)
        spots.append(Spot(_name(text, edge), middle_x - wide / 2, middle_y - high / 2, wide, high))
    return Clicks(*_size(board), tuple(spots), lambda _state, action: (_name(text, action),))


def _name(text: Text, edge: int) -> str:
    return f"edge {text.edge_name(edge)}"


def svg(text: Text, state: State, move: str) -> bytes:
    """Return the position as SVG. `move`, in the game's notation, which led to the position, is marked."""
    board = text.board
    drawn, first, second, _ = text.parts(state)
    width, height = _size(board)
    at = partial(_place, board)
    parts = [f'<rect width="{width}" height="{height}" fill="#ffffff" class="paper"/>']
    for (y, x), box in board.box_at.items():
        for player, owned in enumerate((first, second)):
            if owned >> box & 1:
                # The upper left corner of the box.
                left, top = at(y + SIDES[2][0], x + SIDES[3][1])
                place = f'x="{left}" y="{top}" width="{STEP}" height="{STEP}"'
                parts.append(f'<rect {place} fill="{COLOURS[player]}"/>')
    for (y, x), edge in board.edge_at.items():
        (x1, y1), (x2, y2) = (at(y, x - 1), at(y, x + 1)) if x % 2 else (at(y - 1, x), at(y + 1, x))
        is_last = text.edge_name(edge) == move
        look = f'stroke="{LAST if is_last else INK}" stroke-width="{EDGE}"' + (
            "" if is_last else ' class="ink"'
        )
        if not drawn >> edge & 1:
            look = f'stroke="{FAINT}" stroke-dasharray="3 3" class="pencil"'
        parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {look}/>')
    for row in range(board.rows + 1):
        for col in range(board.cols + 1):
            cx, cy = at(2 * row, 2 * col)
            name = f"<title>{LETTERS[col]}{row + 1}</title>"
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="{DOT}" fill="{INK}" class="ink">{name}</circle>')
    for col in range(board.cols + 1):
        parts.append(text_at(at(0, 2 * col)[0], height - 4, LETTERS[col], 11, INK, ' class="ink"'))
    for row in range(board.rows + 1):
        parts.append(text_at(7, at(2 * row, 0)[1] + 4, str(row + 1), 11, INK, ' class="ink"'))
    return picture(width, height, parts)
