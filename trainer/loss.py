"""The training loss: cross-entropy of the policy to the visits, and of the value to the outcome.

AlphaZero (arXiv 1712.01815): l = (z - v)^2 - pi . log p + c |theta|^2, the last term as the optimizer's
weight decay. A WDL head uses the cross-entropy of win, draw and loss instead of the square, and p is the
softmax over the legal moves by default (docs/decisions/0003-policy-loss-over-legal-moves.md). Beyond the
paper, and off by default: a win may count less the further away it is (`outcome_targets`), the value target
may be mixed with the search's value of the position (`value_targets`), and a position may weigh less in the
value loss than others.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Targets(NamedTuple):
    """Targets of `n` samples, on the network's device; see `trainer.samples.Samples`.

    The entries of a row are the legal actions of that position.
    """

    wdl: Tensor
    """float32[n, 3] probability of win, draw, loss for the side to move."""
    value_weights: Tensor
    """float32[n] weight of each sample in the value loss."""
    rows: Tensor
    """int64[entries]"""
    actions: Tensor
    """int64[entries]"""
    shares: Tensor
    """float32[entries]"""
    policy_rows: int
    """Number of samples that are a policy target."""


class Losses(NamedTuple):
    """Means over the batch, in nats (`value` of a tanh head: the mean square)."""

    policy: Tensor
    value: Tensor
    """The weighted mean over the samples."""
    policy_entropy: Tensor
    """Entropy of the visits: the value of `policy` for a network that predicts them exactly."""


def losses(policy_logits: Tensor, value_logits: Tensor, targets: Targets, form: str = "legal") -> Losses:
    """Return the losses of `policy_logits [n, actions]`, or `[entries]` of a network that only computes
    those, and `value_logits [n, 3]` or `[n, 1]`.

    `form`: the policy's cross-entropy over the `legal` actions of each position, or over `all`.
    """
    if policy_logits.dim() == 1:
        log_policy = log_softmax_by_row(policy_logits.float(), targets.rows, len(value_logits))
    elif form == "all":
        log_policy = log_policy_over_all(policy_logits, targets)
    else:
        log_policy = log_policy_over_legal(policy_logits, targets)
    rows = max(targets.policy_rows, 1)
    policy = -(targets.shares * log_policy).sum() / rows
    entropy = torch.special.entr(targets.shares).sum() / rows
    return Losses(policy, value_loss(value_logits.float(), targets.wdl, targets.value_weights), entropy)


def log_policy_over_legal(policy_logits: Tensor, targets: Targets) -> Tensor:
    """Return float32[entries]: log-softmax over the entries of each row, as the search uses the logits."""
    # Flat, because its gradient is a plain scatter; with two indices it would sort them first on a GPU.
    places = targets.rows * policy_logits.shape[1] + targets.actions
    logits = policy_logits.reshape(-1).gather(0, places).float()
    return log_softmax_by_row(logits, targets.rows, len(policy_logits))


def log_softmax_by_row(logits: Tensor, rows: Tensor, samples: int) -> Tensor:
    """Return float32[entries]: log-softmax of `logits` float32[entries] over the entries of each of the
    `samples` rows; `rows` int64[entries]."""
    # The largest logit becomes 0, so nothing overflows and each sum is at least 1.
    largest = logits.new_zeros(samples).scatter_reduce(0, rows, logits.detach(), "amax", include_self=False)
    shifted = logits - largest.gather(0, rows)
    sums = logits.new_zeros(samples).scatter_add(0, rows, shifted.exp())
    return shifted - sums.gather(0, rows).log()


def log_policy_over_all(policy_logits: Tensor, targets: Targets) -> Tensor:
    """Return float32[entries]: log-softmax over all actions of the game, legal or not (AlphaZero
    pseudocode)."""
    return functional.log_softmax(policy_logits.float(), dim=1)[targets.rows, targets.actions]


def value_targets(outcome: Tensor, root_values: Tensor, share: float) -> Tensor:
    """Return float32[n, 3] win, draw, loss: `(1 - share)` of the outcome and `share` of the root value q.

    outcome: float32[n, 3] from `outcome_targets`. root_values: float32[n] q in [-1, 1] for the side to move;
    NaN without a search, where the outcome is used alone.

    q is the difference of win and loss and says nothing about draws, so the draw probability comes from the
    game. For a drawn game, q >= 0 becomes (q, 1 - q, 0) (and the mirror image for negative q), the largest
    draw probability that q allows. For a decisive game it becomes ((1 + q) / 2, 0, (1 - q) / 2). Win minus
    loss is q in both.
    """
    q = torch.where(root_values.isnan(), outcome[:, 0] - outcome[:, 2], root_values)
    drawn = outcome[:, 1] * (1.0 - q.abs())
    decided = 1.0 - drawn
    search = torch.stack([(decided + q) / 2, drawn, (decided - q) / 2], dim=1)
    search = torch.where(root_values.isnan()[:, None], outcome, search)
    return (1.0 - share) * outcome + share * search


def outcome_targets(classes: Tensor, plies_left: Tensor, win_discount: float) -> Tensor:
    """Return float32[n, 3] win, draw, loss: the outcome, fading to a draw by a factor `win_discount` per ply
    to the end.

    classes: int64[n] 0 win, 1 draw, 2 loss, for the side to move. plies_left: int32[n].
    """
    outcome = functional.one_hot(classes, 3).float()
    decided = torch.pow(win_discount, plies_left.float())[:, None]
    return decided * outcome + (1.0 - decided) * outcome.new_tensor([0.0, 1.0, 0.0])


def value_loss(value_logits: Tensor, wdl: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of weight times loss: cross-entropy of three logits `value_logits [n, 3]` to `wdl [n,
    3]`; for one number before tanh, `[n, 1]`, the squared error to win minus loss. `weights [n]`."""
    if value_logits.shape[1] == 3:
        each = -(wdl * functional.log_softmax(value_logits, dim=1)).sum(dim=1)
    else:
        each = (torch.tanh(value_logits[:, 0]) - (wdl[:, 0] - wdl[:, 2])).square()
    return (weights * each).mean()


def values_of(value_logits: Tensor) -> Tensor:
    """Return float32[n] values for the side to move: win minus loss, or the tanh of a single number."""
    logits = value_logits.float()
    if logits.shape[1] == 3:
        wdl = functional.softmax(logits, dim=1)
        return wdl[:, 0] - wdl[:, 2]
    return torch.tanh(logits[:, 0])
