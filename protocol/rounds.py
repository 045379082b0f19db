"""Games in rounds (`SelfPlaySettings.round_games`): which games belong to a round, and their uids.

Round r is played by weights version r alone and consists of the games r * N to (r + 1) * N - 1. A game's uid
and random numbers follow from the run's seed and the game's number, whoever plays it and however often.
"""

from __future__ import annotations

import hashlib


def uid_of(seed: int, number: int) -> bytes:
    """Return 16 bytes: 8 from the seed, then the number, so that uids sort in the order of the games."""
    return hashlib.sha256(f"azselfplay rounds {seed}".encode()).digest()[:8] + number.to_bytes(8, "big")
