"""Moves left (lc0, PR #961): plies to the end of the game, in units of `PLIES`, with the Huber loss, so that
one very long game does not outweigh ten others. Games that ended at the length limit do not count here."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from trainer.heads import Batch, Head

PLIES = 20.0
"""Number of plies that the head counts as 1 (lc0: 20)."""
HUBER_PLIES = 10.0
"""Error, in plies, above which the loss grows only linearly (lc0: 10)."""


def moves_left_loss(outputs: Tensor, plies_left: Tensor, capped: Tensor) -> Tensor:
    """Return the Huber loss of `outputs` (float[n], units of `PLIES`) over the samples that are not
    `capped`."""
    counted = 1.0 - capped.float()
    wanted = plies_left.float() / PLIES
    each = functional.huber_loss(outputs.float(), wanted, reduction="none", delta=HUBER_PLIES / PLIES)
    return (counted * each).sum() / counted.sum().clamp_min(1.0)


def _loss(outputs: Tensor, batch: Batch) -> Tensor:
    return moves_left_loss(outputs, batch.plies_left, batch.capped)


HEAD = Head(_loss)
