"""`azplay export`: a trained network as an ONNX model, which programs without torch can run.

Planes in, policy and win/draw/loss out; docs/networks.md says more. It needs the packages of the extra
`onnx`.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import check_result, write_result
from azselfplay.link.finding import RUNS, weights_named
from azselfplay.link.weights_files import read_weights

if TYPE_CHECKING:
    from torch import nn

    from azselfplay.games.spec import Game
    from net.architectures.network import Network
    from net.weights import WeightsMeta

EXAMPLES = (
    "azplay export chess-tiny --onnx chess.onnx",
    "azplay export FILE --onnx PATH",
    "pip install 'azselfplay[onnx]'                   (what it needs beside the usual packages)",
)


OPSET = 20
"""Version of ONNX's operators: of 2023, known to all current runtimes."""
CHECKED_POSITIONS = 5
RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Largest differences allowed between the float32 answers of two libraries."""


@dataclass(frozen=True)
class ExportConfig:
    """A trained network for other programs: planes in, policy and win/draw/loss out (docs/networks.md)."""

    onnx: Path
    """File to write."""
    network: Positional[str] = ""
    """A run, by its folder or its name in --runs (its newest network is used), or a weights file."""
    runs: Path = RUNS
    """Folder of all runs."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(ExportConfig, command="azplay export", examples=EXAMPLES)
    # Check the path before the model is computed, which takes a minute.
    check_result(config.onnx, "--onnx")
    if not config.network:
        raise Fatal("say which network: azplay export RUN --onnx PATH", Exit.USAGE)
    from azselfplay.games import get_game
    from net.architectures.registry import name_of
    from net.weights import BadWeights, from_bytes, read_meta

    weights = weights_named(config.network, config.runs)
    try:
        data = read_weights(weights)
        game = get_game(read_meta(data).game)
        network, meta = from_bytes(data, game=game, history=read_meta(data).history)
    except (BadWeights, ValueError) as error:
        raise Fatal(f"{weights} cannot be used: {error}", Exit.BAD_DATA) from error
    if network.reads_features:
        raise Fatal(
            f"{weights} holds a network of the family {meta.architecture.family}, which reads lists of "
            "features and no planes, so other programs could not ask it: there is no ONNX form of it",
            Exit.CONFIG,
        )
    try:
        model = onnx_model(network, game, meta)
        # Compare both models on the same positions.
        wrong = differences(model, network, game, meta.history)
    # ONNX and its runtime are extras, which most installations do not have.
    except ImportError as error:
        raise Fatal(
            f"the package {error.name} is not installed, and azplay export needs it: "
            "pip install 'azselfplay[onnx]'",
            Exit.CONFIG,
        ) from error
    # A model that differs from our network must not be written: the program that uses it could not notice.
    if wrong:
        raise Fatal(
            f"ONNX Runtime and our network give different answers ({wrong}): nothing was written; please "
            "report this"
        )
    matches = f"its answers match the original network's to within {RELATIVE:.1%}"
    about = f"{name_of(network.architecture)} for {game.name}, step {meta.step}; {matches}"
    write_result(config.onnx, model)
    print(f"{config.onnx}, {len(model):,} bytes: {about}")
    return int(Exit.OK)


def playing(network: Network) -> nn.Module:
    """Return the network as a module from planes `[n, planes, rows, cols]` to policy logits `[n, actions]`
    and probabilities `[n, 3]` of win, draw and loss."""
    from torch import Tensor, nn

    from net.architectures.network import fold, wdl_of

    class Playing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = fold(network)

        def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
            policy, value = self.network(planes)
            return policy, wdl_of(value)

    return Playing().eval()


def onnx_model(network: Network, game: Game, meta: WeightsMeta) -> bytes:
    """Return the ONNX model of a trained network, for any number of positions, with `meta` as its metadata.

    Raises ImportError without the packages `onnx` and `onnxscript`.
    """
    import onnx
    import onnxscript  # noqa: F401 - torch imports it late, with a worse message if it is missing
    import torch

    from net.weights import describe

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    example = torch.zeros((2, game.planes(meta.history), game.rows, game.cols))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            playing(network),
            (example,),
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=["planes"],
            output_names=["policy", "wdl"],
            dynamic_shapes={"planes": {0: torch.export.Dim("positions")}},
        )
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(model, describe(meta))
    found: bytes = model.SerializeToString()
    return found


def differences(model: bytes, network: Network, game: Game, history: int) -> str:
    """Describe how ONNX Runtime's answers differ from the network's; "" if they agree. Raises ImportError
    without ONNX Runtime."""
    import numpy as np
    import onnxruntime
    import torch

    shape = (CHECKED_POSITIONS, game.planes(history), game.rows, game.cols)
    planes = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with torch.inference_mode():
        expected = playing(network)(torch.from_numpy(planes))
    found = session.run(["policy", "wdl"], {"planes": planes})
    for name, theirs, ours in zip(("policy", "wdl"), found, expected, strict=True):
        if not np.allclose(theirs, ours.numpy(), RELATIVE, ABSOLUTE):
            return f"{name} by up to {np.abs(theirs - ours.numpy()).max():.3g}"
    return ""
