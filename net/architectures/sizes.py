"""The sizes of a network, without torch: what all families share, and what those on boards of cells share."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from net.architectures.registry import FIRST_FAMILY, MOST_BLOCKS, MOST_CHANNELS

if TYPE_CHECKING:
    from games.spec import Game
    from net.architectures.network import Network

ValueHeadKind = Literal["wdl", "tanh"]

TRAINING_HEADS = {"moves_left": "number", "soft_policy": "policy", "reply": "policy"}
"""Heads that only training uses (`trainer.loss`), in the order in which they are made, and what the module
of each gives (`net.architectures.heads.training_head`)."""


@dataclass(frozen=True)
class Architecture:
    """Sizes of a network; everything else follows from the game and the history.

    Each family has fields of its own. Raises ValueError saying which field is out of range.
    """

    family: ClassVar[str]
    """Name of the family in the registry."""
    largest: ClassVar[dict[str, int]] = {}
    """Upper bound of each field that counts something; the lower bound is 1."""

    def __post_init__(self) -> None:
        for name, largest in self.largest.items():
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= largest:
                raise ValueError(f"architecture: {name} must be a whole number in 1..{largest}, not {size!r}")
        for one in dataclasses.fields(self):
            wanted = {"bool": bool, "str": str}.get(str(one.type))
            if wanted is not None and not isinstance(getattr(self, one.name), wanted):
                what = "true or false" if wanted is bool else "text"
                raise ValueError(f"architecture: {one.name} must be {what}")

    @property
    def played(self) -> Self:
        """The architecture as it plays, without the training heads."""
        return self

    def with_heads(self, heads: Collection[str]) -> Self:
        """The architecture with exactly these training heads, of `TRAINING_HEADS`. Raises ValueError where
        the family has none."""
        if heads:
            raise ValueError(f"networks of the family {self.family} have no heads for training only: {heads}")
        return self

    @property
    def name(self) -> str:
        """Its sizes, in the form that the registry's pattern reads."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The architecture as JSON. The first family and absent training heads are left out, so that older
        programs can read the rest."""
        fields = dataclasses.asdict(self)
        if not fields.get("training_heads", True):
            del fields["training_heads"]
        if self.family != FIRST_FAMILY:
            fields["family"] = self.family
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """The architecture with exactly these fields. Raises ValueError if fields are unknown, missing or out
        of range."""
        known = {one.name for one in dataclasses.fields(cls)}
        if set(fields) | known & {"training_heads"} != known:
            raise ValueError(f"architecture: expected exactly the fields {', '.join(sorted(known))}")
        plain = cls(**{name: value for name, value in fields.items() if name != "training_heads"})
        heads = fields.get("training_heads", ())
        if not isinstance(heads, list | tuple) or not all(name in TRAINING_HEADS for name in heads):
            raise ValueError(
                f"architecture: training_heads must be a list of some of {', '.join(TRAINING_HEADS)}"
            )
        return plain.with_heads(heads)


@dataclass(frozen=True)
class BoardArchitecture(Architecture):
    """Sizes of a network whose body keeps the shape of the board."""

    largest: ClassVar[dict[str, int]] = {
        "blocks": MOST_BLOCKS,
        "channels": MOST_CHANNELS,
        "flat_policy_channels": 256,
        "value_channels": 256,
        "value_hidden": 4096,
    }

    blocks: int
    """Blocks of the same shape. Paper: 19."""
    channels: int
    """Numbers for each cell between blocks. Paper: 256."""
    flat_policy_channels: int = field(default=2, kw_only=True)
    """1x1 channels before the fully connected policy of a game without policy planes. Paper: 2 (Go). 16 take
    no more time and improve the bare policy of a small network (bench/RESULTS.md, `bench.shapes`)."""
    value_channels: int = field(default=1, kw_only=True)
    """Channels of the 1x1 convolution of the value head. Paper: 1."""
    value_hidden: int = field(default=256, kw_only=True)
    """Width of the value head's hidden layer. Paper: 256."""
    value_head: ValueHeadKind = field(default="tanh", kw_only=True)
    """`wdl`: three logits (win, draw, loss for the side to move); `tanh`: one number. Paper: tanh."""
    training_heads: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of heads for training only, in the order of `TRAINING_HEADS`. Paper: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_head not in get_args(ValueHeadKind):
            raise ValueError(f"architecture: value_head must be 'wdl' or 'tanh', not {self.value_head!r}")

    @property
    def played(self) -> Self:
        return self.with_heads(())

    def with_heads(self, heads: Collection[str]) -> Self:
        return dataclasses.replace(self, training_heads=tuple(one for one in TRAINING_HEADS if one in heads))


@dataclass(frozen=True)
class Family:
    """What the registry needs of a family."""

    architecture: type[Architecture]
    network: Callable[[Any, Game, int], Network]
    """Builds a network of an architecture, for a game and a history."""
    presets: Mapping[str, Architecture]
    of_sizes: Callable[[Mapping[str, str | None]], Architecture]
    """Makes an architecture from what the registry's pattern found in a name."""
