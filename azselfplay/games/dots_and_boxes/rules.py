"""The board, the rules and the features of dots-and-boxes, compiled once for each board size.

Boxes and edges are numbered row by row from the bottom left: box `row * cols + col`; first the horizontal
edges (rows + 1 rows of cols), then the vertical ones (rows rows of cols + 1). Dots, boxes and edges lie on a
grid of points (y, x), 0 <= y <= 2 * rows and 0 <= x <= 2 * cols: dots where both coordinates are even, boxes
where both are odd, and edges elsewhere.

State: EDGE_WORDS words of drawn edges, BOX_WORDS of the first player's boxes, BOX_WORDS of the second's, and
a word with the side to move. `bindings` gives these two numbers and two tables for a board size.

Features of a sparse network: for each box its drawn sides, or its owner, and the length of its chain; the
lead; the number of edges left; the number of chains of at least LONG boxes. A chain is a group of open boxes
with two or three drawn sides each, connected across sides that are not drawn. A player who opens a chain
gives all of it away. An action has two rows: its edge, and what it does to the boxes beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ZERO, count_ones, float_as_word, has, put, scratch_int32, scratch_words
from azselfplay.games.jit import Bindings, Unbound, bind, kernel, signed
from azselfplay.games.spec import NO_ROOT, Positions, SparseFeatures, State, Symmetry
from azselfplay.games.stubs import Actions, Numbers, Words

# ---- The board -----------------------------------------------------------------------------------


Point = tuple[int, int]

SIDES: tuple[Point, ...] = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""The edges of a box, as offsets from its middle: below, right, above, left."""
NO_BOX = -1


@dataclass(frozen=True)
class Board:
    """A board of rows x cols boxes."""

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
        """Return [boxes, 4]: the edges of each box, in the order of SIDES."""
        return np.array([[self.edge_at[y + dy, x + dx] for dy, dx in SIDES] for y, x in self.box_points])

    def boxes_of_edges(self) -> npt.NDArray[np.int64]:
        """Return [edges, 2]: the boxes on either side of each edge; NO_BOX at the rim."""
        beside = [((-1, 0), (1, 0)) if y % 2 == 0 else ((0, -1), (0, 1)) for y, _ in self.edge_points]
        return np.array(
            [
                [self.box_at.get((y + dy, x + dx), NO_BOX) for dy, dx in steps]
                for (y, x), steps in zip(self.edge_points, beside, strict=True)
            ]
        )

    def boxes_beside(self) -> npt.NDArray[np.int64]:
        """Return [boxes, 4]: the box beyond each side, in the order of SIDES; NO_BOX at the rim."""
        beside = [[(y + 2 * dy, x + 2 * dx) for dy, dx in SIDES] for y, x in self.box_points]
        return np.array([[self.box_at.get(point, NO_BOX) for point in points] for points in beside])

    def symmetries(self) -> tuple[Symmetry, ...]:
        """Return all symmetries but the identity: three of a rectangle, seven of a square."""
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
        found = []
        for name, turn in turns.items():
            # Map boxes, edges and planes. The planes are the four sides of boxes, the own boxes and the other
            # side's.
            middle, sides = turn((1, 1)), [turn((1 + dy, 1 + dx)) for dy, dx in SIDES]
            # The sides of all boxes move like those of the box at point (1, 1).
            planes = [SIDES.index((y - middle[0], x - middle[1])) for y, x in sides]
            cells = np.array([self.box_at[turn(point)] for point in self.box_points])
            actions = np.array([self.edge_at[turn(point)] for point in self.edge_points])
            found.append(Symmetry(name, cells, actions, planes=np.array([*planes, 4, 5])))
        return tuple(found)

    def _turn(self, swap: bool, flip_y: bool, flip_x: bool) -> Callable[[Point], Point]:
        """Return a function that first swaps the axes, then flips them."""

        def turn(point: Point) -> Point:
            y, x = point[::-1] if swap else point
            return 2 * self.rows - y if flip_y else y, 2 * self.cols - x if flip_x else x

        return turn


# ---- The rules on bits ---------------------------------------------------------------------------


EDGE_WORDS, BOX_WORDS = Unbound(), Unbound()
BOX_EDGES: npt.NDArray[np.int64] = np.zeros((0, 4), np.int64)
"""[boxes, 4] `Board.edges_of_boxes`."""
EDGE_BOXES: npt.NDArray[np.int64] = np.zeros((0, 2), np.int64)
"""[edges, 2] `Board.boxes_of_edges`."""

PLANES_PER_POSITION = 6
"""Edges below, right of, above and left of each box; own boxes; the other side's boxes."""
SCALAR_PLANES = 2
"""1 if the first player is to move, else 0; and the lead: (own - other + boxes) / (2 * boxes)."""
ONGOING, MORE_BOXES, FEWER_BOXES, AS_MANY_BOXES = range(4)


@kernel
def start(state: State) -> None:
    """Write the start position: no edge is drawn, and the first player moves."""
    state[:] = ZERO


@kernel
def side_to_move(state: State) -> int:
    """Return the side to move; 0: the first player."""
    return signed(state[EDGE_WORDS + 2 * BOX_WORDS])


@kernel
def owned(state: State, side: int) -> int:
    """Return the number of boxes that a side owns."""
    count = ZERO
    for word in range(BOX_WORDS):
        count += count_ones(state[EDGE_WORDS + side * BOX_WORDS + word])
    return signed(count)


@kernel
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the edges that are not drawn, ascending, to `actions` [edges]. Returns their number."""
    count = 0
    for edge in range(len(EDGE_BOXES)):
        if not has(positions[n - 1], 0, edge):
            actions[count] = edge
            count += 1
    return count


@kernel
def is_closed(state: State, box: int) -> bool:
    """Return whether all four edges of a box are drawn."""
    for side in range(4):  # noqa: SIM110 - Numba compiles loops, not generators
        if not has(state, 0, BOX_EDGES[box, side]):
            return False
    return True


@kernel
def play(parent: State, action: int, child: State) -> None:
    """Draw an edge. A player who closes a box owns it and moves again."""
    for word in range(len(parent)):
        child[word] = parent[word]
    put(child, 0, signed(action))
    side = side_to_move(parent)
    closed = False
    # An edge may close the boxes on both of its sides.
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0 and is_closed(child, box):
            put(child, EDGE_WORDS + side * BOX_WORDS, box)
            closed = True
    # Only a move that closes no box passes the turn.
    if not closed:
        child[EDGE_WORDS + 2 * BOX_WORDS] = np.uint64(1 - side)


@kernel
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """Return `ONGOING`, or why the game is over: all edges are drawn. In a search the game is also over when
    a side has more than half of the boxes. Nobody can take them away, so the result is known many plies
    earlier."""
    if legal_count > 0 and root == NO_ROOT:
        return ONGOING
    state = positions[n - 1]
    side = side_to_move(state)
    own, other = owned(state, side), owned(state, 1 - side)
    # Half of the boxes is not enough: the other side may still get the other half.
    if legal_count > 0 and 2 * max(own, other) <= len(BOX_EDGES):
        return ONGOING
    if own == other:
        return AS_MANY_BOXES
    return MORE_BOXES if own > other else FEWER_BOXES


@kernel
def encode(positions: Positions, n: int, history: int, packed_features: Words) -> None:
    """Write PLANES_PER_POSITION planes per position, newest first, then SCALAR_PLANES numbers, to
    `packed_features` [feature_words]."""
    side = side_to_move(positions[n - 1])
    boxes = len(BOX_EDGES)
    for word in range(PLANES_PER_POSITION * BOX_WORDS * history):
        packed_features[word] = ZERO
    for back in range(min(history, n)):
        state = positions[n - 1 - back]
        first = back * PLANES_PER_POSITION * BOX_WORDS
        for box in range(boxes):
            for direction in range(4):
                if has(state, 0, BOX_EDGES[box, direction]):
                    put(packed_features, first + direction * BOX_WORDS, box)
        for word in range(BOX_WORDS):
            packed_features[first + 4 * BOX_WORDS + word] = state[EDGE_WORDS + side * BOX_WORDS + word]
            packed_features[first + 5 * BOX_WORDS + word] = state[EDGE_WORDS + (1 - side) * BOX_WORDS + word]
    lead = owned(positions[n - 1], side) - owned(positions[n - 1], 1 - side)
    last = PLANES_PER_POSITION * BOX_WORDS * history
    packed_features[last] = float_as_word(np.float32(1 - side))
    # Mapped to [0, 1], because scalar planes have no negative numbers.
    packed_features[last + 1] = float_as_word(np.float32(lead + boxes) / np.float32(2 * boxes))


def bindings(board: Board) -> list[tuple[Any, Any]]:
    """Return the bindings with which `games.jit.bind` compiles these kernels for a board size."""
    return [
        (EDGE_WORDS, board.edge_words),
        (BOX_WORDS, board.box_words),
        (BOX_EDGES, board.edges_of_boxes()),
        (EDGE_BOXES, board.boxes_of_edges()),
    ]


# ---- Sparse features -----------------------------------------------------------------------------


BOXES = Unbound()
BESIDE: npt.NDArray[np.int64] = np.zeros((0, 4), np.int64)
"""[boxes, 4] the box beyond each side of a box, NO_BOX at the rim."""
FIRST_CHAIN, FIRST_LEAD, FIRST_LEFT, FIRST_LONG, FIRST_TACTIC = (Unbound() for _ in range(5))

CLOSED = 15
"""Sides of a box as bits (below, right, above, left): all four."""
KINDS = 17
"""Kinds of a box: its drawn sides if it is open, CLOSED if it is an own box, CLOSED + 1 if it is the other
side's."""
LENGTHS = 4
"""Features of a chain's length: 1, 2, 3, and more."""
LONG = 3
LONGEST_CHAIN = 6
"""Lengths that an action's rows distinguish: 0 to 5, and more."""
TACTICS = 3 * 3 * (LONGEST_CHAIN + 1)
"""Number of boxes that the edge closes; of boxes to which it gives the third side; length of the longer chain
beside it."""
NUMBER_OF_SIDES = np.array([bits.bit_count() for bits in range(16)], np.int64)


@kernel
def read_sides(packed_features: Words, sides: Numbers) -> None:
    """Write the sides of each box to `sides` [boxes]."""
    for box in range(BOXES):
        sides[box] = 0
        for direction in range(4):
            if has(packed_features, direction * BOX_WORDS, box):
                sides[box] |= 1 << direction


@kernel
def in_chain(sides: Numbers, box: int) -> bool:
    return box != NO_BOX and (NUMBER_OF_SIDES[sides[box]] == 2 or NUMBER_OF_SIDES[sides[box]] == 3)


@kernel
def find_chains(sides: Numbers, lengths: Numbers) -> int:
    """Write the length of each box's chain to `lengths` [boxes], 0 for a box in no chain. Returns the number
    of chains of at least LONG boxes."""
    members = scratch_int32(BOXES)
    long = 0
    for box in range(BOXES):
        lengths[box] = 0
    for first in range(BOXES):
        if lengths[first] == 0 and in_chain(sides, first):
            members[0], found, seen = first, 1, 0
            lengths[first] = 1
            # Breadth-first search: the list of members is also the queue.
            while seen < found:
                box = signed(members[seen])
                seen += 1
                for direction in range(4):
                    near = BESIDE[box, direction]
                    if not (sides[box] >> direction) & 1 and in_chain(sides, near) and lengths[near] == 0:
                        lengths[near] = 1
                        members[found] = near
                        found += 1
            for i in range(found):
                # Only now the length is known; so far a 1 has marked the members.
                lengths[members[i]] = found
            long += 1 if found >= LONG else 0
    return long


@kernel
def tactic(sides: Numbers, lengths: Numbers, edge: int) -> int:
    closes = gives = longest = 0
    for i in range(2):
        box = EDGE_BOXES[edge, i]
        if box != NO_BOX:
            drawn = NUMBER_OF_SIDES[sides[box]]
            closes += 1 if drawn == 3 else 0
            gives += 1 if drawn == 2 else 0
            # The longer chain beside the edge is given away.
            longest = max(longest, min(signed(lengths[box]), LONGEST_CHAIN))
    return (closes * 3 + gives) * (LONGEST_CHAIN + 1) + longest


@kernel
def describe(
    packed_features: Words, history: int, actions: Actions, count: int, active: Numbers, rows: Numbers
) -> int:
    """Write the active features of a position and the rows of its legal actions (`games.spec`)."""
    sides, lengths = scratch_int32(BOXES), scratch_int32(BOXES)
    drawn = scratch_words(EDGE_WORDS)
    read_sides(packed_features, sides)
    long = find_chains(sides, lengths)
    drawn[:] = ZERO
    lead = found = 0
    for box in range(BOXES):
        kind = signed(sides[box])
        own, other = has(packed_features, 4 * BOX_WORDS, box), has(packed_features, 5 * BOX_WORDS, box)
        lead += (1 if own else 0) - (1 if other else 0)
        if kind == CLOSED and not own:
            kind = CLOSED + 1
        active[found] = box * KINDS + kind
        found += 1
        if lengths[box] > 0:
            active[found] = FIRST_CHAIN + box * LENGTHS + min(signed(lengths[box]), LENGTHS) - 1
            found += 1
        for direction in range(4):
            if (sides[box] >> direction) & 1:
                put(drawn, 0, BOX_EDGES[box, direction])
    left = len(EDGE_BOXES)
    for word in range(EDGE_WORDS):
        left -= signed(count_ones(drawn[word]))
    active[found] = FIRST_LEAD + BOXES + lead
    active[found + 1] = FIRST_LEFT + left
    active[found + 2] = FIRST_LONG + long
    for i in range(count):
        edge = signed(actions[i])
        rows[2 * i] = edge
        rows[2 * i + 1] = FIRST_TACTIC + tactic(sides, lengths, edge)
    return found + 3


def sparse_features(board: Board, name: str, rules: Bindings) -> SparseFeatures:
    """Return the features of the game `name` on a board of this size. `rules`: the result of `bindings`."""
    boxes, edges = board.boxes, board.edges
    first_chain = boxes * KINDS
    first_lead = first_chain + boxes * LENGTHS
    first_left = first_lead + 2 * boxes + 1
    first_long = first_left + edges + 1
    bound = [
        *((BOXES, boxes), (BESIDE, board.boxes_beside()), (FIRST_CHAIN, first_chain)),
        *((FIRST_LEAD, first_lead), (FIRST_LEFT, first_left), (FIRST_LONG, first_long)),
        (FIRST_TACTIC, edges),
    ]
    return SparseFeatures(
        name=f"{name}-chains-1",
        features=first_long + boxes // LONG + 1,
        most_active=2 * boxes + 3,
        tables=2,
        action_rows=edges + TACTICS,
        describe=bind([sys.modules[__name__]], {name: [*rules, *bound]}).describe,
    )
