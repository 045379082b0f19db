"""Reply (KataGo's "opponent policy", arXiv 1902.10565, section 3.4): how the search of the next position
shared its visits, over all actions, because the legal ones depend on the move that is made.
`tests/trainer/naive_replies.py` is the slow twin of the targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from trainer.heads import Batch, Head
from trainer.samples import rows_in
from trainer.window import Window


class Replies(NamedTuple):
    """Entries for the visited moves of the next positions: arrays, or tensors; entry `i` belongs to sample
    `rows[i]`."""

    rows: Any
    """int64[entries] ascending; a sample without entries has no reply to learn."""
    actions: Any
    """int64[entries]"""
    shares: Any
    """float32[entries] shares of the visits; they sum to 1 in each row."""
    samples: int
    """Number of samples that have entries."""


def replies(window: Window, numbers: npt.NDArray[np.int64], action_maps: npt.NDArray[np.int64]) -> Replies:
    """Return the replies to the positions `numbers [n]` of the window. A position has none if its game ends
    with the next move, or if the next position is no policy target.

    action_maps: [n, actions] where the symmetry of each sample moves each action.
    """
    rings, following = window.rings, numbers + 1
    slots = rings.game[numbers % window.capacity]
    goes_on = following < rings.game_first[slots] + rings.game_plies[slots]
    rows = np.flatnonzero(goes_on & window.is_target(following))
    counts, visits = window.visits_of(following[rows])
    begins = np.cumsum(counts) - counts
    numbers_of_visits = rings.visit_count[visits].astype(np.float32)
    totals = np.add.reduceat(numbers_of_visits, begins) if len(rows) else numbers_of_visits
    of_row = np.repeat(rows, counts)
    actions = action_maps[of_row, rings.visit_action[visits].astype(np.int64)]
    return Replies(of_row, actions, numbers_of_visits / np.repeat(totals, counts), rows_in(of_row))


def reply_loss(logits: Tensor, found: Replies) -> Tensor:
    """Return the cross-entropy of `logits` float[n, actions] to the visits of the next positions, averaged
    over the samples that have one."""
    log_policy = functional.log_softmax(logits.float(), dim=1)[found.rows, found.actions]
    loss: Tensor = -(found.shares * log_policy).sum() / max(found.samples, 1)
    return loss


def _loss(outputs: Tensor, batch: Batch) -> Tensor:
    return reply_loss(outputs, batch.own)


HEAD = Head(_loss, replies)
