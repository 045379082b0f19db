"""The slow, obvious twin of `search.cache_kernel`: a dictionary, with the forgetting of a bounded memory."""

from dataclasses import dataclass
from typing import Any

from azselfplay.search import cache_kernel
from azselfplay.search.cache_kernel import WAYS
from azselfplay.search.evaluator import Leaf

WORD = (1 << 64) - 1
START, TIMES = int(cache_kernel.START_1), int(cache_kernel.TIMES_1)

Key = tuple[bytes, bytes]


@dataclass
class Entry:
    place: int
    """Number of priors that were written to the ring before these."""
    answer: Any


class NaiveCache:
    """Holds at most WAYS positions per bucket, and no more priors than the ring holds."""

    def __init__(self, positions: int, mean_legal: float, max_legal: int) -> None:
        self.buckets = -(-positions // WAYS)
        self.room = max(int(positions * mean_legal), max_legal)
        self.written = 0
        self.entries: dict[Key, Entry] = {}

    def find(self, leaf: Leaf) -> Any:
        """Return the answer to a leaf, or None."""
        entry = self.entries.get(key_of(leaf))
        return entry.answer if entry is not None and self.written - entry.place <= self.room else None

    def keep(self, leaf: Leaf, answer: Any) -> None:
        if self.find(leaf) is not None:
            return
        key, mates = key_of(leaf), self.mates_of(leaf)
        if key not in mates and len(mates) == WAYS:
            del self.entries[min(mates, key=lambda mate: self.entries[mate].place)]
        at = self.written % self.room
        if at + len(leaf.actions) > self.room:  # the priors of a position are not split
            self.written += self.room - at
        self.entries[key] = Entry(self.written, answer)
        self.written += len(leaf.actions)

    def forget(self) -> None:
        self.entries.clear()

    def mates_of(self, leaf: Leaf) -> list[Key]:
        """Return the contents of the bucket of a leaf."""
        bucket = hash_of(key_of(leaf)) % self.buckets
        return [key for key in self.entries if hash_of(key) % self.buckets == bucket]


def key_of(leaf: Leaf) -> Key:
    return leaf.features.tobytes(), leaf.actions.astype("<u8").tobytes()


def hash_of(key: Key) -> int:
    """Return the hash that determines the bucket."""
    data, found = b"".join(key), START
    for at in range(0, len(data), 8):
        found = (found ^ int.from_bytes(data[at : at + 8], "little")) * TIMES & WORD
        found ^= found >> 32
    return found
