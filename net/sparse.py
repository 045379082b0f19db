"""A sparse network without torch: its sizes, its weights as one vector, and its use in play.

A worker with a sparse network runs whole searches in one compiled call: `SparseInference` is the network of a
`search.forest.Forest` and the evaluator of its pool. `net.sparse_kernel` is the computation;
`net.architectures.sparse` is the same network in torch, for training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from azselfplay.games import get_game
from azselfplay.games.jit import Bindings, bind
from azselfplay.games.spec import Game, SparseFeatures
from azselfplay.games.stubs import bindings
from net import sparse_kernel
from net.architectures.registry import Architecture, Family, check_plays, is_sparse, named
from net.weights import BadWeights, WeightsMeta, check_tensors, read_tensors
from protocol.frames import LeafBatch

Array = npt.NDArray[Any]
Vector = npt.NDArray[np.float32]

WIDTH_STEP = 16
"""Widths are multiples of this, so that every vector instruction is full."""


@dataclass(frozen=True)
class Sparse(Architecture):
    """Sizes of a sparse network."""

    family: ClassVar[str] = "sparse"

    features: str = dataclasses.field(default="", compare=False)
    """Name of the game's set of features (`games.spec.SparseFeatures`); "" until the game is known."""
    width: Annotated[int, Meta(ge=1, le=2048)] = 256
    """Width of the hidden layer, which is the sum of the rows of the active features."""
    value_width: Annotated[int, Meta(ge=1, le=512)] = 32
    """Width of the value's hidden layer."""
    policy_width: Annotated[int, Meta(ge=1, le=512)] = 64
    """Length of the vector by which each action's rows are multiplied."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, width in zip(("width", "value_width", "policy_width"), self.widths, strict=True):
            if left := width % WIDTH_STEP:
                raise ValueError(
                    f"architecture: {name} is {width}, but must be a multiple of {WIDTH_STEP}, such as "
                    f"{width - left + WIDTH_STEP}"
                )

    @property
    def name(self) -> str:
        return f"sparse{self.width}"

    def of(self, features: SparseFeatures) -> Self:
        """Return the architecture for this set of features."""
        return dataclasses.replace(self, features=features.name)

    @property
    def widths(self) -> tuple[int, int, int]:
        return self.width, self.value_width, self.policy_width


def features_of(game: Game, architecture: Sparse | None = None) -> SparseFeatures:
    """Return the sparse features of a game. Raises ValueError if it has none, or others than
    `architecture`."""
    check_plays("sparse", game)
    assert game.sparse is not None
    # Numbers of features mean nothing in another set of features.
    if architecture is not None and architecture.features not in ("", game.sparse.name):
        raise ValueError(
            f"these weights read the features {architecture.features}, and {game.name} now has "
            f"{game.sparse.name}; train a new network, or use the version of the program that wrote them"
        )
    return game.sparse


@dataclass(frozen=True, eq=False)
class SparseCode:
    """The compiled part of a sparse network: what `search.compiled` binds into the search."""

    name: str
    bindings: Bindings
    evaluate: Callable[..., None] = sparse_kernel.evaluate


@cache
def code_for(game_name: str, widths: tuple[int, int, int]) -> SparseCode:
    """Return the code for a game and widths; the same object for the same arguments. Raises ValueError as
    `features_of`."""
    game = get_game(game_name)
    bound = sparse_kernel.network_bindings(game, features_of(game), *widths)
    return SparseCode("sparse" + "-".join(map(str, widths)), bound)


@cache
def kernels_for(game_name: str, widths: tuple[int, int, int]) -> Any:
    """Return the kernels of `net.sparse_kernel` for whole batches, compiled on their first call."""
    code = code_for(game_name, widths)
    return bind([sparse_kernel], {game_name: bindings(get_game(game_name)), code.name: code.bindings})


def as_vector(tensors: Mapping[str, Array], game: Game, architecture: Sparse) -> Vector:
    """Return the weights as the kernels read them (`sparse_kernel.Layout`), from the tensors of
    `net.architectures.sparse.SparseNetwork`. Shared rows are added to the rows of their features."""
    features = features_of(game, architecture)
    layout = sparse_kernel.layout_of(features, *architecture.widths)
    rows = tensors["rows"].astype(np.float32)
    if "shared_rows" in tensors:
        assert features.shared is not None
        for column in features.shared.T:
            has = column >= 0
            rows[has] += tensors["shared_rows"][column[has]]
    vector = np.zeros(layout.end, np.float32)

    def put(begin: int, part: Array) -> None:
        vector[begin : begin + part.size] = part.ravel()

    # Transposed where the kernels run over all outputs of one input, which are then neighbours in memory.
    put(0, rows)
    put(layout.bias, tensors["bias"])
    put(layout.out, np.concatenate([tensors["value.weight"], tensors["policy.weight"]]).T)
    put(layout.out_bias, tensors["value.bias"])
    put(layout.last, tensors["wdl.weight"].T)
    put(layout.last_bias, tensors["wdl.bias"])
    put(layout.rows, tensors["action_rows"])
    put(layout.row_bias, tensors["action_biases"])
    return vector


def shapes_of(features: SparseFeatures, architecture: Sparse) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a sparse network and their shapes, all float32."""
    width, value, policy = architecture.widths
    shared = 0 if features.shared is None else int(features.shared.max(initial=-1)) + 1
    shapes: dict[str, tuple[int, ...]] = {
        "rows": (features.features, width),
        "bias": (width,),
        "value.weight": (value, width),
        "value.bias": (value,),
        "wdl.weight": (3, value),
        "wdl.bias": (3,),
        "policy.weight": (policy, width),
        "action_rows": (features.action_rows, policy),
        "action_biases": (features.action_rows,),
    }
    return shapes | ({"shared_rows": (shared, width)} if shared else {})


class SparseInference:
    """A sparse network that a forest evaluates in its own step. `load` gives it weights."""

    def __init__(self, game: Game | str, history: int, architecture: Sparse | None = None) -> None:
        """Raises ValueError for a game without sparse features."""
        self.game = get_game(game) if isinstance(game, str) else game
        self.history = history
        self.widths = (architecture or Sparse("")).widths
        self.code = code_for(self.game.name, self.widths)
        self.version = 0
        self.meta: WeightsMeta | None = None
        self._vector: Vector | None = None

    @property
    def weights(self) -> Vector:
        """Return the weights in use. Raises RuntimeError before any were loaded."""
        if self._vector is None:
            raise RuntimeError("no weights are loaded yet")
        return self._vector

    def load(self, path: Path | str, sha256: bytes | None = None, version: int | None = None) -> WeightsMeta:
        """Use the weights in a file from the next search step on. `version`: as announced; None: the file's
        own. Raises BadWeights when they cannot be used, and OSError when the disk cannot be read; either way
        the old weights stay."""
        tensors, meta = read_tensors(path, game=self.game, history=self.history, sha256=sha256)
        architecture = meta.architecture
        if not isinstance(architecture, Sparse):
            raise BadWeights(f"{path}: these weights are of {architecture.name}, not of a sparse network")
        try:
            shapes = shapes_of(features_of(self.game, architecture), architecture)
            check_tensors(tensors, {name: (shape, "float32") for name, shape in shapes.items()})
        except (ValueError, BadWeights) as error:
            raise BadWeights(f"{path}: {error}") from error
        if architecture.widths != self.widths:
            raise BadWeights(f"{path}: these weights are of {architecture.name}, expected {self.widths}")
        self._vector, self.meta = as_vector(tensors, self.game, architecture), meta
        # Older weights may be announced under a new version, after a gate or a backup.
        self.version = meta.version if version is None else version
        return meta

    def answers(self, batch: LeafBatch) -> tuple[Vector, Vector]:
        """Return priors float32[sum of counts] and win, draw, loss float32[rows, 3] of a batch."""
        priors, wdl = np.empty(len(batch.actions), np.float32), np.empty((batch.rows, 3), np.float32)
        kernels = kernels_for(self.game.name, self.widths)
        features, counts, actions = batch
        kernels.evaluate_all(self.weights, features, self.history, counts, actions, priors, wdl)
        return priors, wdl

    def load_zeros(self) -> None:
        """Use weights that are all 0, to compile the code."""
        layout = sparse_kernel.layout_of(features_of(self.game), *self.widths)
        self._vector = np.zeros(layout.end, np.float32)

    def submit(self, batch: Any, reply: Any) -> None:  # noqa: ARG002
        """Complete the interface of an evaluator. A forest with its own network hands out no leaves."""
        raise RuntimeError("a forest with its own network hands out no leaves")


def inference_for(game: Game, history: int, network: str) -> SparseInference | None:
    """Return the network `network` without weights; None if it is of another family. Raises ValueError for a
    game without sparse features."""
    if not is_sparse(network):
        return None
    architecture = named(network)
    assert isinstance(architecture, Sparse)
    return SparseInference(game, history, architecture)


def code_name(game: Game, network: str) -> str:
    """Return the name of the code that is compiled into the search for this network; "" for another family.
    Raises ValueError as `inference_for`."""
    own = inference_for(game, game.history, network)
    return "" if own is None else own.code.name


def _network(architecture: Sparse, game: Game, history: int) -> Any:
    from net.architectures.sparse import SparseNetwork  # torch

    return SparseNetwork(architecture, game, history)


FAMILY = Family(
    Sparse, _network, {"sparse": Sparse()}, lambda found: Sparse(width=int(found["channels"] or 0))
)
