"""Jitted code that makes the targets of the future-board head: the board some plies later in the game.

KataGo has such targets a few moves ahead; with the last position of a game they come close to its ownership
target (arXiv 1902.10565, section 3.4). `tests/trainer/naive_future_boards.py` is the slow twin.

The outcome says one thing about a whole game. The board that a position led to says something about each
cell, and costs self-play nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.jit import kernel, signed
from games.spec import Positions
from games.stubs import side_to_move
from trainer.sampler_kernel import Scratch, SymmetryMaps, replay_game, replay_to, write_features
from trainer.samples import FutureBoards
from trainer.window import Rings


@kernel
def write_future_boards(
    rings: Rings,
    starts: Positions,
    numbers: npt.NDArray[np.int64],
    symmetries: npt.NDArray[np.int64],
    maps: SymmetryMaps,
    plies: int,
    scratch: Scratch,
    boards: FutureBoards,
) -> None:
    """Write the target of each of the positions `numbers [n]`, seen through `symmetries [n]` (0: as it is).

    That is the last position within `plies` plies (0: within the game) that has the same side to move, so
    that its features show the board from the same side. boards: n rows to fill.
    """
    positions = scratch.positions
    for row in range(len(numbers)):
        ply = replay_game(rings, starts, numbers[row], positions)
        at = signed(rings.game_plies[signed(rings.game[numbers[row] % len(rings.action)])])
        if plies > 0:
            at = min(at, ply + plies)
        replay_to(rings, numbers[row], at - ply, positions[ply:])
        while at > ply and side_to_move(positions[at]) != side_to_move(positions[ply]):
            at -= 1
        boards.known[row] = at > ply
        write_features(scratch, maps, 1, at + 1, symmetries[row], boards.packed_features[row])
