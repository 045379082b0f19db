"""The base class of all networks: a body from its family, and the heads that all share."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from games.spec import Game
from net.architectures.heads import PolicyHead, ValueHead, policy_head, training_head
from net.architectures.registry import build
from net.architectures.sizes import Architecture, BoardArchitecture


class Outputs(NamedTuple):
    """Outputs of all heads, for training."""

    policy: Tensor
    """[n, actions] logits; of a network that reads features, [entries] logits of the entries"""
    value: Tensor
    """[n, 3] logits or [n, 1] before tanh"""
    training: dict[str, Tensor]
    """Those of the heads for training only, by name: [n] numbers or [n, actions] logits."""


class Network(nn.Module):
    """What all networks share. A family defines `__init__(architecture, game, history)`."""

    reads_features: ClassVar[bool] = False
    """Whether its input is `net.architectures.sparse.Inputs`; otherwise planes."""
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
        """Planes `[n, planes, rows, cols]` to `[n, channels, rows, cols]`, which all heads read."""
        raise NotImplementedError

    def add_heads(self, game: Game, kernel: int) -> None:
        """Add the heads of the architecture. `kernel`: size of the convolution in a policy of planes."""
        architecture = self.architecture
        self.policy = policy_head(architecture, game, kernel)
        self.value = ValueHead(architecture, game.cells, 3 if architecture.value_head == "wdl" else 1)
        # Last, so that the other weights drawn from a seed are the same with and without these heads.
        for name in architecture.training_heads:
            self.add_module(name, training_head(name, architecture, game, kernel))

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
