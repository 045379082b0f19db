"""Auxiliary losses, whose heads only train the tower: the plies left in the game, and a softer policy.

Both predict more about positions that are in the window anyway, so the tower learns more from each position.
Search does not use these heads. `net.architectures` says whether a network has them.

Moves left (lc0, PR #961): plies to the end of the game, in units of `PLIES`, with the Huber loss, so that one
very long game does not outweigh ten others. Games that ended at the length limit do not count here.

Soft policy (KataGo, docs/KataGoMethods.md): the visits raised to 1 / `TEMPERATURE` and normalised again, so
moves with few visits also count, and the network must tell them apart.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trainer.loss import Targets, log_policy_over_all, log_policy_over_legal

PLIES = 20.0
"""Number of plies that the moves-left head counts as 1 (lc0: 20)."""
HUBER_PLIES = 10.0
"""Error, in plies, above which the loss grows only linearly (lc0: 10)."""
TEMPERATURE = 4.0
"""Temperature of the soft policy (KataGo: 4)."""
SOFT_FLOOR = 1e-7
"""Added to each share before it is raised to the power, so that legal moves without a visit get a little
(KataGo: 1e-7)."""


class AuxiliaryLosses(NamedTuple):
    """Means over the batch; 0 for a head that is not trained."""

    moves_left: Tensor
    soft_policy: Tensor


def moves_left_loss(outputs: Tensor, plies_left: Tensor, capped: Tensor) -> Tensor:
    """Return the Huber loss of `outputs` (float[n], units of `PLIES`) over the samples that are not
    `capped`."""
    counted = 1.0 - capped.float()
    wanted = plies_left.float() / PLIES
    each = functional.huber_loss(outputs.float(), wanted, reduction="none", delta=HUBER_PLIES / PLIES)
    return (counted * each).sum() / counted.sum().clamp_min(1.0)


def soft_shares(shares: Tensor, rows: Tensor, samples: int) -> Tensor:
    """Return float32[entries]: the shares of each row to the power 1 / `TEMPERATURE`, normalised to 1."""
    raised = (shares + SOFT_FLOOR) ** (1.0 / TEMPERATURE)
    return raised / raised.new_zeros(samples).scatter_add(0, rows, raised).gather(0, rows)


def soft_policy_loss(logits: Tensor, targets: Targets, form: str) -> Tensor:
    """Return the cross-entropy of `logits` float[n, actions] to the soft shares; `form` as in
    `trainer.loss.losses`."""
    log_policy = log_policy_over_all if form == "all" else log_policy_over_legal
    soft = soft_shares(targets.shares, targets.rows, len(logits))
    return -(soft * log_policy(logits, targets)).sum() / max(targets.policy_rows, 1)


def auxiliary_losses(
    moves_left: Tensor | None,
    soft_policy: Tensor | None,
    targets: Targets,
    plies_left: Tensor,
    capped: Tensor,
    form: str,
) -> AuxiliaryLosses:
    """Return the losses of the heads that are given: `moves_left [n]`, `soft_policy [n, actions]`."""
    nothing = torch.zeros((), device=targets.shares.device)
    return AuxiliaryLosses(
        nothing if moves_left is None else moves_left_loss(moves_left, plies_left, capped),
        nothing if soft_policy is None else soft_policy_loss(soft_policy, targets, form),
    )
