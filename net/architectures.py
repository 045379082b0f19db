"""What a network looks like: its sizes, the named presets, and how one is built for a game.

The tower is that of AlphaZero (arXiv 1712.01815): a 3x3 convolution block, then residual blocks, then a
policy and a value head. Squeeze-and-excitation (arXiv 1709.01507, with scale and shift as in lc0) and the
win/draw/loss value head are later additions that pay for themselves at our sizes.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from games.spec import Game
from net.modules import Network
from protocol.net_names import MOST_BLOCKS, MOST_CHANNELS, parse

ValueHeadKind = Literal["wdl", "tanh"]

_LARGEST = {
    "blocks": MOST_BLOCKS,
    "channels": MOST_CHANNELS,
    "squeeze_channels": 2048,
    "flat_policy_channels": 256,
}
_LARGEST |= {"value_channels": 256, "value_hidden": 4096}

_TRAINING_HEADS = ("moves_left_head", "soft_policy_head")


@dataclass(frozen=True)
class Architecture:
    """Sizes of a network; everything else follows from the game and the history.

    ValueError says which field is out of range.
    """

    blocks: int
    """Residual blocks of two 3x3 convolutions after the first block. Paper: 19."""
    channels: int
    """Channels of the tower and of the convolutional policy head's hidden layer. Paper: 256."""
    squeeze_excitation: bool = False
    """Scale and shift the channels of each block by what is on the whole board. Paper: no."""
    squeeze_channels: int = 32
    """Hidden width of squeeze-and-excitation; without meaning when that is off. Paper: none."""
    flat_policy_channels: int = 2
    """1x1 channels before the fully connected policy of a game without policy planes. Paper: 2 (Go). 16 cost
    no time and make the bare policy of a small network better (bench/RESULTS.md, `bench.shapes`)."""
    value_channels: int = 1
    """Channels of the 1x1 convolution of the value head. Paper: 1."""
    value_hidden: int = 256
    """Width of the value head's hidden layer. Paper: 256."""
    value_head: ValueHeadKind = "tanh"
    """`wdl`: three logits (win, draw, loss for the side to move); `tanh`: one number. Paper: tanh."""
    moves_left_head: bool = False
    """A head of training only that says how long the game goes on (`trainer.auxiliary`). Paper: no."""
    soft_policy_head: bool = False
    """A head of training only for a softer policy (`trainer.auxiliary`). Paper: no."""

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= largest:
                raise ValueError(f"architecture: {name} must be a whole number in 1..{largest}, not {size!r}")
        for name in ("squeeze_excitation", *_TRAINING_HEADS):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"architecture: {name} must be true or false")
        if self.value_head not in get_args(ValueHeadKind):
            raise ValueError(f"architecture: value_head must be 'wdl' or 'tanh', not {self.value_head!r}")

    @property
    def played(self) -> Architecture:
        """What is left of it in play, without the heads of training."""
        return dataclasses.replace(self, moves_left_head=False, soft_policy_head=False)

    def to_json(self) -> str:
        """Heads of training are named only where there are some: older programs read the rest."""
        fields = dataclasses.asdict(self)
        for name in _TRAINING_HEADS:
            if not fields[name]:
                del fields[name]
        return json.dumps(fields, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Architecture:
        """The architecture that `to_json` wrote. ValueError says what is wrong with `text`."""
        fields: Any = json.loads(text)
        known = {field.name for field in dataclasses.fields(Architecture)}
        if not isinstance(fields, dict) or set(fields).union(_TRAINING_HEADS) != known:
            raise ValueError(f"architecture: expected exactly the fields {', '.join(sorted(known))}")
        return Architecture(**fields)


PRESETS: dict[str, Architecture] = {
    "tiny": Architecture(2, 32, flat_policy_channels=16, value_channels=4, value_hidden=64, value_head="wdl"),
    "small": Architecture(
        6,
        64,
        squeeze_excitation=True,
        flat_policy_channels=16,
        value_channels=8,
        value_hidden=128,
        value_head="wdl",
    ),
    "medium": Architecture(
        10, 128, squeeze_excitation=True, squeeze_channels=32, value_channels=16, value_head="wdl"
    ),
    "alphazero": Architecture(19, 256),
}
"""`tiny` for tests and small games, `small` for one CPU, `medium` for one GPU, `alphazero` the paper's."""


def named(name: str) -> Architecture:
    """The architecture of a preset, or of sizes such as `6x64se` (`protocol.net_names`). ValueError.

    What such a name leaves open is as in the preset with a win/draw/loss head of the most similar size.
    """
    sizes = parse(name)
    if sizes is None:
        return PRESETS[name]
    wanted = math.log(sizes.blocks * sizes.channels**2)
    nearest = min(
        (preset for preset in PRESETS.values() if preset.value_head == "wdl"),
        key=lambda preset: abs(math.log(preset.blocks * preset.channels**2) - wanted),
    )
    return dataclasses.replace(nearest, **dataclasses.asdict(sizes))


def name_of(architecture: Architecture) -> str:
    """The name that `named` makes this architecture of (as played); the nearest one if there is none."""
    architecture = architecture.played
    for name, preset in PRESETS.items():
        if preset == architecture:
            return name
    se = "se" if architecture.squeeze_excitation else ""
    tanh = "tanh" if architecture.value_head == "tanh" else ""
    return f"{architecture.blocks}x{architecture.channels}{se}{tanh}"


def build(architecture: Architecture, game: Game, history: int) -> Network:
    """An untrained network for `game` seen through `history` positions, drawn from torch's global seed.

    `forward(planes: float[n, planes, rows, cols])` gives `(policy_logits [n, actions], value_logits)`, the
    latter `[n, 3]` (win, draw, loss) or `[n, 1]` before tanh.
    """
    return Network(architecture, game, history)


def with_heads(network: Network, game: Game, history: int, *, moves_left: bool, soft_policy: bool) -> Network:
    """The network with just these heads of training: untrained where it had none, dropped if not wanted."""
    wanted = dataclasses.replace(
        network.architecture, moves_left_head=moves_left, soft_policy_head=soft_policy
    )
    if wanted == network.architecture:
        return network
    other = build(wanted, game, history)
    weights = other.state_dict()
    weights.update({name: tensor for name, tensor in network.state_dict().items() if name in weights})
    other.load_state_dict(weights)
    return other
