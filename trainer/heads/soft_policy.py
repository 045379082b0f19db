"""Soft policy (KataGo, docs/KataGoMethods.md): the visits raised to 1 / `TEMPERATURE` and normalised again,
so moves with few visits also count, and the network must tell them apart."""

from __future__ import annotations

from torch import Tensor

from trainer.heads import Batch, Head
from trainer.loss import Targets, log_policy_over_all, log_policy_over_legal

TEMPERATURE = 4.0
"""Temperature of the soft policy (KataGo: 4)."""
SOFT_FLOOR = 1e-7
"""Added to each share before it is raised to the power, so that legal moves without a visit get a little
(KataGo: 1e-7)."""


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


def _loss(outputs: Tensor, batch: Batch) -> Tensor:
    return soft_policy_loss(outputs, batch.targets, batch.settings.policy_loss)


HEAD = Head(_loss)
