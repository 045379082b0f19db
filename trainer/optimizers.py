"""Two ways to descend: AdamW for small nets and short runs, and AlphaZero's own schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

ALPHAZERO_DROPS = ((100_000, 0.1), (300_000, 0.01), (500_000, 0.001))
"""(step, factor of the learning rate from then on): 0.2, 0.02, 0.002, 0.0002 (AlphaZero pseudocode)."""

LAST_SHARE = 0.1
"""Of the rate, at the end of a cosine."""


@dataclass(frozen=True)
class Recipe:
    """How a step is made."""

    optimizer: str
    """`adamw` or `alphazero` (SGD with momentum 0.9)."""
    batch: int
    """Positions in a step (AlphaZero: 4096)."""
    lr: float
    """Learning rate before the schedule (AlphaZero: 0.2)."""
    weight_decay: float
    """As torch counts it. AlphaZero's c = 1e-4 on |theta|^2 is 2e-4 here, on all parameters; AdamW decays
    matrices and filters only."""
    warmup_steps: int
    """Steps over which the rate rises from 0: without it the first step of Adam can saturate the value
    head. 30 are three times the memory of Adam's mean (10 steps), after which its direction is settled;
    more gives nothing to a long run, as the gradient is clipped, and takes most of a short one: at 256
    positions a step and 2 samples a position a run of 10,000 positions makes 80 steps.
    (AlphaZero: none stated.)"""
    grad_clip: float
    """Largest norm of the gradient; 0: unlimited (AlphaZero: none)."""
    precision: str = "auto"
    """`auto`, `float32` or `bfloat16` (`TrainStep`)."""
    value_weight: float = 1.0
    """Of the value loss, beside 1 for the policy (AlphaZero: 1; 2 cost one chess run 231 Elo)."""
    value_q_share: float = 0.0
    """Of the root value in the value target, beside the outcome (AlphaZero: 0)."""
    win_discount: float = 1.0
    """Factor a ply to the end on how decided a decided game is in the value target (AlphaZero: 1)."""
    capped_value_weight: float = 1.0
    """Of a position in the value loss when the length ended its game (AlphaZero: 1)."""
    ema: float = 0.0
    """Decay a step of the average of the weights that plays; 0: the newest weights play (AlphaZero: 0)."""
    cosine_steps: int = 0
    """Steps over which the rate falls to a tenth along a cosine; 0: it does not (AlphaZero: in drops)."""
    moves_left_weight: float = 0.0
    """Of the moves-left loss (AlphaZero: no such head)."""
    soft_policy_weight: float = 0.0
    """Of the soft-policy loss (AlphaZero: no such head; KataGo: 8)."""
    policy_loss: str = "legal"
    """Softmax of the policy loss over `legal` or `all` actions (AlphaZero pseudocode: all)."""

    def rate(self, step: int) -> float:
        """Learning rate of step `step`, counted from 0."""
        rate = self.lr * min(1.0, (step + 1) / max(self.warmup_steps, 1))
        if self.optimizer == "alphazero":
            for first, factor in ALPHAZERO_DROPS:
                if step >= first:
                    rate = self.lr * factor
        if self.cosine_steps:
            done = min(step / self.cosine_steps, 1.0)
            rate *= LAST_SHARE + (1 - LAST_SHARE) * (1 + math.cos(math.pi * done)) / 2
        return rate


RECIPES = {
    "adamw": Recipe("adamw", batch=256, lr=1e-3, weight_decay=1e-2, warmup_steps=30, grad_clip=1.0),
    "alphazero": Recipe("alphazero", batch=4096, lr=0.2, weight_decay=2e-4, warmup_steps=0, grad_clip=0.0),
}


def make_optimizer(recipe: Recipe, network: nn.Module) -> torch.optim.Optimizer:
    """A new optimizer; the caller sets the rate before each step."""
    parameters = list(network.parameters())
    if recipe.optimizer == "alphazero":
        return torch.optim.SGD(parameters, lr=recipe.lr, momentum=0.9, weight_decay=recipe.weight_decay)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.lr)
