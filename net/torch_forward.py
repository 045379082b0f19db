"""The folded network in plain torch operations, from packed words to priors: any device, any dtype.

This is what CUDA graphs capture, and the path that every CPU can take.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import Tensor

from games.spec import Game
from net.folding import Affine, FoldedNetwork
from net.planes import PlaneShape, unpack

NO_ACTION = -1
"""Fills the legal action lists of a batch up to a common length."""

_NEVER = -1e30
"""Logit of no action: finite, so that a padding row without any action gives no NaN."""


class TorchForward:
    """`(words int64[n, words], legal int32[n, k]) -> (priors float16[n, k], wdl float32[n, 3])`."""

    def __init__(
        self, folded: FoldedNetwork, game: Game, history: int, device: str, dtype: torch.dtype
    ) -> None:
        self._shape = PlaneShape.of(game, history)
        self._device, self._dtype = device, dtype
        self._net = folded
        self._on_device = [self._place(affine) for affine in folded.affines()]

    def set_weights(self, folded: FoldedNetwork) -> None:
        """Replace the weights in place, so that captured graphs see them. Same architecture as before."""
        for old, new in zip(self._on_device, folded.affines(), strict=True):
            old.weight.copy_(new.weight)
            old.bias.copy_(new.bias)

    def __call__(self, words: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        layers = iter(self._on_device)
        planes = unpack(words, self._shape, self._dtype)
        x = F.relu_(_conv(planes.contiguous(memory_format=torch.channels_last), next(layers)))
        for block in self._net.blocks:
            y = F.relu_(_conv(x, next(layers)))
            y = _conv(y, next(layers))
            if block.squeeze is not None:
                y = _squeeze_excite(y, next(layers), next(layers))
            x = F.relu_(y.add_(x))
        hidden = F.relu_(_conv(x, next(layers)))
        priors = self._priors(hidden, next(layers), legal)
        return priors, self._wdl(x, next(layers), next(layers), next(layers))

    def _place(self, affine: Affine) -> Affine:
        weight = affine.weight.to(self._device, self._dtype)
        if weight.ndim == 4:
            weight = weight.contiguous(memory_format=torch.channels_last)
        return Affine(weight, affine.bias.to(self._device, self._dtype))

    def _priors(self, hidden: Tensor, out: Affine, legal: Tensor) -> Tensor:
        """Softmax over the legal actions of each row; what stands at NO_ACTION is 0."""
        index = legal.clamp(min=0).long()
        if self._net.flat_policy:
            logits = F.linear(hidden.flatten(1), out.weight, out.bias)
        else:
            # channels-last memory is [cell, plane]: look the action up there instead of turning it over
            logits = _conv(hidden, out).permute(0, 2, 3, 1).flatten(1)
            cells = self._shape.cells
            index = index % cells * out.bias.shape[0] + index // cells
        chosen = logits.gather(1, index).float().masked_fill(legal == NO_ACTION, _NEVER)
        return chosen.softmax(dim=1).half()

    def _wdl(self, x: Tensor, narrow: Affine, hidden: Affine, out: Affine) -> Tensor:
        flat = F.relu_(_conv(x, narrow)).flatten(1)
        wide = F.relu_(F.linear(flat, hidden.weight, hidden.bias))
        logits = F.linear(wide.float(), out.weight.float(), out.bias.float())
        return wdl_of(logits)


def wdl_of(value_logits: Tensor) -> Tensor:
    """Win, draw, loss `float32[n, 3]` of value logits `[n, 3]`, or of `[n, 1]` before tanh."""
    if value_logits.shape[1] == 3:
        return value_logits.float().softmax(dim=1)
    value = torch.tanh(value_logits[:, 0].float())
    return torch.stack([(1 + value) / 2, torch.zeros_like(value), (1 - value) / 2], dim=1)


def _conv(x: Tensor, layer: Affine) -> Tensor:
    return F.conv2d(x, layer.weight, layer.bias, padding=layer.weight.shape[-1] // 2)


def _squeeze_excite(y: Tensor, squeeze: Affine, excite: Affine) -> Tensor:
    hidden = F.relu_(F.linear(y.mean(dim=(2, 3)), squeeze.weight, squeeze.bias))
    gates = F.linear(hidden, excite.weight, excite.bias)[:, :, None, None]
    scale, shift = gates.chunk(2, dim=1)
    return torch.addcmul(shift, y, torch.sigmoid(scale))
