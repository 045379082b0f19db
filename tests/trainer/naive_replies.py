"""Slow, obvious twin of `trainer.loss.replies`: one position at a time."""

from __future__ import annotations

from naive_verify import visits_by_ply

from protocol.records import POLICY_TARGET, GameRecord


def naive_reply(record: GameRecord, ply: int, action_map: list[int]) -> dict[int, float]:
    """Return the share of the next position's visits by (moved) action; empty if there is nothing to
    learn."""
    if ply + 1 >= record.plies or not record.flags[ply + 1] & POLICY_TARGET:
        return {}
    visits = dict(visits_by_ply(record)[ply + 1])
    return {action_map[action]: count / sum(visits.values()) for action, count in visits.items()}
