"""Weights files: safetensors with a description of the network in the metadata. Never pickle.

A file is written whole or not at all, and read with caution: it may come from another machine, another game
or another version of this code, and a net that answers NaN silently spoils a run. Only functions that make or
write a network import torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from azselfplay.games.spec import Game
from azselfplay.host.runs import write_atomically
from net.architectures.registry import Architecture, architecture_from_json

if TYPE_CHECKING:
    from net.architectures.network import Network

FORMAT = "azselfplay-net-1"
LEAST_IN_BLOCK = 7
"""Fewest tensors of a block in any family: a transformer's."""
_HEADER_LIMIT = 8 << 20
LARGEST_HALF = 65504.0
"""The largest number in float16."""
MOST_HISTORY = 8
"""Most positions in the features of any run."""
_MALFORMED = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""Exceptions that malformed metadata may raise; OverflowError: infinity in place of a whole number."""


class BadWeights(Exception):
    """A weights file that must not be used for play; the message says why in one sentence."""


@dataclass(frozen=True)
class WeightsMeta:
    """The metadata in a weights file."""

    game: str
    history: int
    """Positions in the features."""
    architecture: Architecture
    step: int = 0
    """Number of training steps of these weights."""
    version: int = 0
    """Number of the published weights in one run; 0: untrained."""


def to_bytes(module: Network, meta: WeightsMeta, *, half: bool = False) -> bytes:
    """Return the weights file as bytes. The same weights and metadata give the same bytes. `half`: write
    matrices and convolutions in float16, where their numbers fit; readers turn them into float32 again."""
    import safetensors.torch
    import torch

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    if half:
        for name, tensor in tensors.items():
            # Vectors, such as the variances of a normalisation, are small anyway.
            if tensor.dtype == torch.float32 and tensor.dim() > 1 and tensor.abs().max() <= LARGEST_HALF:
                tensors[name] = tensor.half()
    data = safetensors.torch.save(tensors)
    # The metadata are added here, because safetensors itself writes them in random order.
    (length,) = struct.unpack_from("<Q", data)
    header = {"__metadata__": describe(meta)} | json.loads(data[8 : 8 + length])
    text = json.dumps(header, separators=(",", ":")).encode()
    # The tensors begin at a multiple of 8, so that they can be read in place.
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def save(path: Path | str, module: Network, meta: WeightsMeta) -> str:
    """Write a weights file so that `path` holds all of it or its old content. Returns the sha256."""
    data = to_bytes(module, meta)
    write_atomically(Path(path), data)
    return hashlib.sha256(data).hexdigest()


def load(
    path: Path | str, *, game: Game, history: int, sha256: bytes | None = None
) -> tuple[Network, WeightsMeta]:
    """Return the network in a file, in eval mode on the CPU. Raises BadWeights when it cannot be used for
    this game, and OSError when the disk cannot be read at the moment: the file may be good.

    `sha256` as for `read_tensors`.
    """
    with _contents(path, sha256) as data:
        return from_bytes(data, game=game, history=history)


def read_tensors(
    path: Path | str, *, game: Game, history: int, sha256: bytes | None = None
) -> tuple[dict[str, npt.NDArray[Any]], WeightsMeta]:
    """Return the tensors in a file, not yet compared with those of its architecture. Raises as `load`.

    `sha256`: the announced hash, 32 bytes, or None if unknown. It is checked against the bytes that are used,
    because since they were stored the disk may have changed them to other plausible numbers.
    """
    with _contents(path, sha256) as data:
        return _tensors_of(data, game, history)


@contextlib.contextmanager
def _contents(path: Path | str, sha256: bytes | None) -> Iterator[bytes]:
    """Yield the bytes of a file. An error about them that the block raises names the file."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # a pipe or a device, which may have no end
            raise BadWeights(f"{path} is not a file")
        data = Path(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise BadWeights(f"{path}: cannot be read: {error.strerror}") from error
    # Check the same bytes that are used afterwards: the file may change between two reads.
    if sha256 is not None and (found := hashlib.sha256(data).digest()) != sha256:
        raise BadWeights(f"{path} is damaged: its sha256 is {found.hex()}, expected {sha256.hex()}")
    try:
        yield data
    except BadWeights as error:
        raise BadWeights(f"{path}: {error}") from None


def _tensors_of(data: bytes, game: Game, history: int) -> tuple[dict[str, npt.NDArray[Any]], WeightsMeta]:
    meta = read_meta(data)
    if meta.game != game.name:
        raise BadWeights(f"these weights are for the game {meta.game}, this run plays {game.name}")
    if meta.history != history:
        raise BadWeights(
            f"these weights take a history of {meta.history} positions, this run sends {history}"
        )
    try:
        tensors = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError) as error:
        raise BadWeights(f"not a whole safetensors file ({error}); fetch it again") from error
    halves = {
        name: tensor.astype(np.float32) for name, tensor in tensors.items() if tensor.dtype == np.float16
    }
    return tensors | halves, meta


def from_bytes(data: bytes, *, game: Game, history: int) -> tuple[Network, WeightsMeta]:
    """Like `load`, from the contents of a file."""
    import torch

    from net.architectures.network import build

    tensors, meta = _tensors_of(data, game, history)
    # Checked before building: modules take memory even without numbers, so a small file must not name many.
    blocks = getattr(meta.architecture, "blocks", 0)
    if len(tensors) < LEAST_IN_BLOCK * blocks:
        raise BadWeights(f"{len(tensors)} tensors are too few for the {blocks} blocks that its metadata name")
    try:
        with torch.device("meta"):  # shapes only: nothing is allocated or drawn before they are checked
            module = build(meta.architecture, game, history)
    except ValueError as error:
        raise BadWeights(str(error)) from error
    expected = {
        name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in module.state_dict().items()
    }
    check_tensors(tensors, expected)
    # Allocate memory only now, when every tensor has the right shape and finite numbers.
    module.to_empty(device="cpu").load_state_dict(
        {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items()}
    )
    return module.eval(), meta


def read_meta(data: bytes) -> WeightsMeta:
    """Return the metadata in a weights file's contents. Raises BadWeights when there are none that we
    understand."""
    # A safetensors file begins with 8 bytes of length and a JSON header.
    length, header = int.from_bytes(data[:8], "little"), None
    # A damaged length must not make us read a header of any size.
    if length <= min(_HEADER_LIMIT, len(data) - 8):
        with contextlib.suppress(ValueError, RecursionError):
            header = json.loads(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise BadWeights("not a safetensors file, or cut off; fetch it again")
    found = header.get("__metadata__")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadWeights(f"its metadata do not say format {FORMAT}: not a weights file of this program")
    try:
        architecture = architecture_from_json(found["architecture"])
    except _MALFORMED as error:
        raise BadWeights(
            f"unknown architecture ({error}); written by another version of this program?"
        ) from error
    try:
        game = found["game"]
        # Metadata are text in safetensors.
        history, step, version = (int(found[name]) for name in ("history", "step", "version"))
    except _MALFORMED as error:
        raise BadWeights(f"metadata missing or malformed ({error})") from error
    if not isinstance(game, str) or not 1 <= history <= MOST_HISTORY or not min(step, version) >= 0:
        raise BadWeights(
            f"metadata malformed: game {str(game)[:50]!r}, history {history}, step {step}, version {version}"
        )
    return WeightsMeta(game, history, architecture, step, version)


def check_tensors(
    found: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, tuple[tuple[int, ...], str]]
) -> None:
    """Raise BadWeights unless names, shapes and types are exactly as expected and all numbers are finite.
    `expected`: (shape, name of the type) by name."""
    other = "; are these weights of another network than the metadata name?"
    if missing := sorted(expected.keys() - found.keys()):
        raise BadWeights(f"{len(missing)} tensors are missing, the first is {missing[0]}{other}")
    if extra := sorted(found.keys() - expected.keys()):
        raise BadWeights(f"{len(extra)} tensors too many, the first is {extra[0]}{other}")
    for name, tensor in found.items():
        shape, dtype = expected[name]
        if tensor.shape != shape:
            raise BadWeights(f"{name} has the shape {list(tensor.shape)}, expected {list(shape)}")
        if tensor.dtype != dtype:
            raise BadWeights(f"{name} holds {tensor.dtype}, expected {dtype}")
        check_numbers(name, tensor)


def check_numbers(name: str, tensor: npt.NDArray[Any]) -> None:
    """Raise BadWeights if a network with these numbers could only answer nonsense. `name`: the tensor's."""
    if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
        raise BadWeights(f"{name} holds numbers that are not finite (NaN or Inf)")
    # The network takes the square root of a variance: the answers would be NaN.
    if name.endswith("running_var") and (tensor < 0).any():
        raise BadWeights(f"{name} holds a negative variance")


def describe(meta: WeightsMeta) -> dict[str, str]:
    """Return the metadata of a file as text: everything needed to build the network."""
    return {
        "format": FORMAT,
        "game": meta.game,
        "history": str(meta.history),
        "architecture": meta.architecture.to_json(),
        "step": str(meta.step),
        "version": str(meta.version),
    }
