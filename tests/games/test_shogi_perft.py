"""Perft: the legal moves of shogi, counted to some depth and compared with published counts."""

from __future__ import annotations

import pytest

from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.notation import unchecked_state
from azselfplay.games.stubs import perft

SHOGI_PERFT = (
    ("start", "", 5, 19_861_490),
    ("most moves", "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1", 3, 53_393_368),
    ("middle game", "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1", 3, 4_809_015),
    ("drop-mate", "7lk/9/8S/9/9/9/9/7L1/8K b P 1", 4, 167_089),
    ("pins", "7k1/9/9/9/l2s5/6snb/9/9/8K b 2G 1", 3, 201_658),
    ("promoted", "k+n7/sg7/9/9/9/9/+r5K1g/7L1/2LN1R1+Bb b RBGSNLP 1", 3, 414_441),
    ("in hand", "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1", 2, 248_257),
)
"""Positions and counts from authors of shogi programs: name, SFEN, depth, leaves. The sixth has three rooks,
which no game can have."""

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
