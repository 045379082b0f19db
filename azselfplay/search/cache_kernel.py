"""A cache of evaluations. It pays because a search visits many positions that the previous one evaluated.

The cache is a bounded table: buckets of WAYS entries, chosen by a 128-bit hash, and a ring buffer of priors,
in which the newest overwrite the oldest. A place in the ring is a counter that never wraps; the index is that
counter modulo the ring's size. So an entry's place shows whether its priors are still there, and nothing has
to be removed. The hash covers the whole input of the network *and* the legal actions, over which the priors
are defined. (The features alone are not enough: chess with one position of history does not show that a pawn
may be taken en passant.) `tests/search/test_cache.py` has a slow reference implementation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from azselfplay.games.jit import kernel

WAYS = 4
"""Entries of a bucket, 128 bytes together: two cache lines of the processor."""
NOTHING = -1
START_1, START_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
TIMES_1, TIMES_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
S29, S32 = np.uint64(29), np.uint64(32)


@kernel
def write_key(packed_features: Any, actions: Any, count: int, pending: Any) -> None:
    """Write the key of `packed_features [W]` with `count` legal `actions [count]` to `pending`, a PENDING.

    The key is two multiplicative hashes with different constants, so two positions are confused only if all
    128 bits collide. A multiplication carries only upwards, so low bits never depend on high ones. The shift
    after it mixes the high bits into the low ones, so that all of them help to choose the bucket.
    """
    one, two = START_1, START_2 ^ np.uint64(count)
    for i in range(len(packed_features) + count):
        word = (
            packed_features[i] if i < len(packed_features) else np.uint64(actions[i - len(packed_features)])
        )
        one = (one ^ word) * TIMES_1
        one ^= one >> S32
        two = (two ^ word) * TIMES_2
        two ^= two >> S29
    pending.key_1 = one
    pending.key_2 = two


@kernel
def find(entries: Any, written: int, room: int, pending: Any) -> int:
    """Return the way (the index in its bucket of `entries`, ENTRY[buckets, WAYS]) of the entry for `pending`
    (PENDING); NOTHING if there is none.

    So far `written` priors have gone into a ring of size `room`. An entry whose priors begin more than `room`
    places back was overwritten.
    """
    bucket = int(pending.key_1 % np.uint64(len(entries)))
    for way in range(WAYS):
        entry = entries[bucket, way]
        # Compare the count as well: the caller reads as many priors as its position has actions.
        if entry.key_1 == pending.key_1 and entry.key_2 == pending.key_2 and entry.count == pending.count:
            return way if entry.place >= 0 and written - entry.place <= room else NOTHING
    return NOTHING


@kernel
def insert(entries: Any, cached_priors: Any, counters: Any, pending: Any, priors: Any, value: float) -> None:
    """Store the evaluation of `pending` (PENDING), `priors [n]` and `value`, replacing the oldest entry of
    its bucket. `entries` ENTRY[buckets, WAYS], `cached_priors` float32[room], `counters` COUNTERS[1]."""
    count, room = len(priors), len(cached_priors)
    # Two leaves in flight may be the same position: then the first answer is kept.
    if count > room or find(entries, counters[0].written, room, pending) != NOTHING:
        return
    bucket = int(pending.key_1 % np.uint64(len(entries)))
    way = 0
    for other in range(WAYS):
        same = entries[bucket, other].key_1 == pending.key_1 and entries[bucket, other].key_2 == pending.key_2
        if same:
            way = other
            break
        # Replace the oldest entry; an empty one has place -1, which counts as older than all others.
        if entries[bucket, other].place < entries[bucket, way].place:
            way = other
    begin = counters[0].written
    left = room - begin % room
    if count > left:  # the priors of one position are contiguous
        begin += left
    for i in range(count):
        cached_priors[begin % room + i] = priors[i]
    counters[0].written = begin + count
    entry = entries[bucket, way]
    entry.key_1 = pending.key_1
    entry.key_2 = pending.key_2
    entry.place = begin
    entry.value = value
    entry.count = count
