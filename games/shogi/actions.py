"""Moves as indices into AlphaZero's 9 x 9 x 139 policy (arXiv 1712.01815, table S2).

`action = plane * 81 + square`, all as the side to move sees the board. Planes 0-63: the eight directions
(N, NE, E, SE, S, SW, W, NW) times distances 1-8, from the square that the piece leaves; 64 and 65: the
knight's jumps to the left and to the right; 66-131: the same 66 with promotion; 132-138: drops of a pawn,
lance, knight, silver, gold, bishop, rook onto the square. Of these 11,259 labels 3,781 can be legal in some
position.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.jit import jit
from games.shogi.attacks import DIRECTIONS, KNIGHT_JUMPS, walk
from games.shogi.boards import SQUARES
from games.shogi.layout import turned_square

PLANES = 139
ACTIONS = PLANES * SQUARES
PROMOTION_PLANE = 66
DROP_PLANE = 132
PROMOTION = PROMOTION_PLANE * SQUARES
"""Added to the action of the move without promotion."""


def _steps() -> list[tuple[int, int]]:
    """(files, ranks) of the planes 0-65."""
    sliding = [(files * far, ranks * far) for files, ranks in DIRECTIONS for far in range(1, 9)]
    return [*sliding, *KNIGHT_JUMPS]


def _shifts() -> npt.NDArray[np.int64]:
    """`[plane]`: what a move adds to the square that its piece leaves; 0 for a drop."""
    return np.array([9 * files + ranks for files, ranks in [*_steps() * 2, *[(0, 0)] * 7]], dtype=np.int64)


def _action_of() -> npt.NDArray[np.uint16]:
    """`[from * 81 + to]`: the move without promotion. No two pieces share a step, so one table serves all."""
    table = np.zeros(SQUARES * SQUARES, dtype=np.uint16)
    for plane, (files, ranks) in enumerate(_steps()):
        for square in range(SQUARES):
            for target in walk(square, files, ranks, 1):
                table[square * SQUARES + target] = plane * SQUARES + square
    return table


PLANE_SHIFT = _shifts()
ACTION_OF = _action_of()


@jit
def squares_of(action: int, side: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """(from, to, plane) of an action of `side`; squares as Black sees them, and the same two for a drop."""
    plane, seen = np.uint64(action) // np.uint64(SQUARES), np.uint64(action) % np.uint64(SQUARES)
    target = np.uint64(np.int64(seen) + PLANE_SHIFT[plane])
    return turned_square(seen, side), turned_square(target, side), plane
