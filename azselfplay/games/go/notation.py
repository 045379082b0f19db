"""Go as text: GTP vertices, positions row by row, a board for a terminal; and the board as SVG.

A vertex is a letter for the column (without I) and a number for the row, or `pass`. A position is its rows
from the top, the side to move, and the number of passes in a row just before: `.../.x./... o 0`. `x` is
Black, the first player, `o` White, `.` an empty point, `,` an empty point that once had a stone. Earlier
positions, which matter for superko, are not included.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from azselfplay.games.boards import Clicks, bits_of, grid, lines, picture, text_at
from azselfplay.games.go.board import Board
from azselfplay.games.spec import Notation, State

# ---- Vertices ------------------------------------------------------------------------------------


# As in GTP, without I, which looks like J.
COLUMNS = "ABCDEFGHJKLMNOPQRST"
PASS = "pass"


def vertex_of(size: int, action: int) -> str:
    """Return the text of an action on a board of size x size. The pass is the action after all points."""
    if action == size * size:
        return PASS
    row, col = divmod(action, size)
    return f"{COLUMNS[col]}{row + 1}"


def action_of(size: int, text: str) -> int:
    """Return the action that a vertex names, in upper or lower case. Raises ValueError if there is no such
    point."""
    word = text.strip()
    if word.lower() == PASS:
        return size * size
    # `find` would find an empty string, so replace it by a character that is no column.
    col, number = COLUMNS[:size].find(word[:1].upper() or "?"), word[1:]
    if col < 0 or not (number.isascii() and number.isdecimal()) or not 1 <= int(number[:4]) <= size:
        raise ValueError(
            f"{word!r} is not a point of {size} x {size}: those go from {vertex_of(size, 0)} to "
            f"{vertex_of(size, size * size - 1)}, without column I; or write {PASS}"
        )
    return (int(number[:4]) - 1) * size + col


# ---- Positions and moves -------------------------------------------------------------------------


STONES = "xo"
EMPTY, EMPTIED = ".", ","


@dataclass(frozen=True)
class Text:
    """The text of positions and moves for one board and one set of rules."""

    board: Board
    kernels: Any
    """`games.go.rules.kernels_of`"""

    def notation(self) -> Notation:
        return Notation(
            self.state_from, self.text_of, self.move_of, self.action_from, self.render, engine_protocol="gtp"
        )

    # ---- Positions ----------------------------------------------------------------------------

    def rows(self, state: State) -> list[str]:
        """Return the board as text, top row first."""
        size, words = self.board.size, self.board.words
        first, second, used = (bits_of(state[at * words : (at + 1) * words]) for at in range(3))

        def letter(point: int) -> str:
            for stones, stone in zip((first, second), STONES, strict=True):
                if stones >> point & 1:
                    return stone
            return EMPTIED if used >> point & 1 else EMPTY

        return ["".join(letter(row * size + col) for col in range(size)) for row in reversed(range(size))]

    def text_of(self, state: State) -> str:
        mover, passed = self._turn(state)
        return f"{'/'.join(self.rows(state))} {STONES[mover]} {passed}"

    def _turn(self, state: State) -> tuple[int, int]:
        return int(self.kernels.side_to_move(state)), int(self.kernels.passes(state))

    def state_from(self, text: str) -> State:
        """Return the state in `text`; "" is the empty board. Raises ValueError that says what is wrong."""
        if not text:
            return self.state_of("." * self.board.points, 0, 0)
        board, mover, passed = (*text.split(), "", "", "")[:3]
        lines, size = board.split("/"), self.board.size
        passed = passed or "0"
        if len(text.split()) > 3 or [len(line) for line in lines] != [size] * size or mover not in {*STONES}:
            raise ValueError(
                f"{text!r} is not a position of {size} x {size}: write {size} rows of {size} from the top, "
                f"who moves, and the number of passes at the end, as in '{'/'.join(['.' * size] * size)} x 0'"
            )
        if passed not in {"0", "1", "2"}:
            raise ValueError(f"the number of passes at the end is {passed!r}: write 0, 1 or 2")
        strange = set(board) - {*STONES, EMPTY, EMPTIED, "/"}
        if strange:
            raise ValueError(f"{min(strange)!r} is none of '{STONES}{EMPTY}{EMPTIED}'")
        return self.state_of("".join(reversed(lines)), STONES.index(mover), int(passed))

    def state_of(self, letters: str, mover: int, passed: int = 0) -> State:
        """Return the position with a letter for each point, in the order of points. Raises ValueError if a
        chain has no liberty."""
        board = self.board
        stones = [[point for point, seen in enumerate(letters) if seen == stone] for stone in STONES]
        # Superko needs to know where stones once were, so the text includes that.
        used = [point for point, seen in enumerate(letters) if seen != EMPTY]
        key = np.bitwise_xor.reduce([board.keys[side, p] for side in (0, 1) for p in stones[side]] or [0])
        words = [*map(board.words_of, (*stones, used)), [key, mover + 2 * passed]]
        state: State = np.concatenate([np.asarray(part, np.uint64) for part in words])
        empty = np.zeros(board.words + 1, np.uint64)
        self.kernels.find_empty(state, empty)
        for side, points in enumerate(stones):
            for point in points:
                scratch = np.zeros(board.scratch_words, np.uint64)
                # A chain without a liberty is impossible: it would have been captured.
                if self.kernels.list_if_dead(state, side, empty, point, scratch, 0):
                    where = f"the {STONES[side]} at {vertex_of(board.size, point)}"
                    raise ValueError(f"{where} has no liberty: it would be off the board")
        return state

    # ---- Moves --------------------------------------------------------------------------------

    def move_of(self, _state: State, action: int) -> str:
        return vertex_of(self.board.size, action)

    def action_from(self, state: State, text: str) -> int:
        """Return the action that a vertex names. Raises ValueError if it cannot be legal in this position,
        whatever the past."""
        action, legal = action_of(self.board.size, text), np.zeros(self.board.points + 1, np.uint16)
        count = self.kernels.legal_actions(state.reshape(1, -1), 1, legal)
        if action not in legal[:count]:
            words = self.board.words
            # The kernels only say that the move is not legal; find out why, for people.
            taken = (bits_of(state[:words]) | bits_of(state[words : 2 * words])) >> action & 1
            why = "a stone is there" if taken else "that is suicide"
            raise ValueError(f"{text.strip()} cannot be played here: {why}")
        return action

    def render(self, state: State) -> str:
        """Return the board with the names of rows and columns, the current score, and the side to move."""
        names = "   " + " ".join(COLUMNS[: self.board.size])
        lines = [
            f"{self.board.size - place:2} {' '.join(row.replace(EMPTIED, EMPTY))}"
            for place, row in enumerate(self.rows(state))
        ]
        mover, _ = self._turn(state)
        score = f"score for {STONES[0]} if the game ended now: {self.kernels.lead(state) / 2:+g}"
        return "\n".join([*lines, names, score, f"{STONES[mover]} to move"])


# ---- Pictures ------------------------------------------------------------------------------------


STARS = {19: (3, 9, 15), 13: (3, 6, 9), 9: (2, 4, 6), 7: (3,), 5: (2,)}
"""By board size: rows and columns of the star points. On 9 x 9 only the corners and the middle of this grid
are used."""
STEP, MARGIN = 24, 30
"""Pixels: between two lines, and the margin around the board, which holds the coordinates."""
WOOD, LINE, LAST = "#e3b76b", "#5a4520", "#c03030"

STONE_LOOKS = (("x", "#202020", "#000000"), ("o", "#f8f8f8", "#707070"))
"""Letter, colour and rim of each side's stones."""


def svg(text: Text, state: State, move: str) -> bytes:
    """Return the position as SVG. `move`, in the game's notation, which led to the position, is marked."""
    size = text.board.size
    width = STEP * (size - 1) + 2 * MARGIN
    parts = [f'<rect width="{width}" height="{width}" fill="{WOOD}"/>']
    parts += lines(MARGIN, MARGIN, STEP, size, LINE)
    for y, x in itertools.product(STARS.get(size, ()), repeat=2):
        if size != 9 or (y == 4) == (x == 4):
            place = f'cx="{MARGIN + STEP * x}" cy="{MARGIN + STEP * y}"'
            parts.append(f'<circle {place} r="3" fill="{LINE}"/>')
    # Coordinates on all four edges, so that the board is centred.
    for at, edge in itertools.product(range(size), (9, width - 9)):
        parts.append(text_at(MARGIN + STEP * at, edge + 4, COLUMNS[at], 11, LINE))
        parts.append(text_at(edge, MARGIN + STEP * (size - 1 - at) + 4, str(at + 1), 11, LINE))
    for down, row in enumerate(text.rows(state)):
        for col, letter in enumerate(row):
            vertex = vertex_of(size, (size - 1 - down) * size + col)
            place = f'cx="{MARGIN + STEP * col}" cy="{MARGIN + STEP * down}"'
            for stone, colour, rim in STONE_LOOKS:
                if letter == stone:
                    title = f"<title>{vertex}</title>"
                    radius = STEP // 2 - 1
                    parts.append(
                        f'<circle {place} r="{radius}" fill="{colour}" stroke="{rim}">{title}</circle>'
                    )
            if vertex == move:
                parts.append(f'<circle {place} r="{STEP // 5}" fill="{LAST}"/>')
    return picture(width, width, parts)


def clicks(size: int) -> Clicks:
    """Return the clickable areas, one around each point. A pass has no area."""
    rows = [[vertex_of(size, row * size + col) for col in range(size)] for row in reversed(range(size))]
    width, corner = STEP * (size - 1) + 2 * MARGIN, MARGIN - STEP / 2

    def clicked(_state: State, action: int) -> tuple[str, ...]:
        vertex = vertex_of(size, action)
        return () if vertex == PASS else (vertex,)

    return Clicks(width, width, grid(rows, corner, corner, STEP), clicked)
