"""A network of any family from packed words to priors, on any device and in any number format.

CUDA graphs capture this. A CPU has faster ways in and out of the module (`net.module_on_cpu`).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from games.spec import Game
from net.architectures.heads import wdl_of
from net.architectures.network import Network
from net.planes import PlaneShape, unpack

NO_ACTION = -1
"""Pads the legal action lists of a batch to a common length."""

_NEVER = -1e30
"""Logit of NO_ACTION: finite, so that a padding row without any action gives no NaN."""


def placed(network: Network, device: str, dtype: torch.dtype) -> Network:
    """A copy of a folded network on a device, in a number format and channels-last layout."""
    copied: Network = copy.deepcopy(network).to(device, dtype)
    return copied.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


class ModuleForward:
    """`(words int64[n, words], legal int32[n, k]) -> (priors float16[n, k], wdl float32[n, 3])`.

    network  folded (`net.folding`); it is copied
    """

    def __init__(self, network: Network, game: Game, history: int, device: str, dtype: torch.dtype) -> None:
        self._shape = PlaneShape.of(game, history)
        self._dtype = dtype
        self._module = placed(network, device, dtype)

    def set_weights(self, network: Network) -> None:
        """Replace the weights in place, so that captured graphs use them. The architecture must be the
        same."""
        ours = self._module.state_dict()
        for name, tensor in network.state_dict().items():
            ours[name].copy_(tensor)

    def __call__(self, packed_features: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Priors are the softmax over the legal actions of each row; entries at NO_ACTION are 0."""
        planes = unpack(packed_features, self._shape, self._dtype)
        logits, value_logits = self._module(planes.contiguous(memory_format=torch.channels_last))
        chosen = logits.gather(1, legal.clamp(min=0).long()).float().masked_fill(legal == NO_ACTION, _NEVER)
        return chosen.softmax(dim=1).half(), wdl_of(value_logits)
