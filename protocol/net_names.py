"""How a network is named on a command line: a preset, or sizes such as `6x64se`.

Beside the messages because every command checks such names, also those that never import torch;
`net.architectures.named` makes the architecture. WELCOME carries the name to the trainer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

PRESET_NAMES = ("tiny", "small", "medium", "alphazero")
MOST_BLOCKS, MOST_CHANNELS = 100, 2048
"""Larger ones are taken for slips of the keyboard. (AlphaZero: 19 and 256.)"""

_SIZES = re.compile(r"(\d{1,9})x(\d{1,9})(se)?(wdl|tanh)?")


@dataclass(frozen=True)
class NetSizes:
    """What a name such as `6x64se` says."""

    blocks: int
    channels: int
    squeeze_excitation: bool = False
    value_head: Literal["wdl", "tanh"] = "wdl"


def parse(name: str) -> NetSizes | None:
    """The sizes in `name`, None for a preset. ValueError says what a name must look like.

    BLOCKSxCHANNELS, then `se` for squeeze-and-excitation, then `tanh` for the paper's value head of one
    number in place of win, draw and loss (`wdl`, which may be said too).
    """
    if name in PRESET_NAMES:
        return None
    found = _SIZES.fullmatch(name)
    if found is None:
        raise ValueError(
            f"there is no network {name!r}; it is one of {', '.join(PRESET_NAMES)}, or BLOCKSxCHANNELS with "
            "`se` (squeeze-excitation) and `tanh` (value head) behind it as wanted: 4x64, 6x96se, 4x64tanh"
        )
    blocks, channels = int(found[1]), int(found[2])
    if not (1 <= blocks <= MOST_BLOCKS and 1 <= channels <= MOST_CHANNELS):
        raise ValueError(
            f"a network {name!r} cannot be; it has 1 to {MOST_BLOCKS} blocks of 1 to {MOST_CHANNELS} channels"
        )
    return NetSizes(blocks, channels, found[3] is not None, "tanh" if found[4] == "tanh" else "wdl")
