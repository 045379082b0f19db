"""A game as the trainer stores it, for benchmarks and tests."""

from __future__ import annotations

import hashlib

from protocol.records import GameRecord, to_bytes
from store.sqlite import Entry


def entry(record: GameRecord, source: str = "workers") -> Entry:
    """The record as an entry of the store."""
    data = to_bytes(record)
    low, high = int(record.versions.min()), int(record.versions.max())
    digest = hashlib.sha256(data).digest()
    return Entry(record.uid, digest, source, record.plies, record.outcome, record.reason, low, high, data)
