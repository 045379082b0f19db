"""Games with plies that were not searched or are no policy targets, and samples without such targets."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from protocol.records import POLICY_TARGET, GameRecord
from trainer.sampler_kernel import Samples


def without_search(record: GameRecord, plies: int) -> GameRecord:
    """Return the game as if its first plies were random: no visits, no value, no target."""
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


def without_targets(record: GameRecord, plies: npt.NDArray[np.bool_]) -> GameRecord:
    """Return the game with a target at each ply except `plies [plies]`, which keep their visits."""
    return replace(record, flags=np.where(plies, 0, POLICY_TARGET).astype(np.uint8))


def fully_searched(record: GameRecord) -> GameRecord:
    """Return the game with a target at each ply."""
    return without_targets(record, np.zeros(record.plies, np.bool_))


def without_policy(samples: Samples, rows: Iterable[int]) -> Samples:
    """Return the same samples, but `rows` have no policy target."""
    kept = ~np.isin(samples.rows, list(rows))
    entries = ("rows", "actions", "shares")
    return samples._replace(**{name: getattr(samples, name)[kept] for name in entries})
