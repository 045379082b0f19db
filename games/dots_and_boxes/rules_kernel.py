"""The rules of dots-and-boxes on bits, compiled once for each size of the board.

State: EDGE_WORDS words of drawn edges, BOX_WORDS of the first player's boxes, BOX_WORDS of the second's, and
a word that says whose turn it is. The names in capitals are bound by `games.dots_and_boxes.game_of_size`;
BOX_EDGES and EDGE_BOXES are `games.dots_and_boxes.board`'s.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, count_ones, float_as_word

PLANES_PER_POSITION = 6
"""Edges below, right of, above and left of each box; own boxes, the other's."""
SCALAR_PLANES = 2
"""1 if the first player is to move, else 0; and who is ahead: (own - other + boxes) / (2 * boxes)."""
ONGOING, MORE_BOXES, FEWER_BOXES, AS_MANY_BOXES = range(4)


def has(state, first_word, bit):
    """Whether a bit is set in the words from `first_word` on."""
    return (state[first_word + (bit >> 6)] >> np.uint64(bit & 63)) & ONE != ZERO


def put(words, first_word, bit):
    """Set it."""
    words[first_word + (bit >> 6)] |= ONE << np.uint64(bit & 63)


def start(state):
    """No edge is drawn, the first player moves."""
    state[:] = ZERO


def side_to_move(state):
    """0: the first player."""
    return np.int64(state[EDGE_WORDS + 2 * BOX_WORDS])


def owned(state, side):
    """Boxes that a side has."""
    count = ZERO
    for word in range(BOX_WORDS):
        count += count_ones(state[EDGE_WORDS + side * BOX_WORDS + word])
    return np.int64(count)


def legal_actions(line, n, actions):
    """Edges that are not drawn, ascending."""
    count = 0
    for edge in range(len(EDGE_BOXES)):
        if not has(line[n - 1], 0, edge):
            actions[count] = edge
            count += 1
    return count


def is_closed(state, box):
    """Whether all four edges of a box are drawn."""
    for side in range(4):  # noqa: SIM110 - Numba compiles loops, not generators
        if not has(state, 0, BOX_EDGES[box, side]):
            return False
    return True


def play(parent, action, child):
    """Draw an edge. Who closes a box with it has it, and moves again."""
    for word in range(len(parent)):
        child[word] = parent[word]
    put(child, 0, np.int64(action))
    side = side_to_move(parent)
    closed = False
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0 and is_closed(child, box):
            put(child, EDGE_WORDS + side * BOX_WORDS, box)
            closed = True
    if not closed:
        child[EDGE_WORDS + 2 * BOX_WORDS] = np.uint64(1 - side)


def end_reason(line, n, legal_count, in_search):
    """The game is over when all edges are drawn."""
    if legal_count > 0:
        return ONGOING
    state = line[n - 1]
    side = side_to_move(state)
    own, other = owned(state, side), owned(state, 1 - side)
    if own == other:
        return AS_MANY_BOXES
    return MORE_BOXES if own > other else FEWER_BOXES


def encode(line, n, history, words):
    """PLANES_PER_POSITION planes a position, newest first, then SCALAR_PLANES numbers."""
    side = side_to_move(line[n - 1])
    boxes = len(BOX_EDGES)
    for word in range(PLANES_PER_POSITION * BOX_WORDS * history):
        words[word] = ZERO
    for back in range(min(history, n)):
        state = line[n - 1 - back]
        first = back * PLANES_PER_POSITION * BOX_WORDS
        for box in range(boxes):
            for direction in range(4):
                if has(state, 0, BOX_EDGES[box, direction]):
                    put(words, first + direction * BOX_WORDS, box)
        for word in range(BOX_WORDS):
            words[first + 4 * BOX_WORDS + word] = state[EDGE_WORDS + side * BOX_WORDS + word]
            words[first + 5 * BOX_WORDS + word] = state[EDGE_WORDS + (1 - side) * BOX_WORDS + word]
    lead = owned(line[n - 1], side) - owned(line[n - 1], 1 - side)
    last = PLANES_PER_POSITION * BOX_WORDS * history
    words[last] = float_as_word(np.float32(1 - side))
    words[last + 1] = float_as_word(np.float32(lead + boxes) / np.float32(2 * boxes))


KERNELS = {
    function.__name__: function
    for function in (
        has, put, start, side_to_move, owned, legal_actions, is_closed, play, end_reason, encode,
    )
}  # fmt: skip
"""Every function above, for `games.jit.specialise`."""
