"""Policy-surprise weighting: positions where search and network disagree are drawn more often.

KataGo (docs/KataGoMethods.md): within a game, half of the weight is spread evenly over its positions and half
in proportion to KL(pi || P). No weights are stored here: with probability `surprise_share`, a position that
was drawn uniformly is replaced by one of the same game, drawn in proportion to surprise. So each game keeps
the weight of its plies, there is no table over the window to maintain, and a draw from 20 million positions
costs as much as one from 2,000 (docs/decisions/0010-network-in-records.md). `tests/trainer/naive_surprise.py`
is the slow twin.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from protocol.records import POLICY_TARGET, GameRecord

Numbers = npt.NDArray[np.int64]


def surprises(record: GameRecord) -> npt.NDArray[np.float64]:
    """Return [plies] KL(pi || P) of policy targets, nats; 0 for other plies and where it is unknown."""
    is_target = (record.flags & POLICY_TARGET) != 0
    return np.where(is_target, np.nan_to_num(record.prior_kl.astype(np.float64)), 0.0)


def running_surprise(record: GameRecord) -> npt.NDArray[np.float32]:
    """Return [plies] the sum of `surprises` up to and including each ply."""
    return np.cumsum(surprises(record)).astype(np.float32)


def redrawn(
    running: npt.NDArray[np.float32],
    games: tuple[Numbers, Numbers],
    first: int,
    numbers: Numbers,
    draws: npt.NDArray[np.float64],
) -> Numbers:
    """Return for each of the positions `numbers [n]` one of its own game, drawn in proportion to surprise.

    running: [capacity] ring of `running_surprise`, position `k` at `k % capacity`. games: ([n] first position
    of its game, [n] plies of its game). first: no position before this one is drawn, so a game may be cut.
    draws: [n] uniform in [0, 1). A position of a game without surprise stays.
    """
    capacity, (begins, plies) = len(running), games
    low, high = np.maximum(begins, first), begins + plies - 1
    before = np.where(low > begins, running[(low - 1) % capacity], 0.0).astype(np.float64)
    total = running[high % capacity] - before
    wanted, stays = before + draws * total, total <= 0
    # The first position whose sum exceeds the drawn one, for all rows at once.
    while (open_rows := low < high).any():
        middle = (low + high) // 2
        is_left = running[middle % capacity] > wanted
        low = np.where(open_rows & ~is_left, middle + 1, low)
        high = np.where(open_rows & is_left, middle, high)
    return np.where(stays, numbers, low)
