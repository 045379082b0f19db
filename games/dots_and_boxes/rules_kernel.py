"""The rules of dots-and-boxes on bits, compiled once for each size of the board.

State: EDGE_WORDS words of drawn edges, BOX_WORDS of the first player's boxes, BOX_WORDS of the second's, and
a word with the side to move. `bindings` has these two numbers and two tables for a size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_ones, float_as_word
from games.dots_and_boxes.board import Board
from games.jit import Unbound, kernel, signed
from games.spec import NO_ROOT, Positions, State
from games.stubs import Actions, Words

EDGE_WORDS, BOX_WORDS = Unbound(), Unbound()
BOX_EDGES: npt.NDArray[np.int64] = np.zeros((0, 4), np.int64)
"""[boxes, 4] `Board.edges_of_boxes`."""
EDGE_BOXES: npt.NDArray[np.int64] = np.zeros((0, 2), np.int64)
"""[edges, 2] `Board.boxes_of_edges`."""

PLANES_PER_POSITION = 6
"""Edges below, right of, above and left of each box; own boxes, the other's."""
SCALAR_PLANES = 2
"""1 if the first player is to move, else 0; and the lead: (own - other + boxes) / (2 * boxes)."""
ONGOING, MORE_BOXES, FEWER_BOXES, AS_MANY_BOXES = range(4)


@kernel
def has(state: State, first_word: int, bit: int) -> bool:
    """Whether a bit is set in the words from `first_word` on."""
    return (state[first_word + (bit >> 6)] >> np.uint64(bit & 63)) & ONE != ZERO


@kernel
def put(words: Words, first_word: int, bit: int) -> None:
    """Set a bit in `words` [any number]."""
    words[first_word + (bit >> 6)] |= ONE << np.uint64(bit & 63)


@kernel
def start(state: State) -> None:
    """Write the start position: no edge is drawn, and the first player moves."""
    state[:] = ZERO


@kernel
def side_to_move(state: State) -> int:
    """The side to move; 0: the first player."""
    return signed(state[EDGE_WORDS + 2 * BOX_WORDS])


@kernel
def owned(state: State, side: int) -> int:
    """Number of boxes that a side owns."""
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
    """Whether all four edges of a box are drawn."""
    for side in range(4):  # noqa: SIM110 - Numba compiles loops, not generators
        if not has(state, 0, BOX_EDGES[box, side]):
            return False
    return True


@kernel
def play(parent: State, action: int, child: State) -> None:
    """Draw an edge. A player who closes a box with it owns the box, and moves again."""
    for word in range(len(parent)):
        child[word] = parent[word]
    put(child, 0, signed(action))
    side = side_to_move(parent)
    closed = False
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0 and is_closed(child, box):
            put(child, EDGE_WORDS + side * BOX_WORDS, box)
            closed = True
    if not closed:
        child[EDGE_WORDS + 2 * BOX_WORDS] = np.uint64(1 - side)


@kernel
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """The game is over when all edges are drawn. In a search it is also over when a side has more than half
    of the boxes: nobody can take them away, and the result is known many plies earlier."""
    if legal_count > 0 and root == NO_ROOT:
        return ONGOING
    state = positions[n - 1]
    side = side_to_move(state)
    own, other = owned(state, side), owned(state, 1 - side)
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
    packed_features[last + 1] = float_as_word(np.float32(lead + boxes) / np.float32(2 * boxes))


def bindings(board: Board) -> list[tuple[Any, Any]]:
    """The bindings with which `games.jit.bind` compiles these kernels for a size."""
    return [
        (EDGE_WORDS, board.edge_words),
        (BOX_WORDS, board.box_words),
        (BOX_EDGES, board.edges_of_boxes()),
        (EDGE_BOXES, board.boxes_of_edges()),
    ]
