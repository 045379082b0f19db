"""Slow, obvious twin of `trainer.search_values`: from each position forwards, one weight after the other."""

from __future__ import annotations

from protocol.records import GameRecord


def naive_values(record: GameRecord, movers: list[int], decay: float, blunder: float) -> list[float]:
    """Return the value of each position for the side to move; `movers`: +1 for the first player, else -1."""
    return [_value_at(record, movers, ply, decay, blunder) for ply in range(record.plies)]


def _value_at(record: GameRecord, movers: list[int], ply: int, decay: float, blunder: float) -> float:
    total, weight = 0.0, 1.0
    for at in range(ply, record.plies):
        if not record.visited[at]:
            continue
        root = movers[at] * float(record.root_values[at])
        if blunder and _is_blunder(record, movers, at, blunder):
            return movers[ply] * (total + weight * root)
        total += weight * (1 - decay) * root
        weight *= decay
    return movers[ply] * (total + weight * record.outcome)


def _is_blunder(record: GameRecord, movers: list[int], at: int, blunder: float) -> bool:
    before = movers[at] * float(record.root_values[at])
    if at + 1 == record.plies:
        after = float(record.outcome)
    elif record.visited[at + 1]:
        after = movers[at + 1] * float(record.root_values[at + 1])
    else:
        return False
    first = sum(record.visited[:at].tolist())
    visits = dict(
        zip(
            record.visit_actions[first : first + record.visited[at]].tolist(),
            record.visits[first : first + record.visited[at]].tolist(),
            strict=True,
        )
    )
    is_best = visits.get(int(record.actions[at]), 0) == max(visits.values())
    return not is_best and movers[at] * (before - after) > blunder
