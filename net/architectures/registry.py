"""The families of networks, their names on a command line, and how a network is built.

A name is a preset (`small`) or sizes (`6x64se`). Names are checked without torch; a family's module is
imported only when one of its networks is needed.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from games.spec import Game
    from net.architectures.network import Network
    from net.architectures.sizes import Architecture, Family

MOST_BLOCKS, MOST_CHANNELS = 100, 2048
"""Larger ones are considered typing errors. (AlphaZero: 19 and 256.)"""

_BLOCKS_BY_CHANNELS = r"(?P<blocks>\d{1,9})x(?P<channels>\d{1,9})"
_RESIDUAL_FORM = (
    "BLOCKSxCHANNELS with `se` (squeeze-excitation) and `tanh` (value head) behind it as wanted: "
)


@dataclass(frozen=True)
class Entry:
    """One family in the registry."""

    family: str
    """Weights files name it."""
    module: str
    """Defines `FAMILY`."""
    presets: tuple[str, ...]
    sizes: str
    """Pattern of its names other than presets, with groups `channels` and perhaps `blocks`."""
    form: str
    """A description of the pattern for people."""


ENTRIES = (
    Entry(
        "residual",
        "net.architectures.residual",
        ("tiny", "small", "medium", "alphazero"),
        _BLOCKS_BY_CHANNELS + "(?P<se>se)?(?P<head>wdl|tanh)?",
        _RESIDUAL_FORM + "4x64, 6x96se, 4x64tanh",
    ),
    Entry(
        "transformer",
        "net.architectures.transformer",
        ("tf-small", "tf-medium"),
        "tf" + _BLOCKS_BY_CHANNELS,
        "tfBLOCKSxWIDTH: tf7x96",
    ),
    Entry("sparse", "net.sparse", ("sparse",), r"sparse(?P<channels>\d{1,9})", "sparseWIDTH: sparse512"),
)
FIRST_FAMILY = "residual"
"""The family of weights files that name none, because they were written before there were others."""


def check_name(name: str) -> None:
    """Raise ValueError with a description of valid names, unless `name` is one. Imports no torch."""
    _find(name)


def family_of(name: str) -> str:
    """The family of a network's name. Raises ValueError as `check_name` does. Imports no torch."""
    return _find(name)[0].family


def is_sparse(name: str) -> bool:
    """Whether this is a network that players evaluate in their own search. False for an unknown name: that of
    another version of this program, perhaps. Imports no torch."""
    try:
        return family_of(name) == "sparse"
    except ValueError:
        return False


def check_plays(name: str, game: Game) -> None:
    """Raise ValueError if a network of this name cannot play `game`, or if a `sparse` one has sizes that it
    cannot have. Imports no torch."""
    if not is_sparse(name):
        return
    named(name)
    if game.sparse is None:
        others = ", ".join(
            preset for entry in ENTRIES if entry.family != "sparse" for preset in entry.presets
        )
        raise ValueError(
            f"{game.name} has no sparse features, so the network {name} cannot play it; it has the networks "
            f"{others} and their sizes (docs/networks.md), or write its features (docs/add_a_game.md)"
        )


def preset_names() -> tuple[str, ...]:
    return tuple(name for entry in ENTRIES for name in entry.presets)


def named(name: str) -> Architecture:
    """The architecture of a preset, or of sizes such as `6x64se`. Raises ValueError as `check_name` does."""
    entry, sizes = _find(name)
    family = _family(entry.family)
    return family.presets[name] if sizes is None else family.of_sizes(sizes)


def name_of(architecture: Architecture) -> str:
    """The name from which `named` makes this architecture (as played); the nearest one if there is none."""
    played = architecture.played
    presets = _family(architecture.family).presets.items()
    return next((name for name, preset in presets if preset == played), architecture.name)


def architecture_from_json(text: str) -> Architecture:
    """The architecture that `Architecture.to_json` wrote. Raises ValueError saying what is wrong with
    `text`."""
    fields: Any = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("architecture: expected an object")
    family = fields.pop("family", FIRST_FAMILY)
    if family not in (known := [entry.family for entry in ENTRIES]):
        raise ValueError(f"there is no family {family!r} of networks; known: {', '.join(known)}")
    return _family(family).architecture.from_fields(fields)


def build(architecture: Architecture, game: Game, history: int) -> Network:
    """An untrained network for `game` with `history` positions as input, drawn from torch's global seed.

    `forward(planes: float[n, planes, rows, cols])` returns `(policy_logits [n, actions], value_logits)`, the
    latter `[n, 3]` (win, draw, loss) or `[n, 1]` before tanh.
    """
    return _family(architecture.family).network(architecture, game, history)


def _family(name: str) -> Family:
    entry = next(entry for entry in ENTRIES if entry.family == name)
    found: Family = importlib.import_module(entry.module).FAMILY
    return found


def _find(name: str) -> tuple[Entry, Mapping[str, str | None] | None]:
    """The family of `name`, and what its pattern found there (None for a preset). Raises ValueError."""
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
    near = difflib.get_close_matches(name, preset_names(), n=1, cutoff=0.0)
    forms = ", or ".join(entry.form for entry in ENTRIES)
    raise ValueError(
        f"there is no network {name!r} (the nearest name is {near[0]}); it is one of "
        f"{', '.join(preset_names())}, or {forms}"
    )
