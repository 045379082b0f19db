"""Auxiliary losses, whose heads only train the tower: the plies left in the game, a softer policy, the reply,
the value of each move, a later board.

They predict more about positions that are in the window anyway, so the tower learns more from each position.
Search does not use these heads. `net.architectures` says whether a network has them.

Moves left (lc0, PR #961): plies to the end of the game, in units of `PLIES`, with the Huber loss, so that one
very long game does not outweigh ten others. Games that ended at the length limit do not count here.

Soft policy (KataGo, docs/KataGoMethods.md): the visits raised to 1 / `TEMPERATURE` and normalised again, so
moves with few visits also count, and the network must tell them apart.

Reply (KataGo): the visits of the next position (`trainer.replies`), over all actions, because the legal ones
depend on the move that is made.

Action values (AlphaZeroArcade): the search's values of the moves that it visited (`trainer.action_values`),
with the square of the difference. Each position counts the same, however many of its moves are known.

Future board (KataGo): the binary planes of a later position of the game (`trainer.future_boards_kernel`),
with the cross-entropy of each bit, summed over the planes and averaged over the cells. (KataGo takes the
square.)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from net.architectures.network import Outputs
from trainer.config import LossSettings
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
    reply: Tensor
    action_value: Tensor
    future_board: Tensor


class Entries(NamedTuple):
    """Targets of some actions of some samples, on the network's device."""

    rows: Tensor
    """int64[entries] the sample of each entry, ascending."""
    actions: Tensor
    """int64[entries]"""
    numbers: Tensor
    """float32[entries] shares (`trainer.replies`) or values (`trainer.action_values`)."""
    samples: int
    """Number of samples that have entries."""


class BoardTargets(NamedTuple):
    """Later boards of the first `m` samples, on the network's device."""

    planes: Tensor
    """float32[m, binary planes, rows, cols]"""
    known: Tensor
    """uint8[m] 0 where nothing is learned."""


class AuxiliaryTargets(NamedTuple):
    """Targets of `n` samples, on the network's device, beyond those of `trainer.loss`."""

    plies_left: Tensor
    """int32[n]"""
    capped: Tensor
    """uint8[n] 1 where `plies_left` is not learned: in capped games, and where only the policy is."""
    reply: Entries
    """Empty without that head, as the next two."""
    action_value: Entries
    future_board: BoardTargets


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


def reply_loss(logits: Tensor, replies: Entries) -> Tensor:
    """Return the cross-entropy of `logits` float[n, actions] to the visits of the next positions, averaged
    over the samples that have one."""
    log_policy = functional.log_softmax(logits.float(), dim=1)[replies.rows, replies.actions]
    return -(replies.numbers * log_policy).sum() / max(replies.samples, 1)


def action_value_loss(outputs: Tensor, known: Entries) -> Tensor:
    """Return the squared error of tanh(`outputs` float[n, actions]) to the known values of moves: the mean
    over the moves of each sample, then over the samples that have any."""
    off = (torch.tanh(outputs.float()[known.rows, known.actions]) - known.numbers).square()
    counts = off.new_zeros(len(outputs)).scatter_add(0, known.rows, torch.ones_like(off))
    return (off / counts.gather(0, known.rows)).sum() / max(known.samples, 1)


def future_board_loss(logits: Tensor, boards: BoardTargets) -> Tensor:
    """Return the cross-entropy of `logits` float[n, binary planes, rows, cols] to the bits of the known
    boards: the sum over the planes, averaged over cells and boards."""
    known = boards.known.float()
    bits = functional.binary_cross_entropy_with_logits(
        logits[: len(known)].float(), boards.planes, reduction="none"
    )
    return (known * bits.sum(1).mean((1, 2))).sum() / known.sum().clamp_min(1.0)


def auxiliary_losses(
    outputs: Outputs, weights: LossSettings, targets: Targets, others: AuxiliaryTargets
) -> AuxiliaryLosses:
    """Return the losses of the heads that `outputs` has and `weights` trains."""
    nothing = torch.zeros((), device=targets.shares.device)
    moves_left = outputs.moves_left if weights.moves_left_weight else None
    soft_policy = outputs.soft_policy if weights.soft_policy_weight else None
    reply = outputs.reply if weights.reply_weight else None
    action_value = outputs.action_value if weights.action_value_weight else None
    board = outputs.future_board if weights.future_board_weight else None
    return AuxiliaryLosses(
        nothing if moves_left is None else moves_left_loss(moves_left, others.plies_left, others.capped),
        nothing if soft_policy is None else soft_policy_loss(soft_policy, targets, weights.policy_loss),
        nothing if reply is None else reply_loss(reply, others.reply),
        nothing if action_value is None else action_value_loss(action_value, others.action_value),
        nothing if board is None else future_board_loss(board, others.future_board),
    )
