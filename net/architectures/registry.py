"""The families of networks by name, and the sizes of each network. No torch here.

A name on a command line is a preset (`small`) or sizes (`6x64se`). `named` turns it into an `Architecture`,
the frozen dataclass that weights files carry as JSON; `net.architectures.network.build` turns that into the
torch module. Every command that checks a name imports this file. So a family's module, which imports torch,
is imported only when one of its networks is needed.

A new network is one file beside this one, with a dataclass for its sizes, a torch module and a `Family`, and
one `Entry` in ENTRIES.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta

from protocol.settings import check_settings

if TYPE_CHECKING:
    from azselfplay.games.spec import Game

MOST_BLOCKS, MOST_CHANNELS = 100, 2048
"""Larger numbers are considered typing errors. (AlphaZero: 19 and 256.)"""
_BLOCKS_BY_CHANNELS = r"(?P<blocks>\d{1,9})x(?P<channels>\d{1,9})"
_RESIDUAL_FORM = (
    "BLOCKSxCHANNELS with `se` (squeeze-excitation) and `tanh` (value head) behind it as wanted: "
)


@dataclass(frozen=True)
class Entry:
    """One family in the registry."""

    family: str
    """Name of the family in weights files."""
    module: str
    """The module that defines `FAMILY`."""
    presets: tuple[str, ...]
    sizes: str
    """Pattern of the family's names other than presets, with groups `channels` and perhaps `blocks`."""
    form: str
    """A description of the pattern for messages."""
    in_search: bool = False
    """Whether players evaluate its networks in their own search (`net.sparse`)."""


ENTRIES = (
    Entry(
        "residual",
        "net.architectures.residual",
        ("tiny", "small", "medium", "alphazero"),
        _BLOCKS_BY_CHANNELS + "(?P<se>se)?(?P<tanh>tanh)?",
        _RESIDUAL_FORM + "4x64, 6x96se, 4x64tanh",
    ),
    Entry(
        "transformer",
        "net.architectures.transformer",
        ("tf-small", "tf-medium"),
        "tf" + _BLOCKS_BY_CHANNELS,
        "tfBLOCKSxWIDTH: tf7x96",
    ),
    Entry(
        "sparse",
        "net.sparse",
        ("sparse",),
        r"sparse(?P<channels>\d{1,9})",
        "sparseWIDTH: sparse512",
        in_search=True,
    ),
)
TRAINING_HEADS = ("ownership",)
"""Heads that only training uses (`trainer.loss.HEADS`), in the order in which they are made."""


# ---- Names -------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Raise ValueError with a description of valid names, unless `name` is one. Imports no torch."""
    _find(name)


def is_sparse(name: str) -> bool:
    """Return whether players evaluate this network in their own search. False for an unknown name, which
    another version of this program may know. Imports no torch."""
    try:
        return _find(name)[0].in_search
    except ValueError:
        return False


def check_plays(name: str, game: Game) -> None:
    """Raise ValueError if a network of this name cannot play `game`, or if a `sparse` one has sizes that it
    cannot have. Imports no torch."""
    if not is_sparse(name):
        return
    named(name)
    if game.sparse is None:
        others = ", ".join(preset for entry in ENTRIES if not entry.in_search for preset in entry.presets)
        raise ValueError(
            f"{game.name} has no sparse features, so the network {name} cannot play it; it has the networks "
            f"{others} and their sizes (docs/networks.md), or write its features (docs/add_a_game.md)"
        )


def preset_names() -> tuple[str, ...]:
    return tuple(name for entry in ENTRIES for name in entry.presets)


def named(name: str) -> Architecture:
    """Return the architecture of a preset, or of sizes such as `6x64se`. Raises ValueError as `check_name`
    does."""
    entry, sizes = _find(name)
    family = family_named(entry.family)
    return family.presets[name] if sizes is None else family.of_sizes(sizes)


def name_of(architecture: Architecture) -> str:
    """Return the name from which `named` makes this architecture (as played), or the nearest such name."""
    played = architecture.played
    presets = family_named(architecture.family).presets.items()
    return next((name for name, preset in presets if preset == played), architecture.name)


def architecture_from_json(text: str) -> Architecture:
    """Return the architecture that `Architecture.to_json` wrote. Raises ValueError saying what is wrong with
    `text`."""
    fields: Any = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("architecture: expected an object")
    family = fields.pop("family", None)
    if family not in (known := [entry.family for entry in ENTRIES]):
        raise ValueError(f"there is no family {family!r} of networks; known: {', '.join(known)}")
    return family_named(family).architecture.from_fields(fields)


def family_named(name: str) -> Family:
    """Return the family of that name in the registry, and import its module."""
    entry = next(entry for entry in ENTRIES if entry.family == name)
    found: Family = importlib.import_module(entry.module).FAMILY
    return found


def _find(name: str) -> tuple[Entry, Mapping[str, str | None] | None]:
    """Return the family of `name`, and what the family's pattern found in it (None for a preset). Raises
    ValueError."""
    for entry in ENTRIES:
        if name in entry.presets:
            return entry, None
        if found := re.fullmatch(entry.sizes, name):
            blocks, channels = int(found.groupdict().get("blocks", 1)), int(found["channels"])
            if not (1 <= blocks <= MOST_BLOCKS and 1 <= channels <= MOST_CHANNELS):
                raise ValueError(
                    f"there is no network {name!r}: it must have 1 to {MOST_BLOCKS} blocks of "
                    f"1 to {MOST_CHANNELS} channels"
                )
            return entry, found.groupdict()
    # Without a lower bound of similarity, so that there always is a nearest name.
    near = difflib.get_close_matches(name, preset_names(), n=1, cutoff=0.0)
    forms = ", or ".join(entry.form for entry in ENTRIES)
    raise ValueError(
        f"there is no network {name!r} (the nearest name is {near[0]}); it is one of "
        f"{', '.join(preset_names())}, or {forms}"
    )


# ---- Sizes -------------------------------------------------------------------------------------------


ValueHeadKind = Literal["wdl", "tanh"]


@dataclass(frozen=True)
class Architecture:
    """Sizes of a network; everything else follows from the game and the history.

    Each family has fields of its own. Raises ValueError saying which field is out of range.
    """

    family: ClassVar[str]
    """Name of the family in the registry."""

    @property
    def training_heads(self) -> tuple[str, ...]:
        """Names of its auxiliary heads."""
        return ()

    def __post_init__(self) -> None:
        try:
            check_settings(self)
        except ValueError as error:
            raise ValueError(f"architecture: {error}") from None

    @property
    def played(self) -> Self:
        """Return the architecture as it plays, without the training heads."""
        return self

    def with_heads(self, heads: Collection[str]) -> Self:
        """Return the architecture with exactly these training heads, of `TRAINING_HEADS`. Raises ValueError
        if the family has none."""
        if heads:
            raise ValueError(
                f"networks of the family {self.family} have no auxiliary heads: leave out {', '.join(heads)}"
            )
        return self

    @property
    def name(self) -> str:
        """Return the sizes, in the form that the registry's pattern reads."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return the architecture as JSON, with the name of its family."""
        return json.dumps(dataclasses.asdict(self) | {"family": self.family}, sort_keys=True)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the architecture with exactly these fields. Raises ValueError if fields are unknown, missing
        or out of range."""
        known = {one.name for one in dataclasses.fields(cls)}
        if set(fields) != known:
            raise ValueError(f"architecture: expected exactly the fields {', '.join(sorted(known))}")
        heads = fields.get("training_heads", [])
        if not isinstance(heads, list) or not all(name in TRAINING_HEADS for name in heads):
            raise ValueError(
                f"architecture: training_heads must be a list of some of {', '.join(TRAINING_HEADS)}"
            )
        return cls(**fields).with_heads(heads)


@dataclass(frozen=True)
class BoardArchitecture(Architecture):
    """Sizes of a network whose body keeps the shape of the board."""

    blocks: Annotated[int, Meta(ge=1, le=MOST_BLOCKS)]
    """Blocks of the same shape. Paper: 19."""
    channels: Annotated[int, Meta(ge=1, le=MOST_CHANNELS)]
    """Numbers for each cell between blocks. Paper: 256."""
    flat_policy_channels: Annotated[int, Meta(ge=1, le=256)] = field(default=2, kw_only=True)
    """1x1 channels before the fully connected policy of a game without policy planes. Paper: 2 (Go). 16 take
    no more time and improve the bare policy of a small network (bench/RESULTS.md)."""
    value_channels: Annotated[int, Meta(ge=1, le=256)] = field(default=1, kw_only=True)
    """Channels of the 1x1 convolution of the value head. Paper: 1."""
    value_hidden: Annotated[int, Meta(ge=1, le=4096)] = field(default=256, kw_only=True)
    """Width of the value head's hidden layer. Paper: 256."""
    value_head: ValueHeadKind = field(default="tanh", kw_only=True)
    """`wdl`: three logits (win, draw, loss for the side to move); `tanh`: one number. Paper: tanh."""
    training_heads: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of auxiliary heads, in the order of `TRAINING_HEADS`. Paper: none."""

    @property
    def played(self) -> Self:
        return self.with_heads(())

    def with_heads(self, heads: Collection[str]) -> Self:
        return dataclasses.replace(self, training_heads=tuple(one for one in TRAINING_HEADS if one in heads))


@dataclass(frozen=True)
class Family:
    """What the registry needs of a family."""

    architecture: type[Architecture]
    network: Callable[[Any, Game, int], Any]
    """Builds a `net.architectures.network.Network` of an architecture, for a game and a history."""
    presets: Mapping[str, Architecture]
    of_sizes: Callable[[Mapping[str, str | None]], Architecture]
    """Makes an architecture from the groups that the registry's pattern found in a name."""
