"""The Go board, and kernels for stones, chains and area on bitboards, compiled once for each board size.

Point `row * size + column`, row 0 at the bottom, column 0 at the left. Bit `i % 64` of word `i // 64` is
point `i`.

State (`STATE_WORDS` words): WORDS words of the first player's stones (Black), WORDS of the second's, WORDS of
points that have ever had a stone, the Zobrist key of the stones, and a word with the side to move (bit 0) and
the number of passes in a row just before (bits 1 and 2).

The state has no list of chains, which keeps it small. A chain is found by walking from stone to stone. Most
walks end at the first or second stone, because it has a liberty. The four neighbours of a point lie in two
words, so one step examines all of them at once.

Working memory: `scratch` [SCRATCH_WORDS] has the listed stones as bits, the safe stones as bits (WORDS + 1
words each), and the list itself. `empty` [WORDS + 1] has the empty points as bits; its last word is 0.

The area of a side (Tromp-Taylor) is its stones and the empty points that reach only its stones. All stones on
the board count as alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, clear, count_ones, count_trailing_zeros, has, put, scratch_words
from azselfplay.games.boards import words_of
from azselfplay.games.jit import Unbound, kernel, signed
from azselfplay.games.spec import State
from azselfplay.games.stubs import Words

POINT_BITS = 9
"""The lowest bits of a stone's key are its point; 361 points fit."""
# Fixed, so that a position has the same key in every process.
KEY_SEED = 20171218


@dataclass(frozen=True)
class Board:
    """A board of size x size points."""

    size: int

    @property
    def points(self) -> int:
        return self.size * self.size

    @property
    def words(self) -> int:
        """Words of 64 bits that hold a bit for each point."""
        return (self.points + 63) // 64

    @property
    def state_words(self) -> int:
        """Words of a position (see above)."""
        return 3 * self.words + 2

    def _beside(self, point: int) -> list[int]:
        """Return the neighbours of a point."""
        row, col = divmod(point, self.size)
        near = ((row - 1, col), (row, col - 1), (row, col + 1), (row + 1, col))
        return [r * self.size + c for r, c in near if 0 <= r < self.size and 0 <= c < self.size]

    @cached_property
    def near_word(self) -> npt.NDArray[np.int64]:
        """[points] the first of the two words that hold each point's neighbours."""
        # At most 38 bits lie between the lowest and the highest neighbour, so two words hold all.
        return np.array([min(self._beside(point)) // 64 for point in range(self.points)])

    @cached_property
    def near(self) -> npt.NDArray[np.uint64]:
        """[points, 2] each point's neighbours, as bits of the two words from `near_word` on."""
        found = np.zeros((self.points, 2), np.uint64)
        for point, first in enumerate(self.near_word):
            for other in self._beside(point):
                found[point, other // 64 - first] |= np.uint64(1 << other % 64)
        return found

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """[2, points] the key of a stone of each side on each point (Zobrist, 1970). A position's key is the
        exclusive or of its stones' keys. The lowest POINT_BITS bits of a stone's key are its point."""
        drawn = np.random.default_rng(KEY_SEED).integers(2**64, size=(2, self.points), dtype=np.uint64)
        # The low bits tell a stone's point from its key (`games.go.rules.strike_repeated`).
        low = np.uint64((1 << POINT_BITS) - 1)
        return (drawn & ~low) | np.arange(self.points, dtype=np.uint64)

    def words_of(self, points: Iterable[int]) -> npt.NDArray[np.uint64]:
        """Return [words] with the bits of the given points."""
        return np.array(words_of(sum(1 << point for point in points), self.words), np.uint64)

    @property
    def scratch_words(self) -> int:
        """Words of working memory that walks need (see above)."""
        return 2 * (self.words + 1) + self.points

    def masks(self) -> npt.NDArray[np.uint64]:
        """Return [2, words]: all points except the first column; all except the last column."""
        points, size = range(self.points), self.size
        inner = (
            [point for point in points if point % size > 0],
            [point for point in points if point % size < size - 1],
        )
        return np.array([self.words_of(one) for one in inner])


# ---- Stones and chains ---------------------------------------------------------------------------


WORDS, POINTS = Unbound(), Unbound()
SPAN = Unbound()
"""WORDS + 1."""
SCRATCH_WORDS = Unbound()
"""`Board.scratch_words`."""
NEAR_WORD: npt.NDArray[np.int64] = np.zeros(0, np.int64)
"""[points] `Board.near_word`."""
NEAR: npt.NDArray[np.uint64] = np.zeros((0, 2), np.uint64)
"""[points, 2] `Board.near`."""
BOARD: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
"""[words] all points."""
KEYS: npt.NDArray[np.uint64] = np.zeros((2, 0), np.uint64)
"""[2, points] `Board.keys`."""


@kernel
def find_empty(state: State, empty: Words) -> None:
    """Write the empty points into `empty` [WORDS + 1]."""
    for word in range(WORDS):
        empty[word] = BOARD[word] & ~(state[word] | state[WORDS + word])
    # This word is read as the second word of points near the end.
    empty[WORDS] = ZERO


@kernel
def list_nothing(scratch: Words) -> None:
    """Empty the list, and forget which stones are safe."""
    for word in range(2 * SPAN):
        scratch[word] = ZERO


@kernel
def listed(scratch: Words, place: int) -> int:
    """Return a point of the list."""
    return signed(scratch[2 * SPAN + place])


@kernel
def append(scratch: Words, count: int, point: int) -> int:
    """Append a point to the `count` listed ones. Returns the new count."""
    put(scratch, 0, point)
    scratch[2 * SPAN + count] = np.uint64(point)
    return count + 1


@kernel
def append_bits(scratch: Words, count: int, word: int, bits: Any) -> int:
    """Append the points of the set bits of a word to the `count` listed ones. Returns the new count."""
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

    A chain with a liberty is remembered as safe, so later walks end at its stones.
    """
    # The stone is already listed, or known to be safe.
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
        # One liberty, or one safe stone, makes the whole chain safe.
        if (open_ | safe) != ZERO:
            return keep_safe(scratch, end, count)
        end = append_bits(scratch, end, word, own_low & ~scratch[word])
        if own_high != ZERO:
            end = append_bits(scratch, end, word + 1, own_high & ~scratch[word + 1])
    return end


@kernel
def list_dead_beside(state: State, side: int, empty: Words, point: int, scratch: Words) -> int:
    """List the chains of `side` beside `point` that have no liberty among the points of `empty`. Returns the
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
    """Return whether a stone of `side` on `point` would have no liberty. It must capture nothing, and the
    chains of `side` that die with it must be listed."""
    word = NEAR_WORD[point]
    alive = ZERO
    for half in range(2):
        # A neighbouring chain that is not listed has a liberty, which the new stone shares.
        own = state[side * WORDS + word + half] & ~scratch[word + half]
        alive |= NEAR[point, half] & (own | empty[word + half])
    return alive == ZERO


@kernel
def key_of_listed(side: int, scratch: Words, count: int) -> Any:
    """Return the exclusive or of the keys of stones of `side` on the listed points."""
    key = ZERO
    for place in range(count):
        key ^= KEYS[side, listed(scratch, place)]
    return key


# ---- Area ----------------------------------------------------------------------------------------


@kernel
def list_reached(state: State, side: int, scratch: Words) -> None:
    """List in `scratch` [SCRATCH_WORDS] the stones of `side` and all empty points that they reach through
    empty points. The first WORDS words of `scratch` hold these points as bits."""
    empty = scratch_words(SPAN)
    find_empty(state, empty)
    list_nothing(scratch)
    count, at = 0, 0
    for word in range(WORDS):
        # The walk over the board starts from all stones at once.
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
    """Return the first player's area minus the second's, in points."""
    first, second = scratch_words(SCRATCH_WORDS), scratch_words(SCRATCH_WORDS)
    list_reached(state, 0, first)
    list_reached(state, 1, second)
    points = 0
    for word in range(WORDS):
        # Points that both reach belong to nobody.
        points += signed(count_ones(first[word] & ~second[word]))
        points -= signed(count_ones(second[word] & ~first[word]))
    return points


@kernel
def find_owners(state: State, owners: npt.NDArray[np.int8]) -> None:
    """Write to `owners` [points] +1 for points in the first player's area, -1 for those in the second's, 0
    for others."""
    first, second = scratch_words(SCRATCH_WORDS), scratch_words(SCRATCH_WORDS)
    list_reached(state, 0, first)
    list_reached(state, 1, second)
    for point in range(POINTS):
        # A point that both sides reach, or neither (empty board), belongs to nobody.
        owners[point] = (1 if has(first, 0, point) else 0) - (1 if has(second, 0, point) else 0)
