"""Legal moves, compiled once for each size of the board and each set of rules.

Superko is kept cheap as follows. A move on a point that never had a stone, and that is not suicide, makes a
position that cannot have occurred before (a trick of KataGo). A move on another point that captures nothing
adds one stone, so its position's key differs from the present one by that stone's key. For captures and
suicides the key is computed. One walk over the history finds all forbidden moves. Keys only say where to
look: the stones themselves are compared to decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.go.board import POINT_BITS
from games.go.chains_kernel import (
    KEYS,
    POINTS,
    ROOM,
    SPAN,
    WORDS,
    clear,
    find_empty,
    has,
    is_suicide,
    key_of_listed,
    list_dead_beside,
    list_nothing,
    put,
    shorten,
)
from games.go.rules_kernel import STATE_WORDS, play, side_to_move
from games.jit import Unbound, kernel, signed
from games.scratch import scratch_words
from games.spec import Positions, State
from games.stubs import Actions, Words

SIZE, TWICE_POINTS = Unbound(), Unbound()
MASKS: npt.NDArray[np.uint64] = np.zeros((2, 0), np.uint64)
"""[2, words] `Board.masks`."""
SITUATIONAL, SUICIDE = Unbound(), Unbound()
"""1 if superko also considers the side to move; 1 if suicide is allowed."""
POINT_MASK = np.uint64((1 << POINT_BITS) - 1)
KEY_SHIFT = np.uint64(58)
"""Leaves the highest six bits of a key: the number of a bit."""
ILLEGAL, LEGAL, ADDS, TAKES = range(4)
"""What is known about a move before the history is read: superko may forbid one that adds a stone and
captures none, and one that captures some (its own in case of suicide)."""


@kernel
def word_at(bits: Words, word: int) -> Any:
    """A word of `bits` [WORDS]; 0 beyond them."""
    return bits[word] if 0 <= word < WORDS else ZERO


@kernel
def beside(bits: Words, word: int) -> Any:
    """The points of one word that neighbour a point of `bits` [WORDS]."""
    before, here, after = word_at(bits, word - 1), bits[word], word_at(bits, word + 1)
    row = np.uint64(SIZE)
    up = (here << row) | (before >> (np.uint64(64) - row))
    down = (here >> row) | (after << (np.uint64(64) - row))
    right = ((here << ONE) | (before >> np.uint64(63))) & MASKS[0, word]
    left = ((here >> ONE) | (after << np.uint64(63))) & MASKS[1, word]
    return up | down | right | left


@kernel
def makes(parent: State, point: int, old: State) -> bool:
    """Whether a stone on `point` makes the board `old`, with the same stones."""
    child = scratch_words(STATE_WORDS)
    play(parent, point, child)
    for word in range(2 * WORDS):  # noqa: SIM110 - Numba compiles loops, not generators
        if child[word] != old[word]:
            return False
    return True


@kernel
def is_forbidden(positions: Positions, n: int, at: int, point: int) -> bool:
    """Whether superko forbids the move on `point` because of `positions[at]`, whose key it makes."""
    if SITUATIONAL and side_to_move(positions[at]) == side_to_move(positions[n - 1]):
        return False
    return makes(positions[n - 1], point, positions[at])


@kernel
def judge(state: State, empty: Words, point: int, scratch: Words) -> tuple[int, Any]:
    """For a stone on an empty point, which is left out of `empty` [WORDS + 1]: (what is known before the
    history is read, the key of the resulting position). The list is empty before and after."""
    side, was_taken = side_to_move(state), has(state, 2 * WORDS, point)
    count = list_dead_beside(state, 1 - side, empty, point, scratch)
    key = state[3 * WORDS] ^ KEYS[side, point]
    if count > 0:
        key ^= key_of_listed(1 - side, scratch, count)
        shorten(scratch, count, 0)
        return TAKES if was_taken else LEGAL, key
    count = list_dead_beside(state, side, empty, point, scratch)
    dies = is_suicide(state, side, empty, point, scratch)
    key_of_dead = key_of_listed(side, scratch, count)
    shorten(scratch, count, 0)
    if not dies:
        return ADDS if was_taken else LEGAL, key
    if SUICIDE == 0 or (count == 0 and SITUATIONAL == 0):
        return ILLEGAL, key
    return TAKES, state[3 * WORDS] ^ key_of_dead


@kernel
def strike_repeated(
    positions: Positions, n: int, legal: Words, adds: Words, takes: Words, count: int
) -> None:
    """Remove from `legal` [WORDS] what superko forbids: moves in `adds` [WORDS], which add one stone, and the
    `count` moves in `takes` [2 * POINTS], which holds their keys followed by their points."""
    now, side, seen = positions[n - 1], side_to_move(positions[n - 1]), ZERO
    for i in range(count):
        seen |= ONE << (takes[i] >> KEY_SHIFT)
    for at in range(n):
        key = positions[at, 3 * WORDS]
        added = key ^ now[3 * WORDS]
        point = signed(added & POINT_MASK)
        is_one_stone = point < POINTS and KEYS[side, point] == added and has(adds, 0, point)
        if is_one_stone and is_forbidden(positions, n, at, point):
            clear(legal, 0, point)
        if (seen >> (key >> KEY_SHIFT)) & ONE != ZERO:  # otherwise no key is the same
            for i in range(count):
                point = signed(takes[POINTS + i])
                if takes[i] == key and is_forbidden(positions, n, at, point):
                    clear(legal, 0, point)


@kernel
def find_legal(positions: Positions, n: int, legal: Words) -> None:
    """Write the points where a stone may be placed, as bits, to `legal` [WORDS]."""
    state = positions[n - 1]
    empty, adds = scratch_words(SPAN), scratch_words(WORDS)
    scratch, takes = scratch_words(ROOM), scratch_words(TWICE_POINTS)
    list_nothing(scratch)
    find_empty(state, empty)
    count, any_adds = 0, False
    for word in range(WORDS):
        adds[word] = ZERO
        legal[word] = empty[word] & ~state[2 * WORDS + word] & beside(empty, word)
        others = empty[word] & ~legal[word]
        while others != ZERO:
            point = 64 * word + signed(count_trailing_zeros(others))
            others &= others - ONE
            clear(empty, 0, point)
            known, key = judge(state, empty, point, scratch)
            put(empty, 0, point)
            if known != ILLEGAL:
                put(legal, 0, point)
            if known == ADDS:
                put(adds, 0, point)
                any_adds = True
            elif known == TAKES:
                takes[count], takes[POINTS + count] = key, np.uint64(point)
                count += 1
    if any_adds or count > 0:
        strike_repeated(positions, n, legal, adds, takes, count)


@kernel
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Write the legal points, ascending, then the pass, to `actions` [points + 1]. Returns their number."""
    legal = scratch_words(WORDS)
    find_legal(positions, n, legal)
    count = 0
    for word in range(WORDS):
        bits = legal[word]
        while bits != ZERO:
            actions[count] = 64 * word + signed(count_trailing_zeros(bits))
            count += 1
            bits &= bits - ONE
    actions[count] = POINTS
    return count + 1
