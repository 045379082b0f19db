"""Moves as indices into AlphaZero's 8 x 8 x 73 policy (Silver et al. 2018, supplement, table S2).

`action = plane * 64 + from_square`, both as the side to move sees the board. Planes 0-55: the eight
directions (N, NE, E, SE, S, SW, W, NW) times distances 1-7; 56-63: knight jumps, clockwise; 64-72:
promotions to knight, bishop, rook, each to the left, straight on, to the right. A promotion to a queen
is the queen-like move itself, castling the king's step of two squares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.chess.attacks import DIRECTIONS, KNIGHT_JUMPS
from games.chess.layout import BISHOPS, KNIGHTS, ROOKS

PLANES = 73
ACTIONS = PLANES * 64
UNDERPROMOTION_PLANE = 64
UNDERPROMOTIONS = (KNIGHTS, BISHOPS, ROOKS)

NORTH_ONE, NORTH_TWO = 0 * 64, 1 * 64
"""Added to the from-square: pawn steps."""
NORTH_EAST_ONE, NORTH_WEST_ONE = 7 * 64, 49 * 64
"""Added to the from-square: pawn captures."""
EAST_TWO, WEST_TWO = 15 * 64, 43 * 64
"""Added to the king's square: castling short and long."""


def _steps() -> list[tuple[int, int]]:
    """(files, ranks) of every plane, in order."""
    queen_like = [(f * distance, r * distance) for f, r in DIRECTIONS for distance in range(1, 8)]
    promotions = [(files, 1) for _ in UNDERPROMOTIONS for files in (-1, 0, 1)]
    return [*queen_like, *KNIGHT_JUMPS, *promotions]


def _shifts() -> npt.NDArray[np.uint64]:
    """What each plane adds to the from-square, modulo 64."""
    return np.array([(8 * ranks + files) % 64 for files, ranks in _steps()], dtype=np.uint64)


def _action_of() -> npt.NDArray[np.uint16]:
    """`[from * 64 + to]`: no two pieces share a (from, to) step, so one table serves all of them."""
    table = np.zeros(4096, dtype=np.uint16)
    for plane, (files, ranks) in enumerate(_steps()[:UNDERPROMOTION_PLANE]):
        for square in range(64):
            file, rank = square % 8 + files, square // 8 + ranks
            if 0 <= file < 8 and 0 <= rank < 8:
                table[square * 64 + 8 * rank + file] = plane * 64 + square
    return table


PLANE_SHIFT = _shifts()
ACTION_OF = _action_of()
