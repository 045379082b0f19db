"""Policy indices and input planes of shogi, written out plainly from lists of squares and pieces.

Squares are (file, rank), both from 1: "7g" is (7, 7).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DIRECTIONS = [(0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1)]
"""(files, ranks) of N, NE, E, SE, S, SW, W, NW."""
PIECES = ["P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R"]
DROPS = "PLNSGBR"
MOST = [18, 4, 4, 4, 4, 2, 2]


def plain_action(usi: str, white: bool) -> int:
    """Return the index of a USI move, from the description of the scheme."""

    def square(text: str) -> tuple[int, int]:
        file, rank = int(text[0]), "abcdefghi".index(text[1]) + 1
        return (10 - file, 10 - rank) if white else (file, rank)

    to = square(usi[2:4])
    if usi[1] == "*":
        return (132 + DROPS.index(usi[0])) * 81 + cell(to)
    origin = square(usi[:2])
    files, ranks = to[0] - origin[0], to[1] - origin[1]
    if abs(files) == 1 and ranks == -2:
        plane = 64 if files == 1 else 65
    else:
        distance = max(abs(files), abs(ranks))
        plane = 8 * DIRECTIONS.index((files // distance, ranks // distance)) + distance - 1
    return (plane + 66 * usi.endswith("+")) * 81 + cell(origin)


def cell(square: tuple[int, int]) -> int:
    """Return the cell of a (file, rank), counted down the files."""
    return 9 * (square[0] - 1) + square[1] - 1


@dataclass(frozen=True)
class PlainPosition:
    """A position, read from an SFEN."""

    board: dict[tuple[int, int], str]
    white: bool
    hands: Counter[str]
    number: int

    @staticmethod
    def of(sfen: str) -> PlainPosition:
        rows, side, hands, number = sfen.split()
        board = {}
        for rank, row in enumerate(rows.split("/"), 1):
            file = 9
            for piece in re.findall(r"\+?[A-Za-z]|\d", row):
                if piece.isdigit():
                    file -= int(piece)
                else:
                    board[file, rank] = piece
                    file -= 1
        held: Counter[str] = Counter()
        for count, piece in re.findall(r"(\d*)([A-Za-z])", hands):
            held[piece] += int(count or 1)
        return PlainPosition(board, side == "w", held, int(number))

    def planes(self, white: bool, times: int) -> npt.NDArray[np.float32]:
        """Return [28 + 14 + 3, 81] as White or Black sees them; the position has occurred `times` times
        before."""
        found = np.zeros((45, 81), np.float32)
        for (file, rank), piece in self.board.items():
            own = piece.islower() == white
            seen = (10 - file, 10 - rank) if white else (file, rank)
            found[PIECES.index(piece.upper()) + 14 * (not own), cell(seen)] = 1
        for at, (letter, most) in enumerate(zip(DROPS, MOST, strict=True)):
            own, other = (letter.lower(), letter) if white else (letter, letter.lower())
            found[28 + at], found[35 + at] = self.hands[own] / most, self.hands[other] / most
        for plane in range(3):
            found[42 + plane] = times > plane
        return found


def plain_planes(sfens: list[str], history: int) -> npt.NDArray[np.float32]:
    """Return [45 * history + 2, 81] of the last of `sfens`, which hold all positions since the start: pieces
    of all positions, newest first, then hands and repetitions of all positions, then side and move count."""
    now = PlainPosition.of(sfens[-1])
    pieces, numbers = np.zeros((history, 28, 81), np.float32), np.zeros((history, 17, 81), np.float32)
    for back in range(min(history, len(sfens))):
        at = len(sfens) - 1 - back
        same = [sfen.split()[:3] for sfen in sfens[: at + 1]]
        planes = PlainPosition.of(sfens[at]).planes(now.white, same[:-1].count(same[-1]))
        pieces[back], numbers[back] = planes[:28], planes[28:]
    once = np.array([now.white, min((now.number - 1) / 512, 1)], np.float32)
    everywhere = np.repeat(once[:, None], 81, axis=1)
    return np.concatenate([pieces.reshape(-1, 81), numbers.reshape(-1, 81), everywhere])
