"""Losses of heads that only teach the tower: how long the game goes on, and a softer policy.

Both ask for more than policy and value do, of positions that are there anyway, so the tower learns more
from each; nothing is asked of these heads in play. `net.architectures` says whether a network has them.

* moves left (lc0, PR #961): plies to the end of the game, in units of `PLIES`, by the Huber loss, as a game
  that goes on for long should not outweigh ten others. Games ended by their length say nothing here.
* soft policy (KataGo, docs/KataGoMethods.md): the visits raised to 1 / `TEMPERATURE` and made to add up to 1
  again, so moves that were looked at little also count, and have to be told apart.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trainer.loss import Targets, log_policy_over_all, log_policy_over_legal

PLIES = 20.0
"""Plies that the moves-left head calls 1 (lc0: 20)."""
HUBER_PLIES = 10.0
"""Error, in plies, from which on the loss grows no faster than the error (lc0: 10)."""
TEMPERATURE = 4.0
"""Of the soft policy (KataGo: 4)."""
SOFT_FLOOR = 1e-7
"""Added to each share before it is raised: legal moves without a visit get a little (KataGo: 1e-7)."""


class AuxiliaryLosses(NamedTuple):
    """Means over the batch; 0 for a head that is not trained."""

    moves_left: Tensor
    soft_policy: Tensor


def moves_left_loss(outputs: Tensor, plies_left: Tensor, capped: Tensor) -> Tensor:
    """Huber loss of `outputs` (float[n], units of `PLIES`) over the samples that are not `capped`."""
    counted = 1.0 - capped.float()
    wanted = plies_left.float() / PLIES
    each = functional.huber_loss(outputs.float(), wanted, reduction="none", delta=HUBER_PLIES / PLIES)
    return (counted * each).sum() / counted.sum().clamp_min(1.0)


def soft_shares(shares: Tensor, rows: Tensor, samples: int) -> Tensor:
    """float32[entries]: the shares of each row to the power 1 / `TEMPERATURE`, adding up to 1 again."""
    raised = (shares + SOFT_FLOOR) ** (1.0 / TEMPERATURE)
    return raised / raised.new_zeros(samples).scatter_add(0, rows, raised).gather(0, rows)


def soft_policy_loss(logits: Tensor, targets: Targets, form: str) -> Tensor:
    """Cross-entropy of `logits` float[n, actions] to the soft shares; `form` as in `trainer.loss.losses`."""
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
    """Of the heads that are given: `moves_left [n]`, `soft_policy [n, actions]`."""
    nothing = torch.zeros((), device=targets.shares.device)
    return AuxiliaryLosses(
        nothing if moves_left is None else moves_left_loss(moves_left, plies_left, capped),
        nothing if soft_policy is None else soft_policy_loss(soft_policy, targets, form),
    )
