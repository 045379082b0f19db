"""Stones and chains on bits, compiled once for each size of the board and each set of rules.

State (`STATE_WORDS` words): WORDS words of the first player's stones (Black), WORDS of the second's, WORDS of
points that a stone has been on, the key of the stones, and a word of whose turn it is (bit 0) and how many
passes came last (bits 1 and 2).

A chain is found by walking from stone to stone, and most walks end at the first or second stone, where there
is a liberty. That keeps a position small: the state has no list of chains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO
from games.jit import Unbound, kernel, signed
from games.spec import State
from games.stubs import Words

WORDS, POINTS = Unbound(), Unbound()
ROOM = Unbound()
"""Words of working memory that a walk needs: WORDS of points that are listed, and the list."""
BESIDE: npt.NDArray[np.int64] = np.zeros((0, 4), np.int64)
"""[points, 4] `Board.beside`."""
KEYS: npt.NDArray[np.uint64] = np.zeros((2, 0), np.uint64)
"""[2, points] `Board.keys`."""


@kernel
def has(words: Words, first_word: int, point: int) -> bool:
    """Whether a point's bit is set in the words from `first_word` on."""
    return (words[first_word + (point >> 6)] >> np.uint64(point & 63)) & ONE != ZERO


@kernel
def put(words: Words, first_word: int, point: int) -> None:
    """Set it."""
    words[first_word + (point >> 6)] |= ONE << np.uint64(point & 63)


@kernel
def clear(words: Words, first_word: int, point: int) -> None:
    """Clear it."""
    words[first_word + (point >> 6)] &= ~(ONE << np.uint64(point & 63))


@kernel
def is_empty(state: State, point: int) -> bool:
    """Whether no stone is there."""
    word, shift = point >> 6, np.uint64(point & 63)
    return ((state[word] | state[WORDS + word]) >> shift) & ONE == ZERO


@kernel
def list_nothing(scratch: Words) -> None:
    """Make `scratch` [ROOM] an empty list of points."""
    for word in range(WORDS):
        scratch[word] = ZERO


@kernel
def listed(scratch: Words, place: int) -> int:
    """A point of the list."""
    return signed(scratch[WORDS + place])


@kernel
def append(scratch: Words, count: int, point: int) -> int:
    """Put a point behind `count` others; how many there are now."""
    put(scratch, 0, point)
    scratch[WORDS + count] = np.uint64(point)
    return count + 1


@kernel
def shorten(scratch: Words, count: int, to: int) -> int:
    """Take all points but the first `to` off the list of `count`; `to`."""
    for place in range(to, count):
        clear(scratch, 0, listed(scratch, place))
    return to


@kernel
def list_if_dead(state: State, side: int, point: int, filled: int, scratch: Words, count: int) -> int:
    """Put the chain of `side` at `point` behind the `count` points of the list, if it has no liberty but
    `filled`; how many there are now. A chain that is on the list already is not put there again.

    `point` may be empty, if it is `filled`: then the chain is that which a stone there would make.
    """
    if has(scratch, 0, point):
        return count
    end, at = append(scratch, count, point), count
    while at < end:
        here = listed(scratch, at)
        at += 1
        for i in range(4):
            near = BESIDE[here, i]
            if near < 0:
                break
            if has(state, side * WORDS, near):
                if not has(scratch, 0, near):
                    end = append(scratch, end, near)
            elif near != filled and is_empty(state, near):
                return shorten(scratch, end, count)
    return end


@kernel
def list_captured(state: State, side: int, point: int, scratch: Words) -> int:
    """List the stones that `side` captures with a stone on `point`; how many there are. `scratch` [ROOM]
    holds an empty list."""
    count = 0
    for i in range(4):
        near = BESIDE[point, i]
        if near < 0:
            break
        if has(state, (1 - side) * WORDS, near):
            count = list_if_dead(state, 1 - side, near, point, scratch, count)
    return count


@kernel
def key_of_listed(side: int, scratch: Words, count: int) -> Any:
    """Exclusive or of the keys that stones of `side` on the listed points have."""
    key = ZERO
    for place in range(count):
        key ^= KEYS[side, listed(scratch, place)]
    return key
