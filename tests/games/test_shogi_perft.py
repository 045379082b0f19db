"""Perft: the legal moves of shogi, counted to some depth and compared with published counts."""

import pytest
from perft import perft

from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.notation import unchecked_state

SHOGI_PERFT = (
    ("start", "", (30, 900, 25470, 719731, 19861490)),
    ("most moves", "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1", (593, 105677, 53393368)),
    (
        "middle game",
        "l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1",
        (207, 28684, 4809015),
    ),
    ("drop-mate", "7lk/9/8S/9/9/9/9/7L1/8K b P 1", (85, 639, 10786, 167089)),
    ("pins", "7k1/9/9/9/l2s5/6snb/9/9/8K b 2G 1", (76, 2606, 201658)),
    ("promoted", "k+n7/sg7/9/9/9/9/+r5K1g/7L1/2LN1R1+Bb b RBGSNLP 1", (45, 1148, 414441)),
    ("in hand", "9/9/9/3k5/9/5K3/9/9/9 b RB2G2S2N2L9Prb2g2s2n2l9p 1", (524, 248257)),
)
"""Name, SFEN, and the leaves at each depth, from authors of shogi programs. The sixth has three rooks, which
no game can have."""


@pytest.mark.parametrize(("name", "sfen", "counts"), SHOGI_PERFT)
def test_perft_is_exact(name: str, sfen: str, counts: tuple[int, ...]) -> None:
    """Mates by a dropped pawn are not counted; moves that decline a promotion are."""
    state = unchecked_state(sfen)
    assert tuple(perft(GAME, state, depth) for depth in range(1, len(counts) + 1)) == counts, name
