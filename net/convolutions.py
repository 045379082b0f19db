"""What the two ways to compute a 3x3 convolution on a CPU share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Affine:
    """Weights and bias of a convolution `[out, in, k, k]` or of a linear layer `[out, in]`, float32."""

    weight: Tensor
    bias: Tensor

    @staticmethod
    def of(layer: nn.Conv2d | nn.Linear) -> Affine:
        """Weights and bias of a layer of a folded network. Raises ValueError if it has no bias, because then
        it was not folded."""
        if layer.bias is None:
            raise ValueError("a layer of a folded network has a bias")
        return Affine(layer.weight.detach(), layer.bias.detach())


@dataclass(frozen=True)
class ConvShape:
    """A 3x3 convolution from `channels` to `channels` on boards of `rows` x `cols`, at most `boards` of
    them."""

    dtype: torch.dtype
    channels: int
    rows: int
    cols: int
    boards: int
