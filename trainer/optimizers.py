"""The two optimizers: AdamW for small nets and short runs, and SGD with AlphaZero's schedule."""

from __future__ import annotations

import math

import torch
from torch import nn

from trainer.config import OptimizerSettings

ALPHAZERO_DROPS = ((100_000, 0.1), (300_000, 0.01), (500_000, 0.001))
"""(step, factor of the learning rate from then on): 0.2, 0.02, 0.002, 0.0002 (AlphaZero pseudocode)."""

LAST_SHARE = 0.1
"""Final learning rate of a cosine schedule, as a share of the first."""


def learning_rate(settings: OptimizerSettings, step: int, minutes: float = 0.0) -> float:
    """Return the learning rate of step `step`, counted from 0, after `minutes` of training. `settings` must
    be filled in."""
    rate = settings.lr * min(1.0, (step + 1) / max(settings.warmup_steps or 0, 1))
    if settings.kind == "alphazero":
        for first, factor in ALPHAZERO_DROPS:
            if step >= first:
                rate = settings.lr * factor
    return rate * cosine_share(settings, step, minutes)


def cosine_share(settings: OptimizerSettings, step: int, minutes: float) -> float:
    """Return what the cosine schedule leaves of the learning rate: from 1 down to LAST_SHARE."""
    if settings.cosine_steps:
        done = step / settings.cosine_steps
    elif settings.cosine_minutes:
        done = minutes / settings.cosine_minutes
    else:
        return 1.0
    return LAST_SHARE + (1 - LAST_SHARE) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def make_optimizer(settings: OptimizerSettings, network: nn.Module) -> torch.optim.Optimizer:
    """Return a new optimizer for `settings` (filled in); the caller sets the rate before each step."""
    decay = settings.weight_decay or 0.0
    parameters = list(network.parameters())
    if settings.kind == "alphazero":
        return torch.optim.SGD(parameters, lr=settings.lr, momentum=0.9, weight_decay=decay)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.lr, fused=True)
