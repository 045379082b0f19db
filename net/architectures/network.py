"""The base class of all networks: a body from its family, and the heads that all share."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from games.spec import Game
from net.architectures.heads import BoardHead, PolicyHead, ValueHead, policy_head
from net.architectures.registry import build
from net.architectures.sizes import TRAINING_HEADS, Architecture, BoardArchitecture


class Outputs(NamedTuple):
    """Outputs of all heads, for training."""

    policy: Tensor
    """[n, actions] logits; of a network that reads features, [entries] logits of the entries"""
    value: Tensor
    """[n, 3] logits or [n, 1] before tanh"""
    moves_left: Tensor | None = None
    """[n] in units of 20 plies (`trainer.auxiliary`); None without that head."""
    soft_policy: Tensor | None = None
    """[n, actions] logits; None without that head."""
    reply: Tensor | None = None
    """[n, actions] logits; None without that head."""
    action_value: Tensor | None = None
    """[n, actions] values for the side to move, before tanh; None without that head."""
    future_board: Tensor | None = None
    """[n, binary planes, rows, cols] logits of a later position's planes; None without that head."""


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
    moves_left: ValueHead | None
    soft_policy: PolicyHead | None
    reply: PolicyHead | None
    action_value: PolicyHead | None
    future_board: BoardHead | None

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
        self.moves_left = ValueHead(architecture, game.cells, 1) if architecture.moves_left_head else None
        self.soft_policy = policy_head(architecture, game, kernel) if architecture.soft_policy_head else None
        self.reply = policy_head(architecture, game, kernel) if architecture.reply_head else None
        self.action_value = (
            policy_head(architecture, game, kernel) if architecture.action_value_head else None
        )
        has_board = architecture.future_board_head
        self.future_board = BoardHead(architecture.channels, game) if has_board else None

    def drop_training_heads(self) -> None:
        """Remove the heads that only training uses; what remains is the network as it plays."""
        self.architecture = self.architecture.played
        for name in TRAINING_HEADS:
            setattr(self, name, None)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs for play: policy `[n, actions]` and value logits `[n, 3 or 1]` of `planes [n,
        planes, rows, cols]`."""
        x = self.body(planes)
        return self.policy(x), self.value(x)

    def all_heads(self, planes: Tensor) -> Outputs:
        """Return the outputs for training; `planes [n, planes, rows, cols]`."""
        x = self.body(planes)
        moves_left = None if self.moves_left is None else self.moves_left(x)[:, 0]
        soft_policy = None if self.soft_policy is None else self.soft_policy(x)
        reply = None if self.reply is None else self.reply(x)
        action_value = None if self.action_value is None else self.action_value(x)
        board = None if self.future_board is None else self.future_board(x)
        return Outputs(self.policy(x), self.value(x), moves_left, soft_policy, reply, action_value, board)


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
