"""The search's value of each position of a game, backed up from the searches and the result that follow it.

The outcome of a game is the true result of its positions plus the noise of all moves that were drawn after
them. TD(lambda) gives more weight to the searches that follow soon (Sutton 1988).
`tests/trainer/naive_search_values.py` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from games.spec import Game
from games.stubs import Movers
from protocol.records import GameRecord

ValuesOf = Callable[[GameRecord], npt.NDArray[np.float32]]
"""Returns [plies] values in [-1, 1] for the side to move."""


def root_values(record: GameRecord) -> npt.NDArray[np.float32]:
    """Return [plies] the value of each root after its own search, for the side to move."""
    return record.root_values


def search_values(game: Game, decay: float) -> ValuesOf:
    """Return a function that computes the values of a game's positions.

    decay: lambda of TD(lambda), 0..1: 0 is the position's own search, 1 the outcome. The
    function holds scratch space: use one per thread.
    """
    if not decay:
        return root_values
    movers = Movers(game)

    def values(record: GameRecord) -> npt.NDArray[np.float32]:
        signs = movers(record.start, record.actions)
        return backed_up(record, signs, decay)

    return values


def backed_up(record: GameRecord, signs: npt.NDArray[np.int8], decay: float) -> npt.NDArray[np.float32]:
    """Return [plies] the values, computed from the end of the game: `(1 - decay)` of the position's own
    search and `decay` of the value after it. Plies without a search take the value after them.

    signs: int8[plies] +1 where the first player moves, else -1.
    """
    searched = record.visited > 0
    of_first = (signs * record.root_values).astype(np.float64)
    found, value = np.zeros(record.plies), float(record.outcome)
    for ply in reversed(range(record.plies)):
        if searched[ply]:
            value = (1.0 - decay) * of_first[ply] + decay * value
        found[ply] = value
    return np.asarray(signs * found, np.float32)
