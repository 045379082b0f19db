"""Slow, obvious twin of `trainer.sampler.by_surprise`: lists of games, one ply at a time."""

from __future__ import annotations

import math

from protocol.records import GameRecord


def naive_surprises(record: GameRecord) -> list[float]:
    """Return the KL divergence of each ply that is a policy target, 0 for the others."""
    return [
        float(kl) if flags & 1 and not math.isnan(kl) else 0.0
        for kl, flags in zip(record.prior_kl.tolist(), record.flags.tolist(), strict=True)
    ]


def naive_choice(record: GameRecord, cut: int, ply: int, draw: float) -> int:
    """Return the ply that replaces `ply`: the first one whose share of the surprise, added up from ply `cut`
    on, is more than `draw`."""
    surprises = naive_surprises(record)
    total = sum(surprises[cut:])
    if not total:
        return ply
    running = 0.0
    for at in range(cut, record.plies):
        running += surprises[at]
        if running > draw * total:
            return at
    raise AssertionError("draws are below 1")


def naive_weights(records: list[GameRecord], share: float) -> list[float]:
    """Return the weight of each position of the games; its mean over each game is 1."""
    weights: list[float] = []
    for record in records:
        surprises = naive_surprises(record)
        total = sum(surprises)
        for surprise in surprises:
            own = surprise / total * record.plies if total else 1.0
            weights.append((1 - share) + share * own)
    return weights
