"""The Go board of one size, and stones, chains and area on bits, compiled once for each size.

Point `row * size + column`, row 0 at the bottom, column 0 at the left. Bit `i % 64` of word `i // 64` is
point `i`.

State (`STATE_WORDS` words): WORDS words of the first player's stones (Black), WORDS of the second's, WORDS of
points that have ever had a stone, the key of the stones, and a word with the side to move (bit 0) and the
number of latest passes in a row (bits 1 and 2).

A chain is found by walking from stone to stone. Most walks end at the first or second stone, where there is a
liberty. That keeps a position small: the state has no list of chains. The four neighbours of a point lie in
two words, so a step examines all of them at once.

Working memory, `scratch` [ROOM]: bits of the listed stones, bits of those that are safe (WORDS + 1 words
each), and the list. Empty points, `empty` [WORDS + 1]: the last word is 0.

Area (Tromp-Taylor) is a side's stones, and the empty points that reach only its stones. All stones on the
board count as alive.
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
# Fixed: a position has the same key in every process.
KEY_SEED = 20171218


@dataclass(frozen=True)
class Board:
    """size x size points."""

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
        """The neighbours of a point."""
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
        """[points, 2] each point's neighbours, as bits of these two words."""
        found = np.zeros((self.points, 2), np.uint64)
        for point, first in enumerate(self.near_word):
            for other in self._beside(point):
                found[point, other // 64 - first] |= np.uint64(1 << other % 64)
        return found

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """[2, points] the key of a stone of each side on each point (Zobrist, 1970): a position's key is the
        exclusive or of its stones' keys. The lowest POINT_BITS bits of a key are the point."""
        drawn = np.random.default_rng(KEY_SEED).integers(2**64, size=(2, self.points), dtype=np.uint64)
        # A stone's key then names its point (`games.go.rules.strike_repeated`).
        low = np.uint64((1 << POINT_BITS) - 1)
        return (drawn & ~low) | np.arange(self.points, dtype=np.uint64)

    def words_of(self, points: Iterable[int]) -> npt.NDArray[np.uint64]:
        """[words] with the bits of the given points."""
        return np.array(words_of(sum(1 << point for point in points), self.words), np.uint64)

    @property
    def room(self) -> int:
        """Words of working memory that walks need (see above)."""
        return 2 * (self.words + 1) + self.points

    def masks(self) -> npt.NDArray[np.uint64]:
        """[2, words] all points but those of the first column; all but those of the last."""
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
def find_empty(state: State, empty: Words) -> None:
    """Write the empty points into `empty` [WORDS + 1]."""
    for word in range(WORDS):
        empty[word] = BOARD[word] & ~(state[word] | state[WORDS + word])
    # Read as the second word of points near the end.
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
    # Listed already, or known to have a liberty.
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
        # One liberty, or one stone of a chain known to have one, decides for all.
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
        # A chain that is not listed as dead has a liberty, and shares it with the new stone.
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


# ---- Area ----------------------------------------------------------------------------------------


@kernel
def list_reached(state: State, side: int, scratch: Words) -> None:
    """List the stones of `side` and all empty points that they reach, through empty points, in `scratch`
    [ROOM]. Its first WORDS words hold them as bits."""
    empty = scratch_words(SPAN)
    find_empty(state, empty)
    list_nothing(scratch)
    count, at = 0, 0
    for word in range(WORDS):
        # All stones at once are the beginning of one walk over the board.
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
        # Points that both reach belong to nobody.
        points += signed(count_ones(first[word] & ~second[word]))
        points -= signed(count_ones(second[word] & ~first[word]))
    return points


@kernel
def find_owners(state: State, owners: npt.NDArray[np.int8]) -> None:
    """Write +1 where a point is in the first player's area, -1 where it is in the second's, 0 where it is in
    nobody's, to `owners` [points]."""
    first, second = scratch_words(ROOM), scratch_words(ROOM)
    list_reached(state, 0, first)
    list_reached(state, 1, second)
    for point in range(POINTS):
        # A point that both reach, or none (an empty board), belongs to nobody.
        owners[point] = (1 if has(first, 0, point) else 0) - (1 if has(second, 0, point) else 0)
