"""What training makes small: cross-entropy of the policy to the visits, and of the value to the outcome.

AlphaZero (arXiv 1712.01815): l = (z - v)^2 - pi . log p + c |theta|^2, the last term as the optimizer's
weight decay. A WDL head takes the cross-entropy of win, draw and loss in place of the square.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Targets(NamedTuple):
    """Targets of `n` samples, on the network's device; see `trainer.sampler.Samples`."""

    classes: Tensor
    """int64[n] 0 win, 1 draw, 2 loss, for the side to move."""
    rows: Tensor
    """int64[entries]"""
    actions: Tensor
    """int64[entries]"""
    shares: Tensor
    """float32[entries]"""
    policy_rows: int
    """Samples that are a policy target."""


class Losses(NamedTuple):
    """Means over the batch, in nats (`value` of a tanh head: the mean square)."""

    policy: Tensor
    value: Tensor
    policy_entropy: Tensor
    """Of the visits: what `policy` would be for a network that knows them exactly."""


def losses(policy_logits: Tensor, value_logits: Tensor, targets: Targets) -> Losses:
    """`policy_logits [n, actions]` over all actions, legal or not; `value_logits [n, 3]` or `[n, 1]`."""
    log_policy = functional.log_softmax(policy_logits.float(), dim=1)
    rows = max(targets.policy_rows, 1)
    policy = -(targets.shares * log_policy[targets.rows, targets.actions]).sum() / rows
    entropy = -(targets.shares * targets.shares.log()).sum() / rows
    return Losses(policy, value_loss(value_logits.float(), targets.classes), entropy)


def value_loss(value_logits: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy for three logits; squared error to z in {1, 0, -1} for one number before tanh."""
    if value_logits.shape[1] == 3:
        return functional.cross_entropy(value_logits, classes)
    z = 1.0 - classes.float()
    return functional.mse_loss(torch.tanh(value_logits[:, 0]), z)
