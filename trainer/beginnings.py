"""The network that a run begins with, and whether a continued one has the heads that the settings require."""

from __future__ import annotations

from pathlib import Path

import torch

from games.spec import Game
from net.architectures.network import Network, build, with_heads
from net.architectures.registry import name_of, named
from net.weights import BadWeights, from_bytes
from protocol.messages import WeightsInfo
from runtime.exits import Exit, Fatal
from runtime.finding import weights_named
from runtime.runs import RunFolder
from runtime.weights_files import read_weights
from trainer.config import TrainerConfig

NEW = "new"
"""Used in place of a file: a new network, whatever the server plays with."""


def new_network(config: TrainerConfig, game: Game, history: int, preset: str) -> Network:
    """Return a network from `--weights`, `--net` or the game's preset. Raises Fatal(BAD_DATA, CONFIG) if that
    fails."""
    heads = config.loss.head_weights.keys()
    torch.manual_seed(config.seed)
    if config.weights not in ("", NEW):
        try:
            data = read_weights(weights_named(config.weights, Path(config.runs)))
            network = from_bytes(data, game=game, history=history)[0]
        except BadWeights as error:
            raise Fatal(f"--weights: {error}", Exit.BAD_DATA) from error
        if config.net and named(config.net) != network.architecture.played:
            raise Fatal(
                f"--weights {config.weights} holds a network {name_of(network.architecture)}, and --net asks "
                f"for {config.net}; leave out --net to train the network of the file",
                Exit.CONFIG,
            )
        return with_heads(network, game, history, heads)
    try:
        architecture = named(config.net or preset)
    except ValueError as error:
        raise Fatal(f"{error}; give it as --net", Exit.CONFIG) from None
    try:
        return build(architecture.with_heads(heads), game, history)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from None


def check_begins_anew(config: TrainerConfig, folder: RunFolder, played: WeightsInfo | None) -> None:
    """Check that a run without a usable checkpoint may begin. Raises Fatal(BAD_DATA) if a new network would
    replace trained weights, unless the user insists. `played`: the server's weights."""
    if played is None or played.step == 0 or config.weights:
        return
    raise Fatal(
        f"the server plays with weights of step {played.step} (version {played.version}), and there is no "
        f"checkpoint to go on from in {folder.checkpoints}: a new network would replace them. Restore the "
        "checkpoints or name the right run folder (--runs, --run); or go on from the server's weights with a "
        "new optimizer (--weights server); or insist on a new network (--weights new)",
        Exit.BAD_DATA,
    )


def check_heads(config: TrainerConfig, network: Network) -> None:
    """Raise Fatal when a loss is requested whose head this run's network lacks. (A head without a loss may
    stay.)"""
    for name in config.loss.head_weights:
        if not hasattr(network, name):
            raise Fatal(
                f"the network of this run has no head for --loss.heads {name}; leave it out, or begin "
                "another --run with it and --weights FILE, which adds the head",
                Exit.CONFIG,
            )
