"""A network as an ONNX model, which programs without torch can run: planes in, policy and win/draw/loss out.

docs/networks.md says what the inputs and outputs are. Needs the packages of the extra `onnx`.
"""

from __future__ import annotations

import logging
import warnings

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from azselfplay.games.spec import Game
from net.architectures.network import Network, fold, wdl_of
from net.weights import WeightsMeta, describe

OPSET = 20
"""Version of ONNX's operators: of 2023, known to all current runtimes."""
CHECKED_POSITIONS = 5
RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Largest differences allowed between the float32 answers of two libraries."""


class Playing(nn.Module):
    """A network with its values as probabilities."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Planes `[n, planes, rows, cols]` to policy logits `[n, actions]` and wdl `[n, 3]`."""
        policy, value = self.network(planes)
        return policy, wdl_of(value)


def onnx_model(network: Network, game: Game, meta: WeightsMeta) -> bytes:
    """Return the ONNX model of a trained network, for any number of positions, with `meta` as its metadata.

    Raises ImportError without the packages `onnx` and `onnxscript`.
    """
    import onnx
    import onnxscript  # noqa: F401 - torch imports it late, with a worse message if it is missing

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    example = torch.zeros((2, game.planes(meta.history), game.rows, game.cols))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            Playing(fold(network)).eval(),
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


@torch.inference_mode()
def differences(model: bytes, network: Network, game: Game, history: int) -> str:
    """Describe how ONNX Runtime's answers differ from the network's; "" if they agree. Raises ImportError
    without ONNX Runtime."""
    import onnxruntime

    shape = (CHECKED_POSITIONS, game.planes(history), game.rows, game.cols)
    planes = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found: list[npt.NDArray[np.float32]] = session.run(["policy", "wdl"], {"planes": planes})
    expected = Playing(fold(network))(torch.from_numpy(planes))
    for name, theirs, ours in zip(("policy", "wdl"), found, expected, strict=True):
        if not np.allclose(theirs, ours.numpy(), RELATIVE, ABSOLUTE):
            return f"{name} by up to {np.abs(theirs - ours.numpy()).max():.3g}"
    return ""
