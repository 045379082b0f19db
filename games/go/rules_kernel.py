"""Tromp-Taylor rules, compiled once for each size of the board and each set of rules.

Two passes in a row end the game, and so does ply LAST_PLY. A move must not recreate an earlier position of
the board (positional superko; situational: with the same side to move). A pass is always allowed.
"""

from __future__ import annotations

import numpy as np

from games.bits import ONE, ZERO, float_as_word
from games.go.area_kernel import area_lead
from games.go.chains_kernel import (
    KEYS,
    POINTS,
    ROOM,
    SPAN,
    WORDS,
    clear,
    find_empty,
    key_of_listed,
    list_dead_beside,
    list_if_dead,
    list_nothing,
    listed,
    put,
    shorten,
)
from games.jit import Unbound, kernel, signed
from games.scratch import scratch_words
from games.spec import Positions, State
from games.stubs import Words

STATE_WORDS = Unbound()
KOMI_HALVES = Unbound()
"""Twice the komi."""
LAST_PLY = Unbound()
"""The game ends after this many moves."""

ONGOING, MORE_POINTS, FEWER_POINTS, AS_MANY_POINTS = range(4)
PLANES_PER_POSITION = 2
SCALAR_PLANES = 1


@kernel
def start(state: State) -> None:
    """Write the start position: an empty board, the first player (Black) moves."""
    state[:] = ZERO


@kernel
def side_to_move(state: State) -> int:
    """The side to move; 0: the first player."""
    return signed(state[3 * WORDS + 1] & ONE)


@kernel
def passes(state: State) -> int:
    """The number of latest passes in a row, at most two."""
    return signed(state[3 * WORDS + 1] >> ONE)


@kernel
def take_off(child: State, side: int, scratch: Words, count: int) -> None:
    """Remove the listed stones of `side` from the board and empty the list."""
    child[3 * WORDS] ^= key_of_listed(side, scratch, count)
    for place in range(count):
        clear(child, side * WORDS, listed(scratch, place))
    shorten(scratch, count, 0)


@kernel
def play(parent: State, action: int, child: State) -> None:
    """Place a stone and remove what it captures, or else the stone itself and its chain if they have no
    liberty; or pass (action POINTS)."""
    for word in range(STATE_WORDS):
        child[word] = parent[word]
    side, point = side_to_move(parent), signed(action)
    child[3 * WORDS + 1] = np.uint64(1 - side)
    if point == POINTS:
        child[3 * WORDS + 1] += np.uint64(2 * min(2, passes(parent) + 1))
        return
    scratch, empty = scratch_words(ROOM), scratch_words(SPAN)
    list_nothing(scratch)
    put(child, side * WORDS, point)
    put(child, 2 * WORDS, point)
    child[3 * WORDS] ^= KEYS[side, point]
    find_empty(child, empty)
    count = list_dead_beside(child, 1 - side, empty, point, scratch)
    if count > 0:
        take_off(child, 1 - side, scratch, count)
        return
    count = list_if_dead(child, side, empty, point, scratch, 0)
    if count > 0:
        take_off(child, side, scratch, count)


# ---- The end, and the features -------------------------------------------------------------------


@kernel
def lead(state: State) -> int:
    """The first player's points minus the second's and the komi, in halves of a point."""
    return 2 * area_lead(state) - KOMI_HALVES


@kernel
def end_reason(positions: Positions, n: int, legal_count: int, root: int) -> int:
    """The game is over after two passes and at LAST_PLY; the area of the final board counts."""
    state = positions[n - 1]
    if passes(state) < 2 and n - 1 < LAST_PLY:
        return ONGOING
    points = lead(state) if side_to_move(state) == 0 else -lead(state)
    if points == 0:
        return AS_MANY_POINTS
    return MORE_POINTS if points > 0 else FEWER_POINTS


@kernel
def maybe_won(positions: Positions, n: int) -> bool:
    """Whether the last move may have won (see `games.spec`): whether the game is over."""
    return passes(positions[n - 1]) == 2 or n - 1 >= LAST_PLY


@kernel
def encode(positions: Positions, n: int, history: int, packed_features: Words) -> None:
    """Write two planes per position, newest first: own stones, then the other's, for the side to move now;
    then 1 if that is the first player, else 0 (AlphaGo Zero, Methods). packed_features: [2 * WORDS * history
    + 1]."""
    side = side_to_move(positions[n - 1])
    for back in range(history):
        first = 2 * WORDS * back
        for word in range(WORDS):
            own, other = ZERO, ZERO
            if back < n:
                state = positions[n - 1 - back]
                own, other = state[side * WORDS + word], state[(1 - side) * WORDS + word]
            packed_features[first + word] = own
            packed_features[first + WORDS + word] = other
    packed_features[2 * WORDS * history] = float_as_word(np.float32(1 - side))
