"""Helpers for the boards of several games: squares along a line, the ranks of FEN and SFEN, SVG pictures and
their clickable areas, and values in centipawns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import State

# ---- Squares -------------------------------------------------------------------------------------
# A square is `size * line + place`: rank and file in chess, file and rank in shogi.


Step = tuple[int, int]
"""A step as (lines, places)."""


def walk(size: int, square: int, step: Step, most: int) -> list[int]:
    """Return the squares met when walking from `square` in steps of `step`, at most `most`, on a board of
    size x size."""
    (line, place), met = divmod(square, size), []
    for _ in range(most):
        line, place = line + step[0], place + step[1]
        # Compare lines and places, not squares: a step over the edge would come back on the other side.
        if not (0 <= line < size and 0 <= place < size):
            break
        met.append(size * line + place)
    return met


def actions_by_squares(size: int, steps: Sequence[Step]) -> npt.NDArray[np.uint16]:
    """Return `[from * squares + to]`: the action `plane * squares + from`, where `plane` is that of the step
    between the two squares.

    No two planes share a step, so one table serves all pieces.
    """
    squares = size * size
    table = np.zeros(squares * squares, dtype=np.uint16)
    for plane, step in enumerate(steps):
        for square in range(squares):
            for target in walk(size, square, step, 1):
                table[square * squares + target] = plane * squares + square
    return table


def bits_of(words: npt.NDArray[np.uint64]) -> int:
    """Return some words of a state as one Python integer; the first word holds the lowest bits."""
    return sum(int(word) << 64 * place for place, word in enumerate(words))


def words_of(bits: int, count: int) -> list[int]:
    """Return an integer as `count` words: the inverse of `bits_of`."""
    return [bits >> 64 * place & 0xFFFFFFFFFFFFFFFF for place in range(count)]


# ---- FEN and SFEN --------------------------------------------------------------------------------


Piece = TypeVar("Piece")


def ranks_from_text(
    text: str, form: str, names: str, pieces: Mapping[str, Piece], empty: Piece
) -> list[list[Piece]]:
    """Return the ranks of a board from the top, each from the left. `names`: the names of the ranks. Raises
    ValueError that says what is wrong.

    form: the format's name in messages, such as `a FEN`. pieces: the piece for each letter, perhaps with a
    `+` before it.
    """
    size, ranks, found = len(names), text.split("/"), []
    if len(ranks) != size:
        raise ValueError(
            f"the board of {form} has {size} ranks separated by '/', got {len(ranks)} in {text!r}"
        )
    numbers = "123456789"[:size]
    for name, rank in zip(names, ranks, strict=True):
        row: list[Piece] = []
        # A plus belongs to the letter after it: a promoted piece of shogi.
        for piece in re.findall(r"\+?.", rank):
            if piece in numbers:
                row += [empty] * int(piece)
            elif piece in pieces:
                row.append(pieces[piece])
            else:
                raise ValueError(f"rank {name}: {piece!r} is neither a piece nor a number 1-{size}")
        if len(row) != size:
            raise ValueError(f"rank {name} has {len(row)} squares instead of {size}: {rank!r}")
        found.append(row)
    return found


def ranks_to_text(ranks: Iterable[Sequence[str]]) -> str:
    """Return the text of ranks from the top, in which "" is an empty square: the inverse of
    `ranks_from_text`."""
    # First write each empty square as 1; then replace each run of ones by its length.
    rows = ("".join(piece or "1" for piece in rank) for rank in ranks)
    return "/".join(re.sub("1+", lambda run: str(len(run[0])), row) for row in rows)


def number_from_text(text: str, what: str, most: int) -> int:
    """Return a numeric field of a position. Raises ValueError if `text` is not a number from 0 to `most`."""
    # `isdigit` alone would accept digits of other scripts, and `int` a text of any length.
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) > most:
        raise ValueError(f"the {what} is a number from 0 to {most}, not {text!r}")
    return int(text)


def bare_position(text: str) -> str:
    """Return the FEN or SFEN in what engines are sent: `position fen ...`, `sfen ...`; "" for `startpos`."""
    return re.sub(r"^\s*(position\s+)?(s?fen\s+|startpos\b)?", "", text).strip()


# ---- Pictures ------------------------------------------------------------------------------------
# In dark mode, web pages recolour the parts with these classes: `paper`, `ink` and `pencil` (lines, letters),
# `hole`. Everywhere else the picture's own colours are used.


def picture(width: float, height: float, parts: Iterable[str]) -> bytes:
    """Return an SVG of this size, in pixels."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def text_at(x: float, y: float, text: str, size: int, colour: str, more: str = "") -> str:
    """Return a text centred at `x` with its baseline at `y`; `more`: further attributes."""
    font = f'font-family="sans-serif" font-size="{size}" text-anchor="middle" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {font}{more}>{escape(text)}</text>'


def lines(left: int, top: int, step: int, count: int, colour: str) -> list[str]:
    """Return a square grid of `count` lines in each direction."""
    length, found = step * (count - 1), []
    for at in range(0, length + 1, step):
        for x, y, across, down in ((left + at, top, 0, length), (left, top + at, length, 0)):
            ends = f'x1="{x}" y1="{y}" x2="{x + across}" y2="{y + down}"'
            found.append(f'<line {ends} stroke="{colour}"/>')
    return found


# ---- Where a picture is clicked ---------------------------------------------------------------------


class Spot(NamedTuple):
    """A clickable rectangle on the picture of a board, in the picture's units."""

    name: str
    """For people and screen readers: `e4`, `column 3`."""
    x: float
    y: float
    width: float
    height: float

    def opposite(self, width: float, height: float) -> Spot:
        """Return the spot's place on a picture of this size turned by 180 degrees."""
        return self._replace(x=width - self.x - self.width, y=height - self.y - self.height)


@dataclass(frozen=True)
class Clicks:
    """How a person plays on the picture that `Knowledge.svg` (`games.knowledge`) draws."""

    width: float
    """Width of the picture's view box, like `height`; its upper left corner is (0, 0)."""
    height: float
    spots: tuple[Spot, ...]
    clicked: Callable[[State, int], tuple[str, ...]]
    """(state, a legal action) -> the names of the spots to click, in order; () for an action without a place
    (a pass). If several actions have the same clicks (with or without promotion), the user chooses by their
    text."""
    svg_turned: Callable[[State, str], bytes] | None = None
    """The picture from the second player's side, where every spot is in the opposite place. None: both
    players see the same picture."""


def grid(names: Sequence[Sequence[str]], left: float, top: float, step: float) -> tuple[Spot, ...]:
    """Return adjacent square spots from rows of names, the top row first."""
    return tuple(
        Spot(name, left + col * step, top + row * step, step, step)
        for row, line in enumerate(names)
        for col, name in enumerate(line)
    )


# ---- Values --------------------------------------------------------------------------------------


CENTIPAWN_SCALE, CENTIPAWN_BEND = 90.0, 1.5637541897
"""lc0's formula of versions 0.20 to 0.29: 90 tan(1.5637541897 value); a value of 0.5 is 89 centipawns."""


def centipawns(value: float) -> int:
    """Return a value in [-1, 1] in centipawns; +-12,780 at the ends."""
    return round(CENTIPAWN_SCALE * math.tan(CENTIPAWN_BEND * max(-1.0, min(1.0, value))))
