"""Dots-and-boxes solved backwards: for every set of drawn edges, how many boxes the side to move still gains.

The gain from here on does not depend on who owns the boxes that are closed already. So a table with one byte
for each of the 2 ** edges sets holds everything: 16 MiB for 3 x 3 boxes (24 edges).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from games.dots_and_boxes.board import NO_BOX, Board
from games.jit import jit

MOST_EDGES = 24
"""Most edges of a board that is solved; more would take gigabytes."""

Table = npt.NDArray[np.int8]


@jit
def closed_by(after: int, masks: npt.NDArray[np.int64]) -> int:
    """Boxes that an edge closes: `after` includes it, `masks` [2] are the edges of the boxes beside it, or
    0."""
    count = 0
    for i in range(2):
        if masks[i] != 0 and after & masks[i] == masks[i]:
            count += 1
    return count


@jit
def fill(masks: npt.NDArray[np.int64], table: Table) -> None:
    """Fill `table [2 ** edges]` from the full board down. masks: int64[edges, 2], see `closed_by`.

    A set's successors are larger numbers, so they are known when the set is reached.
    """
    edges = len(masks)
    table[len(table) - 1] = 0
    for drawn in range(len(table) - 2, -1, -1):
        best = -128
        for edge in range(edges):
            if not drawn >> edge & 1:
                after = drawn | 1 << edge
                closed = closed_by(after, masks[edge])
                value = closed + table[after] if closed else -table[after]
                best = max(best, value)
        table[drawn] = best


def masks_of(board: Board) -> npt.NDArray[np.int64]:
    """[edges, 2] the edges of the boxes beside each edge, as bits; 0: there is no box."""
    of_box = [sum(1 << int(edge) for edge in edges) for edges in board.edges_of_boxes()]
    beside = board.boxes_of_edges()
    return np.array([[0 if box == NO_BOX else of_box[box] for box in boxes] for boxes in beside], np.int64)


class Solver:
    """What the side to move gains from every set of drawn edges. Raises ValueError for more than MOST_EDGES
    edges."""

    def __init__(self, board: Board) -> None:
        if board.edges > MOST_EDGES:
            raise ValueError(f"{board.edges} edges are more than {MOST_EDGES}: the table would be too large")
        self.masks = masks_of(board)
        self.table: Table = np.zeros(1 << board.edges, np.int8)
        fill(self.masks, self.table)

    def gain(self, drawn: int) -> int:
        """Own boxes minus the other's from here on, if both play best. `drawn`: edges as bits."""
        return int(self.table[drawn])

    def gains_after(self, drawn: int) -> dict[int, int]:
        """For each edge that is not drawn: the gain of the side that draws it, from then on."""
        found = {}
        for edge in range(len(self.masks)):
            if not drawn >> edge & 1:
                after = drawn | 1 << edge
                closed = int(closed_by(after, self.masks[edge]))
                found[edge] = closed + self.gain(after) if closed else -self.gain(after)
        return found


@cache
def solver_of(rows: int, cols: int) -> Solver:
    """The solver of a size, made once."""
    return Solver(Board(rows, cols))
