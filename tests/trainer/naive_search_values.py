"""Slow twin of `trainer.window.search_values`: from each position forwards, one weight after the other."""

from __future__ import annotations

from protocol.records import GameRecord


def naive_values(record: GameRecord, movers: list[int], decay: float) -> list[float]:
    """Return the value of each position for the side to move; `movers`: +1 for the first player, else -1."""
    return [_value_at(record, movers, ply, decay) for ply in range(record.plies)]


def _value_at(record: GameRecord, movers: list[int], ply: int, decay: float) -> float:
    total, weight = 0.0, 1.0
    for at in range(ply, record.plies):
        if not record.visited[at]:
            continue
        root = movers[at] * float(record.root_values[at])
        total += weight * (1 - decay) * root
        weight *= decay
    return movers[ply] * (total + weight * record.outcome)
