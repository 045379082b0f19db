"""The training loss: policy, value, and auxiliary heads.

AlphaZero (arXiv 1712.01815): l = (z - v)^2 - pi . log p + c |theta|^2, with the last term as the optimizer's
weight decay. A WDL head uses the cross-entropy of win, draw and loss instead of the square, and p is the
softmax over the legal moves (docs/decisions/0003-policy-loss-over-legal-moves.md). Three options go beyond
the paper, and are off by default: a win may count less the further away it is (`outcome_targets`), the value
target may be mixed with the search's value of the position (`value_targets`), and a position may weigh less
in the value loss than others.

Auxiliary heads predict more about the positions in the window, so that the body learns more from each
position; search does not use them, and evaluators drop them when they load weights. The trick is that
everything about a head is one entry of `HEADS`: its loss and, if the batch lacks them, its targets. Its line
in `net.architectures.registry.TRAINING_HEADS` says which torch module it gets, `loss.heads` sets its weight,
and samples, outputs, losses and figures are keyed by its name. Only a head that learns what the window does
not store yet (`ownership`) needs a column there too.
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
from trainer.sampler_kernel import Counts, SymmetryMaps, rows_in
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


class Batch(NamedTuple):
    """Data that a head may learn from: `n` samples, on the network's device."""

    targets: Targets
    """Targets of policy and value."""
    plies_left: Tensor
    """int32[n] plies to the end of the game."""
    no_length: Tensor
    """bool[n] where `plies_left` is not learned: in games that the rules did not end, and for samples of
    which only the policy is learned."""
    own: Any
    """What `Head.targets` made, with tensors for arrays."""


@dataclass(frozen=True)
class Head:
    """How a head is trained. `loss`: the loss of its outputs, a sum divided as in `Losses`."""

    loss: Callable[[Tensor, Batch], Tensor]
    targets: Any = None
    """A NamedTuple that `of(window, numbers, symmetries, maps)` makes for the positions `numbers [n]` of the
    window, each through the symmetry `symmetries [n]` of `maps`. It has `part(index, parts)`, as `Samples`
    has. None: the other fields of `Batch` are enough."""


def trained_heads(settings: LossSettings) -> Mapping[str, Head]:
    """Return the heads with a weight, by name."""
    return {name: HEADS[name] for name in settings.head_weights}


# Moves left (lc0, PR #961): plies to the end of the game, in units of `PLIES`, with the Huber loss, so that
# one very long game does not outweigh ten others. Games that the rules did not end do not count here.
PLIES = 20.0
"""Number of plies that the head counts as 1 (lc0: 20)."""
HUBER_PLIES = 10.0
"""Error, in plies, above which the loss grows only linearly (lc0: 10)."""


def moves_left_loss(outputs: Tensor, plies_left: Tensor, no_length: Tensor, count: int) -> Tensor:
    """Return the Huber loss of `outputs` (float[n], units of `PLIES`), summed over the samples with a length
    and divided by `count`."""
    # Nobody knows how many plies were left where the length limit or a player ended the game.
    counted = 1.0 - no_length.float()
    wanted = plies_left.float() / PLIES
    each = functional.huber_loss(outputs.float(), wanted, reduction="none", delta=HUBER_PLIES / PLIES)
    return (counted * each).sum() / max(count, 1)


# Reply (KataGo's "opponent policy", arXiv 1902.10565, section 3.4): how the search of the next position
# distributed its visits. The softmax is over all actions, because the legal ones depend on the move that is
# made.
class Replies(NamedTuple):
    """Entries for the visited moves of the next positions, as arrays or tensors; entry `i` belongs to sample
    `rows[i]`."""

    rows: Any
    """int64[entries] ascending; a sample without entries has no reply to learn."""
    actions: Any
    """int64[entries]"""
    shares: Any
    """float32[entries] shares of the visits; they sum to 1 in each row."""
    samples: int
    """Number of samples of the whole batch that have entries."""

    @classmethod
    def of(cls, window: Window, numbers: Numbers, symmetries: Numbers, maps: SymmetryMaps) -> Replies:
        """Return the replies to the positions `numbers [n]` of the window, each through a symmetry. A
        position has none if its game ends with the next move, or if the next position is no policy target."""
        rings, following = window.rings, numbers + 1
        slots = rings.game[numbers % window.capacity]
        # The next position belongs to the same game and has visits to learn from.
        goes_on = following < rings.game_first[slots] + rings.game_plies[slots]
        rows = np.flatnonzero(goes_on & window.is_target(following))
        counts, visits = window.visits_of(following[rows])
        begins = np.cumsum(counts) - counts
        numbers_of_visits = rings.visit_count[visits].astype(np.float32)
        # `reduceat` does not accept an empty list of beginnings.
        totals = np.add.reduceat(numbers_of_visits, begins) if len(rows) else numbers_of_visits
        of_row = np.repeat(rows, counts)
        actions = maps.actions[symmetries[of_row], rings.visit_action[visits].astype(np.int64)]
        return cls(of_row, actions, numbers_of_visits / np.repeat(totals, counts), rows_in(of_row))

    def part(self, index: int, parts: int) -> Replies:
        """Return those of samples `index`, `index + parts`, ..."""
        mine = self.rows % parts == index
        return Replies(self.rows[mine] // parts, self.actions[mine], self.shares[mine], self.samples)


def reply_loss(logits: Tensor, found: Replies) -> Tensor:
    """Return the cross-entropy of `logits` float[n, actions] to the visits of the next positions, summed, and
    divided by the samples of the batch that have one."""
    log_policy = functional.log_softmax(logits.float(), dim=1)[found.rows, found.actions]
    loss: Tensor = -(found.shares * log_policy).sum() / max(found.samples, 1)
    return loss


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


# Soft policy (KataGo, docs/KataGoMethods.md): the visits are raised to 1 / `TEMPERATURE` and normalised
# again, so that moves with few visits also count, and the network must tell them apart.
TEMPERATURE = 4.0
"""Temperature of the soft policy (KataGo: 4)."""
SOFT_FLOOR = 1e-7
"""Added to each share before it is raised to the power, so that legal moves without visits get a small share
(KataGo: 1e-7)."""


def soft_shares(shares: Tensor, rows: Tensor, samples: int) -> Tensor:
    """Return float32[entries]: the shares of each row to the power 1 / `TEMPERATURE`, normalised to 1."""
    raised = (shares + SOFT_FLOOR) ** (1.0 / TEMPERATURE)
    return raised / raised.new_zeros(samples).scatter_add(0, rows, raised).gather(0, rows)


def soft_policy_loss(logits: Tensor, targets: Targets) -> Tensor:
    """Return the cross-entropy of `logits` float[n, actions] to the soft shares, over the legal actions."""
    soft = soft_shares(targets.shares, targets.rows, len(logits))
    return -(soft * log_policy_over_legal(logits, targets)).sum() / max(targets.counts.policy_rows, 1)


HEADS: Mapping[str, Head] = {
    "moves_left": Head(
        lambda outputs, batch: moves_left_loss(
            outputs, batch.plies_left, batch.no_length, batch.targets.counts.plies_left
        )
    ),
    "reply": Head(lambda outputs, batch: reply_loss(outputs, batch.own), Replies),
    "ownership": Head(lambda outputs, batch: ownership_loss(outputs, batch.own), Owners),
    "soft_policy": Head(lambda outputs, batch: soft_policy_loss(outputs, batch.targets)),
}
"""The heads that only training uses, by name."""
