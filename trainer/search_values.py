"""The search's value of each position of a game, backed up from the searches and the result that follow it.

The outcome of a game is the true result of its positions plus the noise of all moves that were drawn after
them. Two known remedies: TD(lambda) gives more weight to the searches that follow soon (Sutton 1988), and
lc0's rescorer lets nothing after a blunder count for what was before it. `tests/trainer/
naive_search_values.py` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from games.movers import Movers
from games.spec import Game
from protocol.records import GameRecord

ValuesOf = Callable[[GameRecord], npt.NDArray[np.float32]]
"""Returns [plies] values in [-1, 1] for the side to move."""


def root_values(record: GameRecord) -> npt.NDArray[np.float32]:
    """Return [plies] the value of each root after its own search, for the side to move."""
    return record.root_values


def search_values(game: Game, decay: float, blunder: float) -> ValuesOf:
    """Return a function that computes the values of a game's positions.

    decay: lambda of TD(lambda), 0..1: 0 is the position's own search, 1 the outcome. blunder: above 0, what
    follows a move that was not the most visited one and cost more than this does not count for the positions
    before it; 0: everything counts. The function holds scratch space: use one per thread.
    """
    if not decay:
        return root_values
    movers = Movers(game)

    def values(record: GameRecord) -> npt.NDArray[np.float32]:
        signs = movers(record.start, record.actions)
        return backed_up(record, signs, decay, blunder)

    return values


def backed_up(
    record: GameRecord, signs: npt.NDArray[np.int8], decay: float, blunder: float
) -> npt.NDArray[np.float32]:
    """Return [plies] the values, computed from the end of the game: `(1 - decay)` of the position's own
    search and `decay` of the value after it. Plies without a search take the value after them.

    signs: int8[plies] +1 where the first player moves, else -1.
    """
    searched = record.visited > 0
    of_first = (signs * record.root_values).astype(np.float64)
    next_search = np.append(of_first[1:], record.outcome)
    lost = signs * (of_first - next_search)
    is_known = searched & np.append(searched[1:], True)
    ends = is_known & ~_most_visited(record) & (lost > blunder) if blunder else np.zeros(record.plies, bool)
    found, value = np.zeros(record.plies), float(record.outcome)
    for ply in reversed(range(record.plies)):
        if ends[ply]:
            value = of_first[ply]
        elif searched[ply]:
            value = (1.0 - decay) * of_first[ply] + decay * value
        found[ply] = value
    return np.asarray(signs * found, np.float32)


def _most_visited(record: GameRecord) -> npt.NDArray[np.bool_]:
    """Return [plies] whether no other move had more visits than the one that was played."""
    found = np.zeros(record.plies, np.bool_)
    ends = np.cumsum(record.visited, dtype=np.int64)
    for ply in np.flatnonzero(record.visited).tolist():
        here = slice(int(ends[ply]) - int(record.visited[ply]), int(ends[ply]))
        visits = record.visits[here]
        own = visits[record.visit_actions[here] == record.actions[ply]]
        found[ply] = len(own) > 0 and own[0] == visits.max()
    return found
