"""What training makes small: cross-entropy of the policy to the visits, and of the value to the outcome.

AlphaZero (arXiv 1712.01815): l = (z - v)^2 - pi . log p + c |theta|^2, the last term as the optimizer's
weight decay. A WDL head takes the cross-entropy of win, draw and loss in place of the square, and p is
the softmax over the legal moves by default (docs/decisions/0003-policy-loss-over-legal-moves.md).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Targets(NamedTuple):
    """Targets of `n` samples, on the network's device; see `trainer.sampler.Samples`.

    The entries of a row are the legal actions of that position.
    """

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


def losses(policy_logits: Tensor, value_logits: Tensor, targets: Targets, form: str = "legal") -> Losses:
    """`policy_logits [n, actions]`; `value_logits [n, 3]` or `[n, 1]`.

    `form`: the policy's cross-entropy over the `legal` actions of each position, or over `all`.
    """
    log_policy = log_policy_over_all if form == "all" else log_policy_over_legal
    rows = max(targets.policy_rows, 1)
    policy = -(targets.shares * log_policy(policy_logits, targets)).sum() / rows
    entropy = torch.special.entr(targets.shares).sum() / rows
    return Losses(policy, value_loss(value_logits.float(), targets.classes), entropy)


def log_policy_over_legal(policy_logits: Tensor, targets: Targets) -> Tensor:
    """float32[entries]: log-softmax over the entries of each row, as the search uses the logits."""
    rows, samples = targets.rows, len(policy_logits)
    # Flat, because the gradient of this is a plain scatter, that of two indices sorts them first on a GPU.
    places = rows * policy_logits.shape[1] + targets.actions
    logits = policy_logits.reshape(-1).gather(0, places).float()
    # The largest logit goes to 0, so nothing overflows and each sum is at least 1.
    largest = logits.new_zeros(samples).scatter_reduce(0, rows, logits.detach(), "amax", include_self=False)
    shifted = logits - largest.gather(0, rows)
    sums = logits.new_zeros(samples).scatter_add(0, rows, shifted.exp())
    return shifted - sums.gather(0, rows).log()


def log_policy_over_all(policy_logits: Tensor, targets: Targets) -> Tensor:
    """float32[entries]: log-softmax over all actions of the game, legal or not (AlphaZero pseudocode)."""
    return functional.log_softmax(policy_logits.float(), dim=1)[targets.rows, targets.actions]


def value_loss(value_logits: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy for three logits; squared error to z in {1, 0, -1} for one number before tanh."""
    if value_logits.shape[1] == 3:
        return functional.cross_entropy(value_logits, classes)
    z = 1.0 - classes.float()
    return functional.mse_loss(torch.tanh(value_logits[:, 0]), z)
