"""Heads that only training uses: they predict more about positions that are in the window anyway, so the body
learns more from each. Search does not use them, and weights are published without them.

Each head is one module here, called as the head is, that ends with `HEAD = Head(...)`: its targets and its
loss. Its line in `net.architectures.registry.TRAINING_HEADS` says which torch module it gets; `loss.heads`
sets its weight. Samples, outputs, losses and figures are keyed by its name, so nothing else has to know of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from trainer.config import LossSettings
from trainer.loss import Targets
from trainer.window import Window


class Batch(NamedTuple):
    """What a head may learn from: `n` samples, on the network's device."""

    targets: Targets
    """Those of policy and value."""
    plies_left: Tensor
    """int32[n] plies to the end of the game."""
    capped: Tensor
    """uint8[n] 1 where `plies_left` is not learned: in games that ended at the length limit, and where only
    the policy is learned."""
    own: Any
    """What `Head.targets` made, with tensors for arrays."""
    settings: LossSettings


@dataclass(frozen=True)
class Head:
    """How a head is trained. `loss`: of its outputs, the mean over the batch."""

    loss: Callable[[Tensor, Batch], Tensor]
    targets: Callable[[Window, npt.NDArray[np.int64], npt.NDArray[np.int64]], Any] | None = None
    """Makes a NamedTuple for the positions `numbers [n]` of the window, given where the symmetry of each
    sample moves each action, [n, actions]. None: what `Batch` has is enough."""


def trained_heads(settings: LossSettings) -> Mapping[str, Head]:
    """Return the heads with a weight, by name."""
    return {name: import_module(f"trainer.heads.{name}").HEAD for name in settings.head_weights}
