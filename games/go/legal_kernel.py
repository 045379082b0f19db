"""Legal moves, compiled once for each size of the board and each set of rules.

What keeps superko cheap: a move on a point that never had a stone, and that is no suicide, makes a position
that cannot have been there before (the trick is KataGo's). Moves on other points that capture nothing add one
stone, so the position they make differs from the present one by that stone's key: one walk over the history
finds all that are forbidden. Only captures and suicides need a walk each. A key only says where to look: what
is forbidden is decided by comparing the stones.
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
    WORDS,
    clear,
    has,
    key_of_listed,
    list_captured,
    list_if_dead,
    list_nothing,
    put,
    shorten,
)
from games.go.rules_kernel import STATE_WORDS, play, side_to_move
from games.jit import Unbound, kernel, signed
from games.scratch import scratch_words
from games.spec import Positions, State
from games.stubs import Actions, Words

SIZE = Unbound()
MASKS: npt.NDArray[np.uint64] = np.zeros((3, 0), np.uint64)
"""[3, words] `Board.masks`."""
SITUATIONAL, SUICIDE = Unbound(), Unbound()
"""1: superko looks at the side to move too; suicide is allowed."""
POINT_MASK = np.uint64((1 << POINT_BITS) - 1)
ILLEGAL, LEGAL, NEW_OR_REPEATED = range(3)
"""What is known of a move before the history is looked at."""


@kernel
def empty_word(state: State, word: int) -> Any:
    """The empty points of one word; none beyond the board."""
    if word < 0 or word >= WORDS:
        return ZERO
    return MASKS[0, word] & ~(state[word] | state[WORDS + word])


@kernel
def beside_empty(state: State, word: int) -> Any:
    """The points of one word that touch an empty point."""
    before, here, after = empty_word(state, word - 1), empty_word(state, word), empty_word(state, word + 1)
    row = np.uint64(SIZE)
    up = (here << row) | (before >> (np.uint64(64) - row))
    down = (here >> row) | (after << (np.uint64(64) - row))
    right = ((here << ONE) | (before >> np.uint64(63))) & MASKS[1, word]
    left = ((here >> ONE) | (after << np.uint64(63))) & MASKS[2, word]
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
def repeats(positions: Positions, n: int, point: int, key: Any) -> bool:
    """Whether the move on `point`, which makes a position with this key, is forbidden by superko."""
    for at in range(n):  # noqa: SIM110
        if positions[at, 3 * WORDS] == key and is_forbidden(positions, n, at, point):
            return True
    return False


@kernel
def judge(positions: Positions, n: int, point: int, scratch: Words) -> int:
    """Whether a stone may be put on an empty point: LEGAL, ILLEGAL, or NEW_OR_REPEATED if it adds a stone and
    takes none. `scratch` [ROOM] holds an empty list, and does so again afterwards."""
    state = positions[n - 1]
    side, was_taken = side_to_move(state), has(state, 2 * WORDS, point)
    count = list_captured(state, side, point, scratch)
    key = state[3 * WORDS] ^ KEYS[side, point]
    if count > 0:
        key ^= key_of_listed(1 - side, scratch, count)
        shorten(scratch, count, 0)
        return ILLEGAL if was_taken and repeats(positions, n, point, key) else LEGAL
    count = list_if_dead(state, side, point, point, scratch, 0)
    if count == 0:
        return NEW_OR_REPEATED if was_taken else LEGAL
    key ^= key_of_listed(side, scratch, count)
    shorten(scratch, count, 0)
    if SUICIDE == 0 or (count == 1 and SITUATIONAL == 0):
        return ILLEGAL
    return ILLEGAL if repeats(positions, n, point, key) else LEGAL


@kernel
def strike_repeated(positions: Positions, n: int, legal: Words, plain: Words) -> None:
    """Take off `legal` what superko forbids of the moves in `plain`, which add one stone. Both [WORDS]."""
    now, side = positions[n - 1], side_to_move(positions[n - 1])
    for at in range(n):
        added = positions[at, 3 * WORDS] ^ now[3 * WORDS]
        point = signed(added & POINT_MASK)
        is_one_stone = point < POINTS and KEYS[side, point] == added and has(plain, 0, point)
        if is_one_stone and is_forbidden(positions, n, at, point):
            clear(legal, 0, point)


@kernel
def find_legal(positions: Positions, n: int, legal: Words) -> None:
    """Write the points where a stone may be put as bits into `legal` [WORDS]."""
    state = positions[n - 1]
    plain, scratch = scratch_words(WORDS), scratch_words(ROOM)
    list_nothing(scratch)
    any_plain = False
    for word in range(WORDS):
        plain[word] = ZERO
        empty = empty_word(state, word)
        legal[word] = empty & ~state[2 * WORDS + word] & beside_empty(state, word)
        others = empty & ~legal[word]
        while others != ZERO:
            point = 64 * word + signed(count_trailing_zeros(others))
            others &= others - ONE
            found = judge(positions, n, point, scratch)
            if found != ILLEGAL:
                put(legal, 0, point)
            if found == NEW_OR_REPEATED:
                put(plain, 0, point)
                any_plain = True
    if any_plain:
        strike_repeated(positions, n, legal, plain)


@kernel
def legal_actions(positions: Positions, n: int, actions: Actions) -> int:
    """Points ascending, then the pass, into `actions` [points + 1]."""
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
