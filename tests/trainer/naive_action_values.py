"""Slow, obvious twin of `trainer.action_values`: one position at a time."""

from __future__ import annotations

from protocol.records import GameRecord


def naive_action_values(record: GameRecord, ply: int, action_map: list[int]) -> dict[int, float]:
    """Return the known value of each (moved) action of a position; empty if none is known."""
    first = int(record.visited[:ply].sum())
    entries = range(first, first + int(record.visited[ply]))
    return {
        action_map[record.visit_actions[entry]]: int(record.child_values[entry]) / 127
        for entry in entries
        if len(record.child_values) and record.child_values[entry] != -128
    }
