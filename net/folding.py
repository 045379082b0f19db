"""A trained network made ready for play: batch normalisation folded into the convolutions.

In eval mode batch normalisation is a fixed scale and shift of each channel, so it joins the weights and a
bias of the convolution before it. The result is plain tensors, from which each engine makes what it likes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from net.architectures import Architecture
from net.modules import ConvNorm, Network, PlanesPolicyHead, ResidualBlock


@dataclass(frozen=True)
class Affine:
    """Weights and bias of a convolution `[out, in, k, k]` or of a linear layer `[out, in]`, float32."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class FoldedBlock:
    first: Affine
    second: Affine
    squeeze: Affine | None
    excite: Affine | None


@dataclass(frozen=True)
class FoldedNetwork:
    architecture: Architecture
    start: Affine
    blocks: tuple[FoldedBlock, ...]
    policy_hidden: Affine
    policy_out: Affine
    """1x1 convolution to policy planes, or linear layer to actions when `flat_policy`."""
    flat_policy: bool
    value_narrow: Affine
    value_hidden: Affine
    value_out: Affine

    def affines(self) -> list[Affine]:
        """All layers, in a fixed order."""
        found = [self.start]
        for block in self.blocks:
            found += [
                part for part in (block.first, block.second, block.squeeze, block.excite) if part is not None
            ]
        heads = [self.policy_hidden, self.policy_out, self.value_narrow, self.value_hidden, self.value_out]
        return found + heads


@torch.no_grad()
def fold(network: Network) -> FoldedNetwork:
    """The folded copy of `network`, float32 on the CPU, without its heads of training."""
    policy, value = network.policy, network.value
    return FoldedNetwork(
        architecture=network.architecture.played,
        start=_fold_norm(network.start),
        blocks=tuple(_fold_block(block) for block in network.blocks if isinstance(block, ResidualBlock)),
        policy_hidden=_fold_norm(policy.hidden),
        policy_out=_copy(policy.out),
        flat_policy=not isinstance(policy, PlanesPolicyHead),
        value_narrow=_fold_norm(value.narrow),
        value_hidden=_copy(value.hidden),
        value_out=_copy(value.out),
    )


def _fold_block(block: ResidualBlock) -> FoldedBlock:
    return FoldedBlock(
        first=_fold_norm(block.first),
        second=_fold_norm(block.second),
        squeeze=None if block.se is None else _copy(block.se.squeeze),
        excite=None if block.se is None else _copy(block.se.excite),
    )


def _fold_norm(layer: ConvNorm) -> Affine:
    norm = layer.norm
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("a batch normalisation without running statistics cannot be folded")
    scale = (norm.weight / torch.sqrt(norm.running_var + norm.eps)).double()
    weight = layer.conv.weight.double() * scale[:, None, None, None]
    bias = norm.bias.double() - norm.running_mean.double() * scale
    return Affine(weight.float().cpu(), bias.float().cpu())


def _copy(layer: nn.Conv2d | nn.Linear) -> Affine:
    if layer.bias is None:
        raise ValueError("a head's last layer has a bias")
    return Affine(layer.weight.detach().float().cpu().clone(), layer.bias.detach().float().cpu().clone())
