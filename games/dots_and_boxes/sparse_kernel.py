"""What a sparse network reads of dots-and-boxes, compiled once for each size of the board.

A feature is a box with its sides, or its owner; the length of the chain that it is in; the lead; how many
edges are left; how many chains have at least LONG boxes. A chain is a group of open boxes with two or three
sides that are joined where no side is drawn: whoever opens it gives all of it away. An action has two rows:
its edge, and what it does to the boxes beside it.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from games.bits import ZERO, count_ones
from games.dots_and_boxes.board import NO_BOX, Board
from games.dots_and_boxes.rules_kernel import BOX_EDGES, BOX_WORDS, EDGE_BOXES, EDGE_WORDS, has, put
from games.jit import Bindings, Unbound, bind, kernel, signed
from games.scratch import scratch_int32, scratch_words
from games.spec import SparseFeatures
from games.stubs import Actions, Numbers, Words

BOXES = Unbound()
BESIDE: npt.NDArray[np.int64] = np.zeros((0, 4), np.int64)
"""[boxes, 4] the box beyond each side of a box, NO_BOX at the rim."""
FIRST_CHAIN, FIRST_LEAD, FIRST_LEFT, FIRST_LONG, FIRST_TACTIC = (Unbound() for _ in range(5))

CLOSED = 15
"""Sides of a box as bits, below, right, above, left: all of them."""
KINDS = 17
"""Of a box: its sides if it is open, CLOSED if it is an own one, CLOSED + 1 if it is the other's."""
LENGTHS = 4
"""Features of a chain's length: 1, 2, 3, and more."""
LONG = 3
LONGEST = 6
"""Lengths that an action's rows distinguish: 0 to 5, and more."""
TACTICS = 3 * 3 * (LONGEST + 1)
"""Boxes that the edge closes; boxes to which it gives the third side; the longer chain beside it."""
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
    """Write the length of each box's chain, 0 for a box in none, to `lengths` [boxes]. Returns the number of
    chains of at least LONG boxes."""
    members = scratch_int32(BOXES)
    long = 0
    for box in range(BOXES):
        lengths[box] = 0
    for first in range(BOXES):
        if lengths[first] == 0 and in_chain(sides, first):
            members[0], found, seen = first, 1, 0
            lengths[first] = 1
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
            longest = max(longest, min(signed(lengths[box]), LONGEST))
    return (closes * 3 + gives) * (LONGEST + 1) + longest


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
    """The features of the game `name` on a board of this size; `rules`: `rules_kernel.bindings`."""
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
