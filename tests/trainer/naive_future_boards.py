"""Slow, obvious twin of `trainer.future_boards_kernel`: one position at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from naive_sampler import naive_symmetry
from naive_verify import positions_of

from games.spec import Game, Symmetry
from protocol.records import GameRecord


def naive_future_board(
    game: Game, record: GameRecord, ply: int, plies: int, symmetry: Symmetry | None
) -> npt.NDArray[np.uint64] | None:
    """Return the features (no history) of the last position at most `plies` later (0: in the game) with the
    same side to move; None if there is none."""
    positions = np.array(positions_of(game, record))
    last = min(ply + plies, record.plies) if plies else record.plies
    mover = game.rules.side_to_move(positions[ply])
    later = [at for at in range(ply + 1, last + 1) if game.rules.side_to_move(positions[at]) == mover]
    if not later:
        return None
    packed_features = np.zeros(game.feature_words(1), dtype=np.uint64)
    game.rules.encode(positions[: later[-1] + 1], later[-1] + 1, 1, packed_features)
    return packed_features if symmetry is None else naive_symmetry(game, packed_features, symmetry, 1)
