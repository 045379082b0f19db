"""A transformer with one token per cell, similar to Chessformer (arXiv 2409.12272).

Blocks normalise their input (pre-norm). Each attention head learns a bias for every difference in row and
column between two cells, which works for boards of any size. The hidden layers are SwiGLU (arXiv 2002.05202).
Policy and value are computed from the tokens as a residual network computes them from its cells.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from msgspec import Meta
from torch import Tensor, nn

from azselfplay.games.spec import Game
from net.architectures.network import BoardNetwork
from net.architectures.registry import BoardArchitecture, Family

HEAD_WIDTH = 32
"""Width of an attention head, if it divides the width of a token."""
HIDDEN_STEP = 32
"""The width of the hidden layers is a multiple of this."""


@dataclass(frozen=True)
class Transformer(BoardArchitecture):
    """Sizes of a transformer; a block is attention and a hidden layer, `channels` the width of a token."""

    family: ClassVar[str] = "transformer"

    heads: Annotated[int, Meta(ge=1, le=64)]
    """Attention heads, which divide the width evenly. Chessformer: width / 32."""
    hidden: Annotated[int, Meta(ge=1, le=8192)]
    """Width inside a block's SwiGLU. Usual: 8/3 of the width."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels % self.heads:
            raise ValueError(f"architecture: {self.heads} heads cannot share {self.channels} channels evenly")

    @property
    def name(self) -> str:
        return f"tf{self.blocks}x{self.channels}"


class RelativeBias(nn.Module):
    """The attention bias of each head for every pair of cells: a table by differences in row and column."""

    def __init__(self, heads: int, rows: int, cols: int) -> None:
        super().__init__()
        self.rows, self.cols = rows, cols
        self.table = nn.Parameter(torch.zeros(heads, 2 * rows - 1, 2 * cols - 1))

    def forward(self) -> Tensor:
        """Return `[heads, cells, cells]`: from the attending cell to the attended cell.

        A cell's biases for all others are a window of the table as large as the board. The first cell's
        window is at the end of the table, the last cell's at its beginning.
        """
        windows = self.table.unfold(1, self.rows, 1).unfold(2, self.cols, 1)
        cells = self.rows * self.cols
        return windows.flip(1, 2).reshape(-1, cells, cells)


class Attention(nn.Module):
    """Self-attention: every cell attends to every cell."""

    def __init__(self, architecture: Transformer, rows: int, cols: int) -> None:
        super().__init__()
        width = architecture.channels
        self.heads = architecture.heads
        self.look = nn.Linear(width, 3 * width, bias=False)
        self.bias = RelativeBias(self.heads, rows, cols)
        self.out = nn.Linear(width, width, bias=False)
        _small(self.out, architecture.blocks)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[n, cells, width]`, the shape of `x`."""
        n, cells, width = x.shape
        split = self.look(x).view(n, cells, 3, self.heads, width // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        bias = self.bias()[None]  # torch has a fused CPU kernel for four dimensions
        seen = F.scaled_dot_product_attention(queries, keys, values, bias)
        out: Tensor = self.out(seen.transpose(1, 2).reshape(n, cells, width))
        return out


class SwiGLU(nn.Module):
    """A hidden layer, half of which gates the other half."""

    def __init__(self, architecture: Transformer) -> None:
        super().__init__()
        self.hidden = nn.Linear(architecture.channels, 2 * architecture.hidden, bias=False)
        self.out = nn.Linear(architecture.hidden, architecture.channels, bias=False)
        _small(self.out, architecture.blocks)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[n, cells, width]`, the shape of `x`."""
        gate, up = self.hidden(x).chunk(2, dim=-1)
        out: Tensor = self.out(F.silu(gate) * up)
        return out


class Block(nn.Module):
    """Attention, then SwiGLU; each reads a normalised copy and adds to its input."""

    def __init__(self, architecture: Transformer, rows: int, cols: int) -> None:
        super().__init__()
        width = architecture.channels
        self.before_attention = nn.LayerNorm(width, bias=False)
        self.attention = Attention(architecture, rows, cols)
        self.before_hidden = nn.LayerNorm(width, bias=False)
        self.hidden = SwiGLU(architecture)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[n, cells, width]`, the shape of `x`."""
        x = x + self.attention(self.before_attention(x))
        out: Tensor = x + self.hidden(self.before_hidden(x))
        return out


class TransformerNetwork(BoardNetwork):
    """Tokens, blocks and heads.

    A token knows its own cell through a learned embedding of each cell. Differences between cells alone
    cannot provide this: on an empty board attention would give the same result everywhere.
    """

    def __init__(self, architecture: Transformer, game: Game, history: int) -> None:
        super().__init__(architecture)
        width = architecture.channels
        self.start = nn.Linear(game.planes(history), width)
        self.places = nn.Parameter(0.02 * torch.randn(game.cells, width))
        blocks = [Block(architecture, game.rows, game.cols) for _ in range(architecture.blocks)]
        self.blocks = nn.Sequential(*blocks)
        self.end = nn.LayerNorm(width, bias=False)
        self.add_heads(game, kernel=1)

    def body(self, planes: Tensor) -> Tensor:
        """`[n, planes, rows, cols]` to `[n, width, rows, cols]`, channels-last in memory."""
        rows, cols = planes.shape[2:]
        tokens = self.start(planes.flatten(2).transpose(1, 2)) + self.places
        x: Tensor = self.end(self.blocks(tokens))
        return x.view(-1, rows, cols, x.shape[2]).permute(0, 3, 1, 2)


def _small(layer: nn.Linear, blocks: int) -> None:
    """Scale a layer's initial weights so that all blocks together add about as much as their input."""
    nn.init.normal_(layer.weight, std=1 / math.sqrt(2 * blocks * layer.in_features))


def _of_width(blocks: int, width: int) -> Transformer:
    """Return a transformer with the usual heads and hidden width."""
    most = max(1, width // HEAD_WIDTH)
    heads = max(heads for heads in range(1, most + 1) if width % heads == 0)
    hidden = -(-8 * width // (3 * HIDDEN_STEP)) * HIDDEN_STEP
    wdl = Transformer(blocks, width, heads, hidden, flat_policy_channels=16, value_head="wdl")
    return dataclasses.replace(wdl, value_channels=8 if width < 128 else 16, value_hidden=128)


PRESETS = {"tf-small": _of_width(7, 96), "tf-medium": _of_width(10, 192)}
"""`tf-small` for one CPU, `tf-medium` for one GPU."""


def of_sizes(found: Mapping[str, str | None]) -> Transformer:
    """Return the architecture of a name such as `tf7x96`."""
    return _of_width(int(found["blocks"] or 0), int(found["channels"] or 0))


FAMILY = Family(Transformer, TransformerNetwork, PRESETS, of_sizes)
