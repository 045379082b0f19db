"""A sparse network in torch, for training and for devices that torch serves.

A position is the sum of the rows of its active features, as in NNUE; an action's logit is the product of a
vector of the position with the sum of the action's rows (piece and target, what is captured, ...), as in
Monty and Jackal. If a game says that features share rows, a shared row is trained beside each feature's own
row, and added to it for play (factorised features, as in Stockfish). In training both are summed by position:
adding the shared rows to the whole table took a third of a step in Connect Four.

`net.sparse_kernel` computes the same for one position in microseconds.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import Tensor, nn

from azselfplay.games.spec import Game
from net.architectures.network import Network, Outputs, near_zero
from net.sparse import Sparse, features_of, kernels_for, shapes_of

ROW, SHARED_ROW, ACTION_ROW = 0.04, 0.08, 0.02
"""Standard deviation of untrained rows: a sum of about 20 of them begins near 0.4."""
BIAS = 0.1
"""Untrained bias of the hidden layer: positive, so that most of its ReLUs let gradients through."""


class Inputs(NamedTuple):
    """Positions and some of their actions, as the network reads them."""

    active: Tensor
    """int32[all active features]: those of position 0, then those of position 1, ..."""
    begins: Tensor
    """int64[n + 1]: where the features of each position begin, and where the last ones end."""
    shared: Tensor
    """int32[all shared rows]: those of the active features, position by position."""
    shared_begins: Tensor
    """int64[n + 1]: as `begins`."""
    of: Tensor
    """int64[entries]: the position of each action, ascending."""
    rows: Tensor
    """int32[entries, tables]: the rows of each action."""

    def to(self, device: torch.device) -> Inputs:
        return Inputs(*(tensor.to(device, non_blocking=True) for tensor in self))


class _RowSums(torch.autograd.Function):
    """Sums of rows on the CPU: `(kernels, table [features, width], active, begins) -> [n, width]`."""

    @staticmethod
    def forward(ctx: Any, kernels: Any, table: Tensor, active: Tensor, begins: Tensor) -> Tensor:
        ctx.save_for_backward(active, begins)
        ctx.kernels, ctx.shape = kernels, table.shape
        sums = table.new_empty(len(begins) - 1, table.shape[1])
        kernels.sum_rows(table.detach().numpy(), active.numpy(), begins.numpy(), sums.numpy())
        return sums

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, Tensor, None, None]:
        active, begins = ctx.saved_tensors
        of_table = gradients.new_zeros(ctx.shape)
        ctx.kernels.spread_rows(
            gradients.contiguous().numpy(), active.numpy(), begins.numpy(), of_table.numpy()
        )
        return None, of_table, None, None


class _ActionLogits(torch.autograd.Function):
    """Logits of actions on the CPU: `(kernels, vectors [n, width], table [action rows, width], biases [action
    rows], of, rows) -> [entries]`."""

    @staticmethod
    def forward(ctx: Any, kernels: Any, vectors: Tensor, *others: Tensor) -> Tensor:
        table, biases, of, rows = others
        ctx.kernels = kernels
        ctx.save_for_backward(vectors, table, of, rows)
        logits = vectors.new_empty(len(of))
        inputs = (one.detach().numpy() for one in (vectors, table, biases, of, rows))
        kernels.action_logits(*inputs, logits.numpy())
        return logits

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        vectors, table, of, rows = ctx.saved_tensors
        outputs = torch.zeros_like(vectors), torch.zeros_like(table), table.new_zeros(len(table))
        inputs = (one.detach().numpy() for one in (vectors, table, of, rows))
        ctx.kernels.spread_logits(gradients.contiguous().numpy(), *inputs, *(one.numpy() for one in outputs))
        return None, *outputs, None, None


def row_sums(kernels: Any, table: Tensor, active: Tensor, begins: Tensor) -> Tensor:
    """Return `[n, width]`: for position i the sum of the rows of `table` that `active` names from `begins[i]`
    to `begins[i + 1]`. `kernels`: of `net.sparse.kernels_for`."""
    if table.device.type == "cpu":
        sums: Tensor = _RowSums.apply(kernels, table, active, begins)  # type: ignore[no-untyped-call]
        return sums
    return F.embedding_bag(active.long(), table, begins, mode="sum", include_last_offset=True)


def logits_of(kernels: Any, vectors: Tensor, table: Tensor, biases: Tensor, inputs: Inputs) -> Tensor:
    """Return the logits of actions, `[entries]`: the position's vector times the sum of the action's rows of
    `table`, plus the biases of these rows."""
    if vectors.device.type == "cpu":
        logits: Tensor = _ActionLogits.apply(  # type: ignore[no-untyped-call]
            kernels, vectors, table, biases, inputs.of, inputs.rows
        )
        return logits
    table, biases, rows = F.pad(table, (0, 0, 0, 1)), F.pad(biases, (0, 1)), inputs.rows.long()
    return (table[rows].sum(1) * vectors[inputs.of]).sum(1) + biases[rows].sum(1)


class SparseNetwork(Network):
    """See the module's docstring."""

    reads_features: ClassVar[bool] = True
    architecture: Sparse

    def __init__(self, architecture: Sparse, game: Game, history: int) -> None:
        """Raises ValueError for a game without sparse features, or with other features than the
        architecture's."""
        super().__init__()
        features = features_of(game, architecture)
        self.architecture = architecture = architecture.of(features)
        self._game_name, self._history = game.name, history  # not the game itself: networks are copied
        self._most_active, self._tables = features.most_active, features.tables
        shapes = shapes_of(features, architecture)

        def rows(name: str, spread: float) -> nn.Parameter:
            return nn.Parameter(torch.empty(shapes[name]).normal_(std=spread))

        self.rows = rows("rows", ROW)
        self.shared_rows = rows("shared_rows", SHARED_ROW) if "shared_rows" in shapes else None
        self.bias = nn.Parameter(torch.full(shapes["bias"], BIAS))
        self.value = nn.Linear(architecture.width, architecture.value_width)
        self.wdl = nn.Linear(architecture.value_width, 3)
        near_zero(self.wdl)
        self.policy = nn.Linear(architecture.width, architecture.policy_width, bias=False)
        self.action_rows = rows("action_rows", ACTION_ROW)
        self.action_biases = nn.Parameter(torch.zeros(shapes["action_biases"]))
        self._shared = features.shared

    @property
    def _kernels(self) -> Any:
        return kernels_for(self._game_name, self.architecture.widths)

    def inputs_of(
        self,
        packed_features: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.uint16],
        actions: npt.NDArray[np.uint16],
    ) -> Inputs:
        """Return the inputs, on the CPU, for `packed_features [n, words]`; position i has `counts[i]`
        actions, and `actions [sum of counts]` lists them all."""
        active = np.empty(len(counts) * self._most_active, np.int32)
        begins = np.empty(len(counts) + 1, np.int64)
        rows = np.empty(len(actions) * self._tables, np.int32)
        begins[-1] = found = self._kernels.describe_all(
            packed_features, self._history, counts, actions, active, begins, rows
        )
        of, active = np.repeat(np.arange(len(counts)), counts), active[:found]
        shared, shared_begins = np.empty(0, np.int32), np.zeros_like(begins)
        if self._shared is not None:
            shared = np.empty(found * self._shared.shape[1], np.int32)
            self._kernels.shared_all(self._shared, active, begins, shared, shared_begins)
            shared = shared[: shared_begins[-1]]
        parts = (active, begins, shared, shared_begins, of, rows.reshape(-1, self._tables))
        return Inputs(*map(torch.from_numpy, parts))

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return logits of the entries, `float32[entries]`, and value logits `float32[n, 3]` (win, draw,
        loss for the side to move)."""
        kernels = self._kernels
        sums = row_sums(kernels, self.rows, inputs.active, inputs.begins)
        if self.shared_rows is not None:
            sums = sums + row_sums(kernels, self.shared_rows, inputs.shared, inputs.shared_begins)
        hidden = torch.relu(sums + self.bias)
        value: Tensor = self.wdl(torch.relu(self.value(hidden)))
        vectors = self.policy(hidden)
        return logits_of(kernels, vectors, self.action_rows, self.action_biases, inputs), value

    def all_heads(self, inputs: Any) -> Outputs:
        policy, value = self(inputs)
        return Outputs(policy, value, {})
