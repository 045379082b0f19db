"""A sparse network in torch, for training and for devices that torch serves.

A position is the sum of the rows of its active features, as in NNUE; an action's logit is the product of a
vector of the position with the sum of the action's rows (piece and target, what is captured, ...), as in
Monty and Jackal. Where a game says that features share rows, these are trained beside each feature's own
and added to it for play (factorised features, as in Stockfish).

`net.sparse_kernel` computes the same for one position in microseconds.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - everybody calls it so
from torch import Tensor, nn

from games.spec import Game
from net.architectures.heads import near_zero
from net.architectures.network import Network, Outputs
from net.sparse import Sparse, features_of, kernels_for, shapes_of

ROW, SHARED_ROW, ACTION_ROW = 0.04, 0.08, 0.02
"""Standard deviation of untrained rows: a sum of about 20 of them begins near 0.4."""
BIAS = 0.1
"""Untrained bias of the hidden layer, so that most of it lets gradients through."""


class Inputs(NamedTuple):
    """Positions and some of their actions, as the network reads them."""

    active: Tensor
    """int32[all active features], those of position 0, then of position 1, ..."""
    begins: Tensor
    """int32[n] where those of each position begin."""
    rows: Tensor
    """int64[entries] the position of each action, ascending."""
    action_rows: Tensor
    """int64[entries, tables] the rows of each action."""

    def to(self, device: torch.device) -> Inputs:
        return Inputs(*(tensor.to(device, non_blocking=True) for tensor in self))


class SparseNetwork(Network):
    """See the module."""

    reads_features: ClassVar[bool] = True
    architecture: Sparse

    def __init__(self, architecture: Sparse, game: Game, history: int) -> None:
        """Raises ValueError for a game without sparse features, or with others than the architecture's."""
        super().__init__()
        features = features_of(game, architecture)
        self.architecture = architecture = architecture.of(features)
        self._game_name, self._history = game.name, history  # not the game: networks are copied
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
        self._shared = [] if features.shared is None else _columns(features.shared)
        self._has_empty_rows = features.has_empty_rows

    def inputs_of(
        self,
        packed_features: npt.NDArray[np.uint64],
        counts: npt.NDArray[np.uint16],
        actions: npt.NDArray[np.uint16],
    ) -> Inputs:
        """Return the inputs, on the CPU, of `packed_features [n, words]` with `counts [n]` actions each,
        `actions [sum of counts]`."""
        active = np.empty(len(counts) * self._most_active, np.int32)
        begins = np.empty(len(counts), np.int64)
        rows = np.empty(len(actions) * self._tables, np.int32)
        describe_all = kernels_for(self._game_name, self.architecture.widths).describe_all
        found = describe_all(packed_features, self._history, counts, actions, active, begins, rows)
        return Inputs(
            torch.from_numpy(active[:found]),
            torch.from_numpy(begins.astype(np.int32)),
            torch.from_numpy(np.repeat(np.arange(len(counts)), counts)),
            torch.from_numpy(rows.reshape(-1, self._tables).astype(np.int64)),
        )

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return logits of the entries, `float32[entries]`, and value logits `float32[n, 3]` (win, draw,
        loss for the side to move)."""
        hidden = torch.relu(
            F.embedding_bag(inputs.active, self._all_rows(), inputs.begins, mode="sum") + self.bias
        )
        value: Tensor = self.wdl(torch.relu(self.value(hidden)))
        vectors = self.policy(hidden)
        rows: Tensor = self.action_rows
        biases: Tensor = self.action_biases
        if self._has_empty_rows:
            rows, biases = F.pad(rows, (0, 0, 0, 1)), F.pad(biases, (0, 1))
        flat = inputs.action_rows.reshape(-1)
        tables = inputs.action_rows.shape[1]
        begins = torch.arange(0, len(flat), tables, device=flat.device)
        of_actions = F.embedding_bag(flat, rows, begins, mode="sum")
        bias = biases[inputs.action_rows].sum(1)
        return (of_actions * vectors[inputs.rows]).sum(1) + bias, value

    def all_heads(self, inputs: Any) -> Outputs:
        return Outputs(*self(inputs))

    def _all_rows(self) -> Tensor:
        """Return [features, width], the shared rows added."""
        rows: Tensor = self.rows
        for column in self._shared:
            assert self.shared_rows is not None
            has, shared = (part.to(rows.device) for part in column)
            rows = rows.index_add(0, has, self.shared_rows[shared])
        return rows


def _columns(shared: npt.NDArray[np.int32]) -> list[tuple[Tensor, Tensor]]:
    """For each column of `SparseFeatures.shared`: the features that have a row there, and which."""
    found = []
    for column in shared.T:
        has = np.flatnonzero(column >= 0)
        found.append((torch.from_numpy(has), torch.from_numpy(column[has].astype(np.int64))))
    return found
