"""What networks of all families share: convolution with normalisation, policy heads and value heads.

The last layer of each head starts near 0, so an untrained net answers near uniform and near 0.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import Tensor, nn

from games.spec import Game
from net.architectures.sizes import TRAINING_HEADS, BoardArchitecture

NEAR_ZERO = 0.01
"""Standard deviation of the last weights of a head before training."""


class ConvNorm(nn.Module):
    """Convolution without bias that keeps the board's size, then batch normalisation.

    `net.folding` joins the two for play.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_in", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """`[n, inputs, rows, cols]` to `[n, outputs, rows, cols]`."""
        out: Tensor = self.norm(self.conv(x))
        return out


class PlanesPolicyHead(nn.Module):
    """A convolution, then 1x1 to one plane for each kind of move: `action = plane * cells + cell`.

    Actions beyond the planes (a pass) come from the mean over the board.
    """

    def __init__(self, channels: int, planes: int, others: int, kernel: int) -> None:
        super().__init__()
        self.hidden = ConvNorm(channels, channels, kernel)
        self.out = nn.Conv2d(channels, planes, 1)
        near_zero(self.out)
        self.others: nn.Linear | None = None
        if others:
            self.others = nn.Linear(channels, others)
            near_zero(self.others)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, channels, rows, cols]` to logits `[n, actions]`."""
        hidden = torch.relu(self.hidden(x))
        logits: Tensor = self.out(hidden).flatten(1)
        if self.others is None:
            return logits
        return torch.cat([logits, self.others(hidden.mean(dim=(2, 3)))], dim=1)


class FlatPolicyHead(nn.Module):
    """A 1x1 convolution, then fully connected: for games whose moves do not form planes."""

    def __init__(self, channels: int, narrow: int, cells: int, actions: int) -> None:
        super().__init__()
        self.hidden = ConvNorm(channels, narrow, 1)
        self.out = nn.Linear(narrow * cells, actions)
        near_zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, channels, rows, cols]` to logits `[n, actions]`."""
        out: Tensor = self.out(torch.relu(self.hidden(x)).flatten(1))
        return out


PolicyHead = PlanesPolicyHead | FlatPolicyHead


def policy_head(architecture: BoardArchitecture, game: Game, kernel: int) -> PolicyHead:
    """The policy head that suits the game. `kernel`: size of the planes' hidden layer, 3 or 1."""
    channels = architecture.channels
    if game.policy_planes is not None:
        return PlanesPolicyHead(channels, game.policy_planes, game.extra_actions, kernel)
    return FlatPolicyHead(channels, architecture.flat_policy_channels, game.cells, game.actions)


class ValueHead(nn.Module):
    """A 1x1 convolution, a hidden layer, then win/draw/loss logits or one number before tanh."""

    def __init__(self, architecture: BoardArchitecture, cells: int, outputs: int) -> None:
        super().__init__()
        self.narrow = ConvNorm(architecture.channels, architecture.value_channels, 1)
        self.hidden = nn.Linear(architecture.value_channels * cells, architecture.value_hidden)
        self.out = nn.Linear(architecture.value_hidden, outputs)
        near_zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, channels, rows, cols]` to `[n, outputs]`, the last layer in float32 in any network."""
        flat = torch.relu(self.narrow(x)).flatten(1)
        wide = torch.relu(self.hidden(flat)).float()
        return F.linear(wide, self.out.weight.float(), self.out.bias.float())


class NumberHead(ValueHead):
    """A value head with one output: a number for each position."""

    def __init__(self, architecture: BoardArchitecture, cells: int) -> None:
        super().__init__(architecture, cells, 1)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, channels, rows, cols]` to `[n]` in float32."""
        return super().forward(x)[:, 0]


def training_head(name: str, architecture: BoardArchitecture, game: Game, kernel: int) -> nn.Module:
    """The module of a head for training only, one of `TRAINING_HEADS`. `kernel`: as in `policy_head`."""
    if TRAINING_HEADS[name] == "number":
        return NumberHead(architecture, game.cells)
    return policy_head(architecture, game, kernel)


def wdl_of(value_logits: Tensor) -> Tensor:
    """Win, draw, loss `float32[n, 3]` of value logits `[n, 3]`, or of `[n, 1]` before tanh."""
    if value_logits.shape[1] == 3:
        return value_logits.float().softmax(dim=1)
    value = torch.tanh(value_logits[:, 0].float())
    return torch.stack([(1 + value) / 2, torch.zeros_like(value), (1 - value) / 2], dim=1)


def near_zero(layer: nn.Conv2d | nn.Linear) -> None:
    """Initialise a head's last layer so that its outputs are near 0."""
    nn.init.normal_(layer.weight, std=NEAR_ZERO)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
