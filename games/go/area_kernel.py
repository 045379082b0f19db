"""Area: a side's stones, and the empty points that reach only its stones (Tromp-Taylor).

All stones on the board count as alive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ZERO, count_ones
from games.go.chains_kernel import (
    NEAR,
    NEAR_WORD,
    POINTS,
    ROOM,
    SPAN,
    WORDS,
    append_bits,
    find_empty,
    has,
    list_nothing,
    listed,
)
from games.jit import kernel, signed
from games.scratch import scratch_words
from games.spec import State
from games.stubs import Words

NOBODY = -1


@kernel
def list_reached(state: State, side: int, scratch: Words) -> None:
    """List the stones of `side` and all empty points that they reach, through empty points, in `scratch`
    [ROOM]. Its first WORDS words hold them as bits."""
    empty = scratch_words(SPAN)
    find_empty(state, empty)
    list_nothing(scratch)
    count, at = 0, 0
    for word in range(WORDS):
        count = append_bits(scratch, count, word, state[side * WORDS + word])
    while at < count:
        here = listed(scratch, at)
        at += 1
        word = NEAR_WORD[here]
        count = append_bits(scratch, count, word, NEAR[here, 0] & empty[word] & ~scratch[word])
        high = NEAR[here, 1] & empty[word + 1]
        if high != ZERO:
            count = append_bits(scratch, count, word + 1, high & ~scratch[word + 1])


@kernel
def area_lead(state: State) -> int:
    """The first player's area minus the second's, in points."""
    first, second = scratch_words(ROOM), scratch_words(ROOM)
    list_reached(state, 0, first)
    list_reached(state, 1, second)
    points = 0
    for word in range(WORDS):
        points += signed(count_ones(first[word] & ~second[word]))
        points -= signed(count_ones(second[word] & ~first[word]))
    return points


@kernel
def find_owners(state: State, owners: npt.NDArray[np.int8]) -> None:
    """Write the owner of each point's area, 0 or 1 or NOBODY, to `owners` [points]."""
    first, second = scratch_words(ROOM), scratch_words(ROOM)
    list_reached(state, 0, first)
    list_reached(state, 1, second)
    for point in range(POINTS):
        is_first, is_second = has(first, 0, point), has(second, 0, point)
        owners[point] = NOBODY if is_first == is_second else 0 if is_first else 1
