"""A heuristic value for Go without search, for alpha-beta and greedy players, in hundredths of a point.

An empty point counts for the side whose stones are nearer to it through empty points. All stones count as
alive.
"""

from __future__ import annotations

from games.bits import ZERO, count_ones
from games.go.chains_kernel import (
    POINTS,
    ROOM,
    SPAN,
    WORDS,
    clear,
    find_empty,
    list_dead_beside,
    list_nothing,
)
from games.go.legal_kernel import beside
from games.go.rules_kernel import KOMI_HALVES, side_to_move
from games.jit import kernel, signed
from games.scratch import scratch_words
from games.spec import State

POINT, HALF = 100, 50


@kernel
def near_lead(state: State) -> int:
    """Points nearer to the first player's stones minus those nearer to the second's; the stones themselves
    count. Both sides grow by a point at a time; points where they meet belong to neither."""
    first, second, open_ = scratch_words(WORDS), scratch_words(WORDS), scratch_words(SPAN)
    grown_first, grown_second = scratch_words(WORDS), scratch_words(WORDS)
    find_empty(state, open_)
    for word in range(WORDS):
        first[word], second[word] = state[word], state[WORDS + word]
    grows = True
    while grows:
        grows = False
        for word in range(WORDS):
            grown_first[word] = beside(first, word) & open_[word]
            grown_second[word] = beside(second, word) & open_[word]
        for word in range(WORDS):
            first[word] |= grown_first[word] & ~grown_second[word]
            second[word] |= grown_second[word] & ~grown_first[word]
            taken = grown_first[word] | grown_second[word]
            open_[word] &= ~taken
            grows = grows or taken != ZERO
    points = 0
    for word in range(WORDS):
        points += signed(count_ones(first[word])) - signed(count_ones(second[word]))
    return points


@kernel
def material(state: State) -> int:
    """Nearer points of the side to move minus those of the other side."""
    lead = POINT * near_lead(state)
    return lead if side_to_move(state) == 0 else -lead


@kernel
def evaluate(state: State) -> int:
    """Material and the komi."""
    komi = HALF * KOMI_HALVES
    return material(state) - (komi if side_to_move(state) == 0 else -komi)


@kernel
def captured_by(state: State, action: int) -> int:
    """Number of stones that an action captures."""
    if signed(action) == POINTS:
        return 0
    scratch, empty = scratch_words(ROOM), scratch_words(SPAN)
    list_nothing(scratch)
    find_empty(state, empty)
    clear(empty, 0, signed(action))
    return list_dead_beside(state, 1 - side_to_move(state), empty, signed(action), scratch)


@kernel
def order_score(state: State, action: int) -> int:
    """Ordering score: moves that capture most first, the pass last."""
    return -1 if signed(action) == POINTS else captured_by(state, action)


@kernel
def is_noisy(state: State, action: int) -> bool:
    """Whether the action captures stones."""
    return captured_by(state, action) > 0
