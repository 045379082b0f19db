"""`azplay export`: a trained network as an ONNX model for other programs. docs/networks.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import write_result
from azselfplay.link.finding import RUNS, weights_named
from azselfplay.link.weights_files import read_weights

EXAMPLES = (
    "azplay export chess-tiny --onnx chess.onnx",
    "azplay export FILE --onnx PATH",
    "pip install 'azselfplay[onnx]'                   (what it needs beside the usual packages)",
)


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
    if config.onnx.is_dir():
        raise Fatal(f"--onnx {config.onnx} is a folder; name a file to write", Exit.CONFIG)
    if not config.onnx.parent.is_dir():
        folder = config.onnx.parent
        raise Fatal(f"--onnx {config.onnx}: there is no folder {folder}; make it first", Exit.CONFIG)
    if not config.network:
        raise Fatal("say which network: azplay export RUN --onnx PATH", Exit.USAGE)
    model, about = _model(weights_named(config.network, config.runs))
    write_result(config.onnx, model)
    print(f"{config.onnx}, {len(model):,} bytes: {about}")
    return int(Exit.OK)


def _model(weights: Path) -> tuple[bytes, str]:
    """Return (the model, its description). Raises Fatal(BAD_DATA) for weights that cannot be used."""
    from azselfplay.games import get_game
    from net.architectures.registry import name_of
    from net.onnx_export import RELATIVE, differences, onnx_model
    from net.weights import BadWeights, from_bytes, read_meta

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
    return model, f"{name_of(network.architecture)} for {game.name}, step {meta.step}; {matches}"
