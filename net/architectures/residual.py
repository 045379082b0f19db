"""The residual tower of AlphaZero (arXiv 1712.01815): a 3x3 convolution, then blocks of two such
convolutions.

Squeeze-and-excitation (arXiv 1709.01507, with scale and shift as in lc0) and the win/draw/loss value head are
later additions that pay off at our sizes. The last normalisation of each block starts at scale 0, so an
untrained tower passes its input through.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from msgspec import Meta
from torch import Tensor, nn

from azselfplay.games.spec import Game
from net.architectures.network import NEAR_ZERO, BoardNetwork, ConvNorm
from net.architectures.registry import BoardArchitecture, Family


@dataclass(frozen=True)
class Residual(BoardArchitecture):
    """Sizes of a residual tower; a block is two 3x3 convolutions."""

    family: ClassVar[str] = "residual"

    squeeze_excitation: bool = False
    """Scale and shift the channels of each block by means over the whole board. Paper: no."""
    squeeze_channels: Annotated[int, Meta(ge=1, le=2048)] = 32
    """Hidden width of squeeze-and-excitation; unused when that is off. Paper: none."""

    @property
    def name(self) -> str:
        se = "se" if self.squeeze_excitation else ""
        tanh = "tanh" if self.value_head == "tanh" else ""
        return f"{self.blocks}x{self.channels}{se}{tanh}"


class SqueezeExcitation(nn.Module):
    """Scale and shift each channel by the mean of all channels over the board; starts as (almost) x / 2."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, 2 * channels)
        nn.init.normal_(self.excite.weight, std=NEAR_ZERO)
        nn.init.zeros_(self.excite.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[n, channels, rows, cols]`, the shape of `x`."""
        hidden = torch.relu(self.squeeze(x.mean(dim=(2, 3))))
        scale, shift = self.excite(hidden)[:, :, None, None].chunk(2, dim=1)
        out: Tensor = x * torch.sigmoid(scale) + shift
        return out


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions added to their input."""

    def __init__(self, architecture: Residual) -> None:
        super().__init__()
        channels = architecture.channels
        self.first = ConvNorm(channels, channels, 3)
        self.second = ConvNorm(channels, channels, 3)
        # An untrained block passes its input through, so a deep tower begins like a shallow one.
        nn.init.zeros_(self.second.norm.weight)
        self.se: SqueezeExcitation | None = None
        if architecture.squeeze_excitation:
            self.se = SqueezeExcitation(channels, architecture.squeeze_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[n, channels, rows, cols]`, the shape of `x`."""
        hidden = self.first.relu(x)
        if self.se is None:
            return self.second.add_relu(hidden, x)
        return torch.relu(self.se(self.second(hidden)) + x)


class ResidualNetwork(BoardNetwork):
    """The tower and its heads."""

    def __init__(self, architecture: Residual, game: Game, history: int) -> None:
        super().__init__(architecture)
        self.start = ConvNorm(game.planes(history), architecture.channels, 3)
        self.blocks = nn.ModuleList([ResidualBlock(architecture) for _ in range(architecture.blocks)])
        self.add_heads(game, kernel=3)

    def body(self, planes: Tensor) -> Tensor:
        """`[n, planes, rows, cols]` to `[n, channels, rows, cols]`."""
        x = self.start.relu(planes)
        for block in self.blocks:
            x = block(x)
        return x


PRESETS = {
    "tiny": Residual(2, 32, flat_policy_channels=16, value_channels=4, value_hidden=64, value_head="wdl"),
    "small": Residual(
        6, 64, True, flat_policy_channels=16, value_channels=8, value_hidden=128, value_head="wdl"
    ),
    "medium": Residual(10, 128, True, value_channels=16, value_head="wdl"),
    "alphazero": Residual(19, 256),
}
"""`tiny` for tests and small games, `small` for one CPU, `medium` for one GPU, `alphazero` as in the
paper."""


def of_sizes(found: Mapping[str, str | None]) -> Residual:
    """Return the architecture of a name such as `6x64se`; other fields are as in the preset with `wdl` that
    is nearest in size."""
    blocks, channels = int(found["blocks"] or 0), int(found["channels"] or 0)
    # Compare the approximate numbers of weights, on a logarithmic scale.
    wanted = math.log(blocks * channels**2)
    nearest = min(
        (preset for preset in PRESETS.values() if preset.value_head == "wdl"),
        key=lambda preset: abs(math.log(preset.blocks * preset.channels**2) - wanted),
    )
    return dataclasses.replace(
        nearest,
        blocks=blocks,
        channels=channels,
        squeeze_excitation=found["se"] is not None,
        value_head="wdl" if found["tanh"] is None else "tanh",
    )


FAMILY = Family(Residual, ResidualNetwork, PRESETS, of_sizes)
