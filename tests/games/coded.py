"""Tic-tac-toe whose stones are sent as codes, for tests only: no real game has both codes and symmetries.
Importing it registers it with `get_game`."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.jit import jit
from azselfplay.games.names import GAME_MODULES
from azselfplay.games.spec import CodedCells, PackedScalars, Positions
from azselfplay.games.tic_tac_toe import CELLS
from azselfplay.games.tic_tac_toe import GAME as TIC_TAC_TOE


@jit
def encode(positions: Positions, n: int, history: int, packed_features: npt.NDArray[np.uint64]) -> None:
    """Write a word of codes for each position, newest first: 1 for a stone of the side that is to move now, 2
    for one of the other's. Then the number of stones in each, and 1 if the first player is to move."""
    for back in range(history):
        codes, own, other = ZERO, ZERO, ZERO
        if back < n:
            own, other = positions[n - 1 - back, back & 1], positions[n - 1 - back, 1 - (back & 1)]
        for cell in range(CELLS):
            bit = np.uint64(cell)
            code = ((own >> bit) & ONE) | (((other >> bit) & ONE) << ONE)
            codes |= code << (bit + bit)
        packed_features[back] = codes
        packed_features[history + back] = count_ones(own | other)
    packed_features[2 * history] = ZERO if positions[n - 1, 2] & ONE else np.uint64(0x3F800000)


NAME = "coded_tic_tac_toe"
GAME = replace(
    TIC_TAC_TOE,
    name=NAME,
    planes_per_position=0,
    coded_cells=CodedCells(2, ((), (0,), (1,))),
    scalars_per_position=PackedScalars(((4, CELLS),)),
    history=2,
    knowledge="",
    sparse=None,
    rules=replace(TIC_TAC_TOE.rules, encode=encode),
)
GAME_MODULES.setdefault(NAME, "coded")
