"""`python -m server.given_weights FILE`: check weights with which a run shall begin, and print what they are.

A process of its own, because describing a network needs torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from azselfplay.games import get_game
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.link.weights_files import read_weights
from net.architectures.registry import name_of
from net.weights import BadWeights, from_bytes


def described(file: Path, game: str, history: int) -> dict[str, Any]:
    """Return the name of the network in a file, and its step. Raises Fatal(BAD_DATA) unless it can play
    `game` with this history."""
    try:
        _, meta = from_bytes(read_weights(file), game=get_game(game), history=history)
    except BadWeights as error:
        raise Fatal(f"{file} cannot be used: {error}", Exit.BAD_DATA) from error
    return {"network": name_of(meta.architecture), "step": meta.step}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m server.given_weights", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--game", required=True)
    parser.add_argument("--history", type=int, required=True)
    print(json.dumps(described(**vars(parser.parse_args()))))
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
