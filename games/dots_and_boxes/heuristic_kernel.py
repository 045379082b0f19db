"""A heuristic value for dots-and-boxes without search, for alpha-beta and greedy players.

In hundredths of a box. Compiled together with `rules_kernel`.
"""

from __future__ import annotations

from games.dots_and_boxes.rules_kernel import BOX_EDGES, EDGE_BOXES, has, owned, side_to_move
from games.jit import kernel
from games.spec import State

BOX = 100
WAITING = 50
"""Value of a box with three sides, which the side to move can close at once: it is almost its own."""


@kernel
def sides_of(state: State, box: int) -> int:
    """Number of drawn edges of a box."""
    count = 0
    for side in range(4):
        count += has(state, 0, BOX_EDGES[box, side])
    return count


@kernel
def most_sides(state: State, action: int) -> int:
    """The most drawn edges of a box beside an edge, before that edge is drawn."""
    most = 0
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0:
            most = max(most, sides_of(state, box))
    return most


@kernel
def material(state: State) -> int:
    """Boxes of the side to move minus the other's."""
    side = side_to_move(state)
    return BOX * (owned(state, side) - owned(state, 1 - side))


@kernel
def evaluate(state: State) -> int:
    """Material, plus a bonus for boxes with three sides."""
    waiting = 0
    for box in range(len(BOX_EDGES)):
        waiting += sides_of(state, box) == 3
    return material(state) + WAITING * waiting


@kernel
def order_score(state: State, action: int) -> int:
    """Ordering score: edges that close a box first, those that give one away last."""
    sides = most_sides(state, action)
    return 2 if sides == 3 else (0 if sides == 2 else 1)


@kernel
def is_noisy(state: State, action: int) -> bool:
    """Whether the action closes a box."""
    return most_sides(state, action) == 3
