"""Stones and chains on bits, compiled once for each size of the board and each set of rules.

State (`STATE_WORDS` words): WORDS words of the first player's stones (Black), WORDS of the second's, WORDS of
points that have ever had a stone, the key of the stones, and a word with the side to move (bit 0) and the
number of latest passes in a row (bits 1 and 2).

A chain is found by walking from stone to stone. Most walks end at the first or second stone, where there is a
liberty. That keeps a position small: the state has no list of chains. The four neighbours of a point lie in
two words, so a step examines all of them at once.

Working memory, `scratch` [ROOM]: bits of the listed stones, bits of those that are safe (WORDS + 1 words
each), and the list. Empty points, `empty` [WORDS + 1]: the last word is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO, count_trailing_zeros
from games.jit import Unbound, kernel, signed
from games.spec import State
from games.stubs import Words

WORDS, POINTS = Unbound(), Unbound()
SPAN = Unbound()
"""WORDS + 1."""
ROOM = Unbound()
"""`Board.room`."""
NEAR_WORD: npt.NDArray[np.int64] = np.zeros(0, np.int64)
"""[points] `Board.near_word`."""
NEAR: npt.NDArray[np.uint64] = np.zeros((0, 2), np.uint64)
"""[points, 2] `Board.near`."""
BOARD: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
"""[words] all points."""
KEYS: npt.NDArray[np.uint64] = np.zeros((2, 0), np.uint64)
"""[2, points] `Board.keys`."""


@kernel
def has(words: Words, first_word: int, point: int) -> bool:
    """Whether a point's bit is set in the words from `first_word` on."""
    return (words[first_word + (point >> 6)] >> np.uint64(point & 63)) & ONE != ZERO


@kernel
def put(words: Words, first_word: int, point: int) -> None:
    """Set a point's bit."""
    words[first_word + (point >> 6)] |= ONE << np.uint64(point & 63)


@kernel
def clear(words: Words, first_word: int, point: int) -> None:
    """Clear a point's bit."""
    words[first_word + (point >> 6)] &= ~(ONE << np.uint64(point & 63))


@kernel
def find_empty(state: State, empty: Words) -> None:
    """Write the empty points into `empty` [WORDS + 1]."""
    for word in range(WORDS):
        empty[word] = BOARD[word] & ~(state[word] | state[WORDS + word])
    empty[WORDS] = ZERO


@kernel
def list_nothing(scratch: Words) -> None:
    """Make the list empty; no stone is known to be safe."""
    for word in range(2 * SPAN):
        scratch[word] = ZERO


@kernel
def listed(scratch: Words, place: int) -> int:
    """A point of the list."""
    return signed(scratch[2 * SPAN + place])


@kernel
def append(scratch: Words, count: int, point: int) -> int:
    """Append a point to `count` others. Returns the new count."""
    put(scratch, 0, point)
    scratch[2 * SPAN + count] = np.uint64(point)
    return count + 1


@kernel
def append_bits(scratch: Words, count: int, word: int, bits: Any) -> int:
    """Append the points of the set bits of a word to `count` others. Returns the new count."""
    scratch[word] |= bits
    while bits != ZERO:
        scratch[2 * SPAN + count] = np.uint64(64 * word) + count_trailing_zeros(bits)
        bits &= bits - ONE
        count += 1
    return count


@kernel
def shorten(scratch: Words, count: int, to: int) -> int:
    """Remove all but the first `to` points from the list of `count`. Returns `to`."""
    for place in range(to, count):
        clear(scratch, 0, listed(scratch, place))
    return to


@kernel
def keep_safe(scratch: Words, count: int, to: int) -> int:
    """Remove all but the first `to` points from the list of `count`, and remember them as safe. Returns
    `to`."""
    for place in range(to, count):
        put(scratch, SPAN, listed(scratch, place))
    return shorten(scratch, count, to)


@kernel
def list_if_dead(state: State, side: int, empty: Words, point: int, scratch: Words, count: int) -> int:
    """Append the chain of `side` at `point` to the `count` points of the list if it has no liberty among the
    points of `empty`. Returns the new count. A chain that is already listed is not appended again.

    A chain with a liberty is safe, which is remembered: later walks end at its stones.
    """
    if has(scratch, 0, point) or has(scratch, SPAN, point):
        return count
    end, at, stones = append(scratch, count, point), count, side * WORDS
    while at < end:
        here = listed(scratch, at)
        at += 1
        word, low, high = NEAR_WORD[here], NEAR[here, 0], NEAR[here, 1]
        own_low, own_high = low & state[stones + word], high & state[stones + word + 1]
        open_ = (low & empty[word]) | (high & empty[word + 1])
        safe = (own_low & scratch[SPAN + word]) | (own_high & scratch[SPAN + word + 1])
        if (open_ | safe) != ZERO:
            return keep_safe(scratch, end, count)
        end = append_bits(scratch, end, word, own_low & ~scratch[word])
        if own_high != ZERO:
            end = append_bits(scratch, end, word + 1, own_high & ~scratch[word + 1])
    return end


@kernel
def list_dead_beside(state: State, side: int, empty: Words, point: int, scratch: Words) -> int:
    """List the chains of `side` beside `point` without a liberty among the points of `empty`. Returns the
    number of their stones. The list must be empty before."""
    count, word = 0, NEAR_WORD[point]
    for half in range(2):
        bits = NEAR[point, half] & state[side * WORDS + word + half]
        while bits != ZERO:
            near = 64 * (word + half) + signed(count_trailing_zeros(bits))
            bits &= bits - ONE
            count = list_if_dead(state, side, empty, near, scratch, count)
    return count


@kernel
def is_suicide(state: State, side: int, empty: Words, point: int, scratch: Words) -> bool:
    """Whether a stone of `side` on `point` that captures nothing has no liberty. The dead chains of `side`
    there are listed."""
    word = NEAR_WORD[point]
    alive = ZERO
    for half in range(2):
        own = state[side * WORDS + word + half] & ~scratch[word + half]
        alive |= NEAR[point, half] & (own | empty[word + half])
    return alive == ZERO


@kernel
def key_of_listed(side: int, scratch: Words, count: int) -> Any:
    """Exclusive or of the keys of stones of `side` on the listed points."""
    key = ZERO
    for place in range(count):
        key ^= KEYS[side, listed(scratch, place)]
    return key
