"""The torch module of every network: a body from its family, and the heads that all families share.

`build` makes an untrained network of an architecture, drawn with torch's seed. Training reads `all_heads`.
Play runs a copy made by `fold`, without the heads that only training uses. In play a batch normalisation is a
fixed scale and shift of each channel, so `fold` merges it into the convolution before it.

The last layer of each head starts near 0, so an untrained net answers near uniform and near 0.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection
from contextlib import nullcontext
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from azselfplay.games.spec import Game
from net.architectures.registry import Architecture, BoardArchitecture, family_named

NEAR_ZERO = 0.01
"""Standard deviation of the last weights of a head before training."""


class Outputs(NamedTuple):
    """Outputs of all heads, for training."""

    policy: Tensor
    """[n, actions] logits; of a network that reads features, [entries] logits of the entries"""
    value: Tensor
    """[n, 3] logits or [n, 1] before tanh"""
    training: dict[str, Tensor]
    """Outputs of the auxiliary heads, by name: [n, cells] logits."""


class Network(nn.Module):
    """What all networks share. A family defines `__init__(architecture, game, history)`."""

    reads_features: ClassVar[bool] = False
    """Whether its input is `net.architectures.sparse.Inputs`; otherwise it is planes."""
    architecture: Architecture

    def drop_training_heads(self) -> None:
        """Remove the heads that only training uses; what remains is the network as it plays."""

    def all_heads(self, inputs: Tensor) -> Outputs:
        """Return the outputs for training."""
        raise NotImplementedError


class BoardNetwork(Network):
    """A network of planes. A family defines `__init__`, which ends with `add_heads`, and `body`."""

    architecture: BoardArchitecture
    policy: PolicyHead
    value: ValueHead

    def __init__(self, architecture: BoardArchitecture) -> None:
        super().__init__()
        self.architecture = architecture

    def body(self, planes: Tensor) -> Tensor:
        """Turn planes `[n, planes, rows, cols]` into `[n, channels, rows, cols]`, which all heads read."""
        raise NotImplementedError

    def add_heads(self, game: Game, kernel: int) -> None:
        """Add the heads of the architecture. `kernel`: size of the convolution in a policy of planes."""
        architecture = self.architecture
        self.policy = policy_head(architecture, game, kernel)
        self.value = ValueHead(architecture, game.cells, 3 if architecture.value_head == "wdl" else 1)
        # Made last, so that a seed gives the other weights the same values with and without these heads.
        for name in architecture.training_heads:
            # A logit for each cell; a head with other outputs has its own module here.
            self.add_module(name, PlanesPolicyHead(architecture.channels, 1, 0, kernel))

    def drop_training_heads(self) -> None:
        """Remove the heads that only training uses; what remains is the network as it plays."""
        for name in self.architecture.training_heads:
            delattr(self, name)
        self.architecture = self.architecture.played

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs for play: policy `[n, actions]` and value logits `[n, 3 or 1]` of `planes [n,
        planes, rows, cols]`."""
        x = self.body(planes)
        return self.policy(x), self.value(x)

    def all_heads(self, planes: Tensor) -> Outputs:
        """Return the outputs for training; `planes [n, planes, rows, cols]`."""
        x = self.body(planes)
        training = {name: self.get_submodule(name)(x) for name in self.architecture.training_heads}
        return Outputs(self.policy(x), self.value(x), training)


# ---- From an architecture to a network, and from training to play -----------------------------------


def build(architecture: Architecture, game: Game, history: int) -> Network:
    """Return an untrained network for `game` with `history` positions as input, drawn with torch's global
    seed.

    `forward(planes: float[n, planes, rows, cols])` returns `(policy_logits [n, actions], value_logits)`, the
    latter `[n, 3]` (win, draw, loss) or `[n, 1]` before tanh.
    """
    network: Network = family_named(architecture.family).network(architecture, game, history)
    return network


def with_heads(network: Network, game: Game, history: int, heads: Collection[str]) -> Network:
    """Return the network with exactly these training heads: untrained where it had none, removed if not
    wanted."""
    wanted = network.architecture.with_heads(heads)
    if wanted == network.architecture:
        return network
    other = build(wanted, game, history)
    weights = other.state_dict()
    weights.update({name: tensor for name, tensor in network.state_dict().items() if name in weights})
    other.load_state_dict(weights)
    return other


@torch.no_grad()
def fold(network: Network) -> Network:
    """Return a copy for play: in eval mode, float32, on the CPU, without training heads, normalisation
    folded.

    In every module, a normalisation that follows a convolution is assumed to apply to that convolution's
    output.
    """
    # In float64, because scaling and dividing by a variance lose digits in float32.
    folded = copy.deepcopy(network).cpu().double().eval()
    folded.drop_training_heads()
    for module in list(folded.modules()):
        for (conv_name, conv), (norm_name, norm) in itertools.pairwise(module.named_children()):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                setattr(module, norm_name, nn.Identity())
    return folded.float().requires_grad_(False)


def placed(network: Network, device: str, dtype: torch.dtype) -> Network:
    """Return a copy of a folded network on a device, in a number format and channels-last layout."""
    copied: Network = copy.deepcopy(network).to(device, dtype)
    return copied.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


# ---- What bodies and heads are made of --------------------------------------------------------------


class ConvNorm(nn.Module):
    """Convolution without bias that keeps the board's size, then batch normalisation.

    `fold` joins the two for play, with a bias. ReLU is also done here, because cuDNN has one kernel for
    convolution, bias, addition and ReLU, where torch starts four (`with_cudnn`).
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

    def relu(self, x: Tensor) -> Tensor:
        """Return `relu(self(x))`."""
        return torch.relu(self(x))

    def add_relu(self, x: Tensor, other: Tensor) -> Tensor:
        """Return `relu(self(x) + other)`; `other [n, outputs, rows, cols]`."""
        return torch.relu(self(x) + other)


class CudnnConvNorm(ConvNorm):
    """A folded `ConvNorm` that runs addition and ReLU in cuDNN's convolution kernel."""

    def relu(self, x: Tensor) -> Tensor:
        conv = self.conv
        out: Tensor = conv_relu(x, conv.weight, conv.bias, conv.padding[0])
        return out

    def add_relu(self, x: Tensor, other: Tensor) -> Tensor:
        conv = self.conv
        out: Tensor = conv_add_relu(x, conv.weight, conv.bias, other, conv.padding[0])
        return out


# Operators of our own around cuDNN's, because torch.compile cannot trace cuDNN's: it does not know the shapes
# that they return.


@torch.library.custom_op("azselfplay::conv_relu", mutates_args=())
def conv_relu(x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    """Return `relu(conv(x))` for `x [n, inputs, rows, cols]` in channels-last layout; on CUDA only."""
    ones, pads = (1, 1), (padding, padding)
    out: Tensor = torch.ops.aten.cudnn_convolution_relu(x, weight, bias, ones, pads, ones, 1)
    return out


@torch.library.custom_op("azselfplay::conv_add_relu", mutates_args=())
def conv_add_relu(x: Tensor, weight: Tensor, bias: Tensor, other: Tensor, padding: int) -> Tensor:
    """Return `relu(conv(x) + other)`; `other [n, outputs, rows, cols]`, all as in `conv_relu`."""
    ones, pads = (1, 1), (padding, padding)
    out: Tensor = torch.ops.aten.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, ones, pads, ones, 1)
    return out


@conv_relu.register_fake
def _(x: Tensor, weight: Tensor, _bias: Tensor, _padding: int) -> Tensor:
    sizes = x.shape[0], weight.shape[0], *x.shape[2:]
    return torch.empty(sizes, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


@conv_add_relu.register_fake
def _(_x: Tensor, _weight: Tensor, _bias: Tensor, other: Tensor, _padding: int) -> Tensor:
    return torch.empty_like(other, memory_format=torch.channels_last)


def with_cudnn(network: Network) -> Network:
    """Return the network, which must be folded, changed to cuDNN's fused convolutions. It then runs on CUDA
    only."""
    for module in network.modules():
        if type(module) is ConvNorm:
            assert isinstance(module.norm, nn.Identity), "only a folded network"
            module.__class__ = CudnnConvNorm
    return network


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
        hidden = self.hidden.relu(x)
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
        out: Tensor = self.out(self.hidden.relu(x).flatten(1))
        return out


PolicyHead = PlanesPolicyHead | FlatPolicyHead


def policy_head(architecture: BoardArchitecture, game: Game, kernel: int) -> PolicyHead:
    """Return the policy head that suits the game. `kernel`: size of the planes' hidden layer, 3 or 1."""
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
        """`[n, channels, rows, cols]` to `[n, outputs]`; the last layer is always computed in float32."""
        flat = self.narrow.relu(x).flatten(1)
        wide = torch.relu(self.hidden(flat)).float()
        kind = x.device.type
        # In training, autocast would round again. In play there is none, to be compiled or exported; the type
        # `meta` knows none.
        is_on = kind != "meta" and torch.is_autocast_enabled(kind)
        off = torch.autocast(kind, enabled=False) if is_on else nullcontext()
        with off:
            return F.linear(wide, self.out.weight.float(), self.out.bias.float())


def wdl_of(value_logits: Tensor) -> Tensor:
    """Return win, draw, loss `float32[n, 3]` of value logits `[n, 3]`, or of `[n, 1]` before tanh."""
    if value_logits.shape[1] == 3:
        return value_logits.float().softmax(dim=1)
    value = torch.tanh(value_logits[:, 0].float())
    return torch.stack([(1 + value) / 2, torch.zeros_like(value), (1 - value) / 2], dim=1)


def near_zero(layer: nn.Conv2d | nn.Linear) -> None:
    """Initialise a head's last layer so that its outputs are near 0."""
    nn.init.normal_(layer.weight, std=NEAR_ZERO)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
