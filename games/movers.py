"""Who makes each move of a game, found by replaying it under its rules, not by counting plies."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from games.jit import bind, kernel, signed
from games.spec import Game, Positions
from games.stubs import bindings, play, side_to_move

KNOWN_STARTS = 1000
"""Number of start positions that are remembered."""

Signs = npt.NDArray[np.int8]
MoversOf = Callable[[str, npt.NDArray[np.uint16]], Signs]
"""The type of `Movers` for its users."""


@kernel
def write_movers(positions: Positions, actions: npt.NDArray[np.uint16], signs: Signs) -> None:
    """Write +1 for each of the first player's `actions`, -1 for each of the second's.

    positions: uint64[2, state_words]; row 0 is the start position, both are overwritten. actions:
    uint16[plies]. signs: int8[plies].
    """
    for ply in range(len(actions)):
        here = ply & 1
        signs[ply] = 1 if side_to_move(positions[here]) == 0 else -1
        play(positions[here], signed(actions[ply]), positions[1 - here])


class Movers:
    """Finds who makes each move, for one game. Holds scratch space: use one per thread."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._write = bind([sys.modules[__name__]], {game.name: bindings(game)}).write_movers
        self._line = np.zeros((2, game.state_words), np.uint64)
        self._starts: dict[str, npt.NDArray[np.uint64]] = {}

    def __call__(self, start: str, actions: npt.NDArray[np.uint16]) -> Signs:
        """int8[plies]: +1 where the first player moves, -1 where the second does.

        start: in the game's notation, as in a record; raises ValueError if it cannot be read. actions:
        uint16[plies] of a game under the rules (they are not checked again).
        """
        if start not in self._starts:
            if len(self._starts) >= KNOWN_STARTS:
                self._starts.clear()
            self._starts[start] = self._game.notation.state_from_text(start)
        self._line[0] = self._starts[start]
        signs = np.zeros(len(actions), np.int8)
        self._write(self._line, actions, signs)
        return signs
