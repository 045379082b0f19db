"""Games whose first moves were drawn at random, made of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from protocol.records import GameRecord


def without_search(record: GameRecord, plies: int) -> GameRecord:
    """The game as if its first plies had been drawn at random: no visits, no value, no target."""
    dropped = int(record.visited[:plies].sum())
    beginning = np.arange(record.plies) < plies
    return replace(
        record,
        visited=np.where(beginning, 0, record.visited).astype(np.uint16),
        visit_actions=record.visit_actions[dropped:],
        visits=record.visits[dropped:],
        root_values=np.where(beginning, 0, record.root_values).astype(np.float32),
        flags=np.where(beginning, 0, record.flags).astype(np.uint8),
    )
