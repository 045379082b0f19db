"""What a position of dots-and-boxes is worth without search, for alpha-beta and greedy players.

Hundredths of a box. The names in capitals and `has`, `side_to_move` and `owned` are bound as in
`rules_kernel`.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

BOX = 100
WAITING = 50
"""A box that the side to move can close at once, or almost: it is nearly its own."""


def sides_of(state, box):
    """Drawn edges of a box."""
    count = 0
    for side in range(4):
        count += has(state, 0, BOX_EDGES[box, side])
    return count


def most_sides(state, action):
    """The most drawn edges that a box beside an edge has, before the edge is drawn."""
    most = 0
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0:
            most = max(most, sides_of(state, box))
    return most


def material(state):
    """Boxes of the side to move less the other's."""
    side = side_to_move(state)
    return BOX * (owned(state, side) - owned(state, 1 - side))


def evaluate(state):
    """Material, and boxes with three sides."""
    waiting = 0
    for box in range(len(BOX_EDGES)):
        waiting += sides_of(state, box) == 3
    return material(state) + WAITING * waiting


def order_score(state, action):
    """Edges that close a box first, those that give one away last."""
    sides = most_sides(state, action)
    return 2 if sides == 3 else (0 if sides == 2 else 1)


def is_noisy(state, action):
    """Whether it closes a box."""
    return most_sides(state, action) == 3


KERNELS = {
    function.__name__: function
    for function in (sides_of, most_sides, material, evaluate, order_score, is_noisy)
}
"""Every function above, for `games.jit.specialise`."""
