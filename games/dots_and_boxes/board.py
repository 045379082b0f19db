"""The board of dots-and-boxes: the edges of each box, the boxes beside each edge, and the board's symmetries.

Boxes and edges are numbered row by row from the bottom left: box `row * cols + col`; first the horizontal
edges (rows + 1 rows of cols), then the vertical ones (rows rows of cols + 1). All lie on a grid of points (y,
x), 0 <= y <= 2 * rows and 0 <= x <= 2 * cols: dots where both are even, boxes where both are odd, and edges
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from games.spec import Symmetry

Point = tuple[int, int]

SIDES: tuple[Point, ...] = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""The edges of a box, as offsets from its middle: below, right, above, left."""
NO_BOX = -1


@dataclass(frozen=True)
class Board:
    """rows x cols boxes."""

    rows: int
    cols: int

    @property
    def boxes(self) -> int:
        return self.rows * self.cols

    @property
    def edges(self) -> int:
        return (self.rows + 1) * self.cols + self.rows * (self.cols + 1)

    @property
    def edge_words(self) -> int:
        """Words of 64 bits that hold a bit for each edge."""
        return (self.edges + 63) // 64

    @property
    def box_words(self) -> int:
        """Words of 64 bits that hold a bit for each box."""
        return (self.boxes + 63) // 64

    @cached_property
    def edge_points(self) -> list[Point]:
        """The point of each edge."""
        horizontal = [(2 * row, 2 * col + 1) for row in range(self.rows + 1) for col in range(self.cols)]
        vertical = [(2 * row + 1, 2 * col) for row in range(self.rows) for col in range(self.cols + 1)]
        return horizontal + vertical

    @cached_property
    def box_points(self) -> list[Point]:
        """The point of each box."""
        return [(2 * row + 1, 2 * col + 1) for row in range(self.rows) for col in range(self.cols)]

    @cached_property
    def edge_at(self) -> dict[Point, int]:
        """The edge at a point."""
        return {point: edge for edge, point in enumerate(self.edge_points)}

    @cached_property
    def box_at(self) -> dict[Point, int]:
        """The box at a point."""
        return {point: box for box, point in enumerate(self.box_points)}

    def edges_of_boxes(self) -> npt.NDArray[np.int64]:
        """[boxes, 4] the edges of each box, in the order of SIDES."""
        return np.array([[self.edge_at[y + dy, x + dx] for dy, dx in SIDES] for y, x in self.box_points])

    def boxes_of_edges(self) -> npt.NDArray[np.int64]:
        """[edges, 2] the boxes on either side of each edge; NO_BOX at the rim."""
        beside = [((-1, 0), (1, 0)) if y % 2 == 0 else ((0, -1), (0, 1)) for y, _ in self.edge_points]
        return np.array(
            [
                [self.box_at.get((y + dy, x + dx), NO_BOX) for dy, dx in steps]
                for (y, x), steps in zip(self.edge_points, beside, strict=True)
            ]
        )

    def boxes_beside(self) -> npt.NDArray[np.int64]:
        """[boxes, 4] the box beyond each side, in the order of SIDES; NO_BOX at the rim."""
        beside = [[(y + 2 * dy, x + 2 * dx) for dy, dx in SIDES] for y, x in self.box_points]
        return np.array([[self.box_at.get(point, NO_BOX) for point in points] for points in beside])

    def symmetries(self) -> tuple[Symmetry, ...]:
        """All symmetries but the identity: three of a rectangle, seven of a square."""
        turns = {
            "mirror_columns": self._turn(False, False, True),
            "mirror_rows": self._turn(False, True, False),
            "rotate_180": self._turn(False, True, True),
        }
        if self.rows == self.cols:
            turns |= {
                "transpose": self._turn(True, False, False),
                "rotate_90": self._turn(True, False, True),
                "rotate_270": self._turn(True, True, False),
                "anti_transpose": self._turn(True, True, True),
            }
        return tuple(self._symmetry(name, turn) for name, turn in turns.items())

    def _turn(self, swap: bool, flip_y: bool, flip_x: bool) -> Callable[[Point], Point]:
        """A function that swaps the axes, then flips them."""

        def turn(point: Point) -> Point:
            y, x = point[::-1] if swap else point
            return 2 * self.rows - y if flip_y else y, 2 * self.cols - x if flip_x else x

        return turn

    def _symmetry(self, name: str, turn: Callable[[Point], Point]) -> Symmetry:
        """The effect of a turn of the points on boxes, edges, and planes: those of the boxes' sides, then own
        boxes and the other's."""
        middle, sides = turn((1, 1)), [turn((1 + dy, 1 + dx)) for dy, dx in SIDES]
        planes = [SIDES.index((y - middle[0], x - middle[1])) for y, x in sides]
        return Symmetry(
            name,
            cells=np.array([self.box_at[turn(point)] for point in self.box_points]),
            actions=np.array([self.edge_at[turn(point)] for point in self.edge_points]),
            planes=np.array([*planes, 4, 5]),
        )
