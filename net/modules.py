"""The layers of the residual tower and its heads, as plain torch modules for training.

Every convolution of the tower has no bias and a batch normalisation; `net.folding` joins the two for play.
The last normalisation of each block starts at scale 0, so an untrained tower passes its input on, and the
last layer of each head starts near 0, so an untrained net answers near uniform and near 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from games.spec import Game

if TYPE_CHECKING:
    from net.architectures import Architecture

HEAD_SCALE = 0.01
"""Standard deviation of the last weights of a head before training."""


class ConvNorm(nn.Module):
    """Convolution without bias that keeps the board's size, then batch normalisation."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_in", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(x))
        return out


class SqueezeExcitation(nn.Module):
    """Scale and shift each channel by the mean of all channels over the board; starts as (almost) x / 2."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, 2 * channels)
        nn.init.normal_(self.excite.weight, std=HEAD_SCALE)
        nn.init.zeros_(self.excite.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.squeeze(x.mean(dim=(2, 3))))
        scale, shift = self.excite(hidden)[:, :, None, None].chunk(2, dim=1)
        out: Tensor = x * torch.sigmoid(scale) + shift
        return out


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions added to their input."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        channels = architecture.channels
        self.first = ConvNorm(channels, channels, 3)
        self.second = ConvNorm(channels, channels, 3)
        nn.init.zeros_(self.second.norm.weight)
        self.se: SqueezeExcitation | None = None
        if architecture.squeeze_excitation:
            self.se = SqueezeExcitation(channels, architecture.squeeze_channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(torch.relu(self.first(x)))
        if self.se is not None:
            out = self.se(out)
        return torch.relu(out + x)


class PlanesPolicyHead(nn.Module):
    """A 3x3 convolution, then 1x1 to one plane for each kind of move: `action = plane * cells + cell`."""

    def __init__(self, channels: int, planes: int) -> None:
        super().__init__()
        self.hidden = ConvNorm(channels, channels, 3)
        self.out = nn.Conv2d(channels, planes, 1)
        _near_zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(torch.relu(self.hidden(x)))
        return out.flatten(1)


class FlatPolicyHead(nn.Module):
    """A 1x1 convolution, then fully connected: for games whose moves are no planes."""

    def __init__(self, channels: int, narrow: int, cells: int, actions: int) -> None:
        super().__init__()
        self.hidden = ConvNorm(channels, narrow, 1)
        self.out = nn.Linear(narrow * cells, actions)
        _near_zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(torch.relu(self.hidden(x)).flatten(1))
        return out


class ValueHead(nn.Module):
    """A 1x1 convolution, a hidden layer, then win/draw/loss logits or one number before tanh.

    With one output it also serves to say how many moves are left.
    """

    def __init__(self, architecture: Architecture, cells: int, outputs: int) -> None:
        super().__init__()
        self.narrow = ConvNorm(architecture.channels, architecture.value_channels, 1)
        self.hidden = nn.Linear(architecture.value_channels * cells, architecture.value_hidden)
        self.out = nn.Linear(architecture.value_hidden, outputs)
        _near_zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.relu(self.narrow(x)).flatten(1)
        out: Tensor = self.out(torch.relu(self.hidden(flat)))
        return out


class Outputs(NamedTuple):
    """Of all heads, for training."""

    policy: Tensor
    """[n, actions] logits"""
    value: Tensor
    """[n, 3] logits or [n, 1] before tanh"""
    moves_left: Tensor | None
    """[n] in units of 20 plies (`trainer.auxiliary`); None without that head."""
    soft_policy: Tensor | None
    """[n, actions] logits; None without that head."""


class Network(nn.Module):
    """The whole network; see `net.architectures.build`."""

    def __init__(self, architecture: Architecture, game: Game, history: int) -> None:
        super().__init__()
        channels = architecture.channels
        self.architecture = architecture
        self.start = ConvNorm(game.planes(history), channels, 3)
        self.blocks = nn.ModuleList([ResidualBlock(architecture) for _ in range(architecture.blocks)])
        self.policy = _policy_head(architecture, game)
        self.value = ValueHead(architecture, game.cells, 3 if architecture.value_head == "wdl" else 1)
        # Last, so that the other weights drawn from a seed are the same with and without them.
        self.moves_left: ValueHead | None = None
        if architecture.moves_left_head:
            self.moves_left = ValueHead(architecture, game.cells, 1)
        self.soft_policy: PlanesPolicyHead | FlatPolicyHead | None = None
        if architecture.soft_policy_head:
            self.soft_policy = _policy_head(architecture, game)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Policy and value, as in play."""
        x = self._tower(planes)
        return self.policy(x), self.value(x)

    def all_heads(self, planes: Tensor) -> Outputs:
        """As in training."""
        x = self._tower(planes)
        moves_left = None if self.moves_left is None else self.moves_left(x)[:, 0]
        soft_policy = None if self.soft_policy is None else self.soft_policy(x)
        return Outputs(self.policy(x), self.value(x), moves_left, soft_policy)

    def _tower(self, planes: Tensor) -> Tensor:
        x = torch.relu(self.start(planes))
        for block in self.blocks:
            x = block(x)
        return x


def _policy_head(architecture: Architecture, game: Game) -> PlanesPolicyHead | FlatPolicyHead:
    channels, narrow = architecture.channels, architecture.flat_policy_channels
    if game.policy_planes is not None:
        return PlanesPolicyHead(channels, game.policy_planes)
    return FlatPolicyHead(channels, narrow, game.cells, game.actions)


def _near_zero(layer: nn.Conv2d | nn.Linear) -> None:
    nn.init.normal_(layer.weight, std=HEAD_SCALE)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
