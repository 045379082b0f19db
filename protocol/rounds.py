"""Games in rounds (`SelfPlaySettings.round_games`): which games a round has, and what they are called.

Round r is played by weights version r alone and has the games number r * N to (r + 1) * N - 1, whoever
plays them and however often: a game's uid and random numbers follow from the run's seed and its number.
"""

from __future__ import annotations

import hashlib


def uid_of(seed: int, number: int) -> bytes:
    """16 bytes: 8 from the seed, then the number, so that uids are in the order of the games."""
    return hashlib.sha256(f"azselfplay rounds {seed}".encode()).digest()[:8] + number.to_bytes(8, "big")
