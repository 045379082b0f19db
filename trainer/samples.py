"""Training data: positions and their targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


def rows_in(rows: npt.NDArray[np.int64]) -> int:
    """Return how many samples have entries; `rows [entries]` is ascending."""
    return int(np.count_nonzero(np.diff(rows))) + (len(rows) > 0)


class Samples(NamedTuple):
    """`n` positions with their targets.

    The policy target has an entry for every legal action of a position; entry `i` belongs to `rows[i]`.
    """

    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words] packed features."""
    classes: npt.NDArray[np.int64]
    """[n] outcome for the side to move: 0 win, 1 draw, 2 loss."""
    root_values: npt.NDArray[np.float32]
    """[n] value of the search, for the side to move, in [-1, 1]; NaN where there was none."""
    capped: npt.NDArray[np.uint8]
    """[n] 1 for a position of a game that ended at the length limit, not by the rules."""
    plies_left: npt.NDArray[np.int32]
    """[n] plies from here to the end of the game, at least 1."""
    rows: npt.NDArray[np.int64]
    """[entries] ascending; a row without entries is not a policy target."""
    actions: npt.NDArray[np.int64]
    """[entries]"""
    shares: npt.NDArray[np.float32]
    """[entries] share of the root's visits, 0 for an action without visits; they sum to 1 in each row."""
    heads: dict[str, Any] | None = None
    """Own targets of the heads for training only, by name (`trainer.heads`); None where nobody asked."""
    policy_only: npt.NDArray[np.uint8] | None = None
    """[n] 1 where only the policy is learned; None if that is nowhere."""


def room_for(count: int, words: int, most_legal: int) -> Samples:
    """Return `count` samples of features with `words` words, to be filled in, with room for `most_legal`
    entries each: more than is needed, but memory that is not written to costs nothing."""
    return Samples(
        packed_features=np.empty((count, words), dtype=np.uint64),
        classes=np.empty(count, dtype=np.int64),
        root_values=np.empty(count, dtype=np.float32),
        capped=np.empty(count, dtype=np.uint8),
        plies_left=np.empty(count, dtype=np.int32),
        rows=np.empty(count * most_legal, dtype=np.int64),
        actions=np.empty(count * most_legal, dtype=np.int64),
        shares=np.empty(count * most_legal, dtype=np.float32),
    )


def first_of(samples: Samples, count: int, entries: int) -> Samples:
    """Return the first `count` samples with their `entries`."""
    return Samples(
        samples.packed_features[:count],
        samples.classes[:count],
        samples.root_values[:count],
        samples.capped[:count],
        samples.plies_left[:count],
        samples.rows[:entries],
        samples.actions[:entries],
        samples.shares[:entries],
    )


def joined(samples: Samples, more: Samples) -> Samples:
    """Return both, `more` last; of those only the policy is learned."""
    policy_only = np.zeros(len(samples.classes) + len(more.classes), np.uint8)
    policy_only[len(samples.classes) :] = 1
    return Samples(
        np.concatenate([samples.packed_features, more.packed_features]),
        np.concatenate([samples.classes, more.classes]),
        np.concatenate([samples.root_values, more.root_values]),
        np.concatenate([samples.capped, more.capped]),
        np.concatenate([samples.plies_left, more.plies_left]),
        np.concatenate([samples.rows, more.rows + len(samples.classes)]),
        np.concatenate([samples.actions, more.actions]),
        np.concatenate([samples.shares, more.shares]),
        samples.heads,
        policy_only,
    )
