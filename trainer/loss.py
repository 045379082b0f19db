"""The training loss: policy, value, and auxiliary heads.

AlphaZero (arXiv 1712.01815): l = (z - v)^2 - pi . log p + c |theta|^2, with the last term as the optimizer's
weight decay. A WDL head uses the cross-entropy of win, draw and loss instead of the square, and p is the
softmax over the legal moves (docs/decisions/0003-policy-loss-over-legal-moves.md). Three options go beyond
the paper, and are off by default: a win may count less the further away it is (`outcome_targets`), the value
target may be mixed with the search's value of the position (`value_targets`), and a position may weigh less
in the value loss than others.

Auxiliary heads predict more about the positions in the window, so that the body learns more from each
position; search does not use them, and evaluators drop them when they load weights. The trick is that
everything about a head is one entry of `HEADS`, with its targets and its loss, and its name in
`net.architectures.registry.TRAINING_HEADS`; `loss.heads` sets its weight, and samples, outputs, losses and
figures are keyed by its name. Only a head that learns what the window does not store yet needs a column there
too, as `ownership` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trainer.config import LossSettings
from trainer.sampler_kernel import Counts, SymmetryMaps
from trainer.window import Numbers, Window


class Targets(NamedTuple):
    """Targets of `n` samples, on the network's device; see `trainer.sampler_kernel.Samples`.

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
    counts: Counts
    """Counts of the whole batch, of which these samples may be a part."""


class Losses(NamedTuple):
    """Sums over the samples, divided by the counts of the whole batch: the batch's means, or the share that a
    part of it adds to these means. In nats (`value` of a tanh head: the mean square)."""

    policy: Tensor
    value: Tensor
    """The sum of weight times loss, divided by the samples and not by their weights."""
    policy_entropy: Tensor
    """Entropy of the visits: the value of `policy` if the network predicts the visits exactly."""


def losses(policy_logits: Tensor, value_logits: Tensor, targets: Targets) -> Losses:
    """Return the losses of `policy_logits [n, actions]`, or `[entries]` if the network computes only those,
    and of `value_logits [n, 3]` or `[n, 1]`."""
    if policy_logits.dim() == 1:
        log_policy = log_softmax_by_row(policy_logits.float(), targets.rows, len(value_logits))
    else:
        log_policy = log_policy_over_legal(policy_logits, targets)
    # Divide by targets, not samples: positions without a policy target must not shrink the others' loss.
    rows = max(targets.counts.policy_rows, 1)
    policy = -(targets.shares * log_policy).sum() / rows
    entropy = torch.special.entr(targets.shares).sum() / rows
    value = value_loss(value_logits.float(), targets.wdl, targets.value_weights, targets.counts.samples)
    return Losses(policy, value, entropy)


def log_policy_over_legal(policy_logits: Tensor, targets: Targets) -> Tensor:
    """Return float32[entries]: log-softmax over the entries of each row, as the search uses the logits."""
    # Flat, because the gradient is then a plain scatter; with two indices a GPU would sort them first.
    places = targets.rows * policy_logits.shape[1] + targets.actions
    logits = policy_logits.reshape(-1).gather(0, places).float()
    return log_softmax_by_row(logits, targets.rows, len(policy_logits))


def log_softmax_by_row(logits: Tensor, rows: Tensor, samples: int) -> Tensor:
    """Return float32[entries]: log-softmax of `logits` float32[entries] over the entries of each of the
    `samples` rows; `rows` int64[entries]."""
    # Subtract the largest logit, so that nothing overflows and each sum is at least 1.
    largest = logits.new_zeros(samples).scatter_reduce(0, rows, logits.detach(), "amax", include_self=False)
    shifted = logits - largest.gather(0, rows)
    sums = logits.new_zeros(samples).scatter_add(0, rows, shifted.exp())
    return shifted - sums.gather(0, rows).log()


def value_targets(outcome: Tensor, root_values: Tensor, share: float) -> Tensor:
    """Return float32[n, 3] win, draw, loss: `(1 - share)` of the outcome and `share` of the root value q.

    outcome: float32[n, 3] from `outcome_targets`. root_values: float32[n] q in [-1, 1] for the side to move.

    q is win minus loss and says nothing about draws, so the draw probability comes from the game. In a drawn
    game, q >= 0 becomes (q, 1 - q, 0), with the largest draw probability that q allows (negative q: the
    mirror image). In a decisive game, q becomes ((1 + q) / 2, 0, (1 - q) / 2). Win minus loss is q in both
    cases.
    """
    drawn = outcome[:, 1] * (1.0 - root_values.abs())
    decided = 1.0 - drawn
    search = torch.stack([(decided + root_values) / 2, drawn, (decided - root_values) / 2], dim=1)
    return (1.0 - share) * outcome + share * search


def outcome_targets(classes: Tensor, plies_left: Tensor, end_values: Tensor, win_discount: float) -> Tensor:
    """Return float32[n, 3] win, draw, loss: the outcome, fading to a draw by a factor `win_discount` per ply
    to the end.

    classes: int64[n] 0 win, 1 draw, 2 loss, for the side to move. plies_left: int32[n]. end_values:
    float32[n] as in `Samples`.
    """
    outcome = functional.one_hot(classes, 3).float()
    decided = torch.pow(win_discount, plies_left.float())
    # A resigned game would have gone on. If its end counted as a mate, each network would resign earlier than
    # the last. So the value there, which has faded already, takes the place of the plies that are missing.
    if win_discount < 1:
        decided = decided * (end_values / win_discount).clamp(max=1.0)
    decided = decided[:, None]
    faded = decided * outcome
    # In place, because copying a constant tensor to the GPU would wait for the previous step.
    faded[:, 1:2] += 1.0 - decided
    return faded


def value_loss(value_logits: Tensor, wdl: Tensor, weights: Tensor, samples: int) -> Tensor:
    """Return the sum of weight times loss, divided by `samples`: cross-entropy of three logits `value_logits
    [n, 3]` to `wdl [n, 3]`; for one number before tanh, `[n, 1]`, the squared error to win minus loss.
    `weights [n]`."""
    if value_logits.shape[1] == 3:
        each = -(wdl * functional.log_softmax(value_logits, dim=1)).sum(dim=1)
    else:
        each = (torch.tanh(value_logits[:, 0]) - (wdl[:, 0] - wdl[:, 2])).square()
    return (weights * each).sum() / samples


@dataclass(frozen=True)
class Head:
    """How an auxiliary head is trained."""

    targets: Any
    """A NamedTuple that `of(window, numbers, symmetries, maps)` makes for the positions `numbers [n]` of the
    window, each through the symmetry `symmetries [n]` of `maps`. It has `part(index, parts)`, as `Samples`
    has, and `samples`, the number of samples of the whole batch with a target."""
    loss: Callable[[Tensor, Any], Tensor]
    """The loss of the head's outputs, for these targets as tensors: a sum divided as in `Losses`."""


def trained_heads(settings: LossSettings) -> Mapping[str, Head]:
    """Return the heads with a weight, by name."""
    return {name: HEADS[name] for name in settings.head_weights}


# Ownership (KataGo, arXiv 1902.10565, section 3.4): who owns each cell when the game is over. Go programs
# show the ownership, and use it to remove dead stones. The score has no head: it is the sum of the owners.
class Owners(NamedTuple):
    """Owners of the cells at the end of the game, as arrays or tensors; row `i` belongs to sample `i`."""

    owners: Any
    """int8[n, cells] +1 where the side to move owns the cell, -1 where the other side does, 0 for nobody."""
    known: Any
    """uint8[n] 0 where the last board of the game says nothing (`trainer.window.FinalBoards`)."""
    samples: int
    """Number of samples of the whole batch that are known."""

    @classmethod
    def of(cls, window: Window, numbers: Numbers, symmetries: Numbers, maps: SymmetryMaps) -> Owners:
        """Return the owners for the positions `numbers [n]` of the window, each through a symmetry."""
        boards, places = window.final_boards, maps.cells[symmetries]
        # The window has no final boards: nothing is known of any cell.
        if not len(boards.known):
            return cls(np.zeros(places.shape, np.int8), np.zeros(len(numbers), np.uint8), 0)
        slots = window.rings.game[numbers % window.capacity]
        known, owners = boards.known[slots], np.empty(places.shape, np.int8)
        mine = boards.signs[numbers % window.capacity, None] * boards.owners[slots]
        np.put_along_axis(owners, places, mine, axis=1)
        return cls(owners, known, int(known.sum()))

    def part(self, index: int, parts: int) -> Owners:
        """Return those of samples `index`, `index + parts`, ..."""
        return Owners(self.owners[index::parts], self.known[index::parts], self.samples)


def ownership_loss(logits: Tensor, found: Owners) -> Tensor:
    """Return the cross-entropy of `logits` float[n, cells] (of owning the cell, before the sigmoid), averaged
    over the cells, summed over the known samples, and divided by the number of known samples in the batch."""
    # Samples that were joined to these come last (`sampler_kernel.joined`), and have no owners.
    wanted = (1.0 + found.owners.float()) / 2.0
    each = functional.binary_cross_entropy_with_logits(
        logits[: len(wanted)].float(), wanted, reduction="none"
    ).mean(dim=1)
    loss: Tensor = (found.known * each).sum() / max(found.samples, 1)
    return loss


HEADS: Mapping[str, Head] = {"ownership": Head(Owners, ownership_loss)}
"""The heads that only training uses, by name."""
