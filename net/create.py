"""`python -m net.create`: write the weights of an untrained network, the version 0 of a run.

azserver runs it for a new run, after it has checked the arguments. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from azselfplay.games import get_game
from azselfplay.games.names import listed
from azselfplay.host.exits import Exit, Fatal, guarded
from net.architectures.network import build
from net.architectures.registry import check_plays, named, preset_names
from net.weights import MOST_HISTORY, WeightsMeta, save


def create(game_name: str, history: int, preset: str, seed: int, path: Path) -> str:
    """Write untrained weights to `path`, the same for the same arguments. Returns their sha256.

    `history` 0 means the game's default. Raises ValueError for a `preset` that names no network of the
    game.
    """
    game = get_game(game_name)
    check_plays(preset, game)
    history = history or game.history
    # The caller's random numbers continue as if nothing had been drawn.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build(named(preset), game, history)
    return save(path, module, WeightsMeta(game.name, history, module.architecture))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m net.create", description=__doc__)
    parser.add_argument("--game", required=True, help=listed())
    parser.add_argument(
        "--history",
        type=int,
        choices=range(MOST_HISTORY + 1),
        default=0,
        help="positions seen; 0: the game's",
    )
    parser.add_argument("--preset", default="small", help=f"{', '.join(preset_names())} or sizes: 6x96se")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the weights")
    parser.add_argument("--out", type=Path, required=True, help="file to write (safetensors)")
    options = parser.parse_args(argv)
    try:
        digest = create(options.game, options.history, options.preset, options.seed, options.out)
    except ValueError as error:
        raise Fatal(str(error), Exit.CONFIG) from error
    print(f"{options.out} sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
