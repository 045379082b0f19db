"""Perft: the legal moves of shogi, counted to some depth and compared with published counts."""

from __future__ import annotations

import pytest

from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.notation import unchecked_state
from azselfplay.games.stubs import perft
from bench.rules import SHOGI_PERFT

COUNTS = (
    (30, 900, 25470, 719731, 19861490),
    (593, 105677, 53393368),
    (207, 28684, 4809015),
    (85, 639, 10786, 167089),
    (76, 2606, 201658),
    (45, 1148, 414441),
    (524, 248257),
)


@pytest.mark.parametrize(
    ("row", "counts"), list(zip(SHOGI_PERFT, COUNTS, strict=True)), ids=lambda row: row[0]
)
def test_perft_is_exact(row: tuple[str, str, int, int], counts: tuple[int, ...]) -> None:
    """Mates by a dropped pawn are not counted; moves that decline a promotion are."""
    _, sfen, depth, leaves = row
    state = unchecked_state(sfen)
    assert tuple(perft(GAME, state, so_far) for so_far in range(1, depth + 1)) == counts
    assert counts[-1] == leaves
