"""Perft: the legal moves of chess, counted to some depth and compared with published counts."""

import pytest
from chess import STARTING_FEN as START_FEN
from perft import perft

from azselfplay.games.chess import GAME
from azselfplay.games.chess.notation import state_from_fen

KNOWN = [
    (START_FEN, (20, 400, 8902, 197281, 4865609)),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", (48, 2039, 97862, 4085603)),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", (14, 191, 2812, 43238, 674624, 11030083)),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", (6, 264, 9467, 422333, 15833292)),
    ("r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1", (6, 264, 9467, 422333)),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", (44, 1486, 62379, 2103487)),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", (46, 2079, 89890)),
    ("n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1", (24, 496, 9483, 182838)),
]
"""Positions, and the leaves at each depth, as collected by the chess programming community."""
TRICKY = [
    ("en passant would uncover a check along the rank", "3k4/3p4/8/K1P4r/8/8/8/8 b - - 0 1", 6, 1134888),
    ("en passant would uncover a check on the diagonal", "8/8/4k3/8/2p5/8/B2P2K1/8 w - - 0 1", 6, 1015133),
    ("en passant takes the checker", "8/8/1k6/2b5/2pP4/8/5K2/8 b - d3 0 1", 6, 1440467),
    ("short castling gives check", "5k2/8/8/8/8/8/8/4K2R w K - 0 1", 6, 661072),
    ("long castling gives check", "3k4/8/8/8/8/8/8/R3K3 w Q - 0 1", 6, 803711),
    ("rooks are taken at home", "r3k2r/1b4bq/8/8/8/8/7B/R3K2R w KQkq - 0 1", 4, 1274206),
    ("castling is prevented", "r3k2r/8/3Q4/8/8/5q2/8/R3K2R b KQkq - 0 1", 4, 1720476),
    ("a promotion gets out of check", "2K2r2/4P3/8/8/8/8/8/3k4 w - - 0 1", 6, 3821001),
    ("a discovered check", "8/8/1P2K3/8/2n5/1q6/8/5k2 b - - 0 1", 5, 1004658),
    ("a promotion gives check", "4k3/1P6/8/8/8/8/K7/8 w - - 0 1", 6, 217342),
    ("an underpromotion gives check", "8/P1k5/K7/8/8/8/8/8 w - - 0 1", 6, 92683),
    ("self-stalemate", "K1k5/8/P7/8/8/8/8/8 w - - 0 1", 6, 2217),
    ("stalemate and checkmate", "8/k1P5/8/1K6/8/8/8/8 w - - 0 1", 7, 567584),
    ("double check", "8/8/2k5/5q2/5n2/8/5K2/8 b - - 0 1", 4, 23527),
]


@pytest.mark.parametrize(("fen", "counts"), KNOWN)
def test_perft_of_known_positions_is_exact(fen: str, counts: tuple[int, ...]) -> None:
    state = state_from_fen(fen)
    assert tuple(perft(GAME, state, depth) for depth in range(1, len(counts) + 1)) == counts


@pytest.mark.parametrize(("what", "fen", "depth", "count"), TRICKY)
def test_perft_is_exact_where_generators_go_wrong(what: str, fen: str, depth: int, count: int) -> None:
    assert perft(GAME, state_from_fen(fen), depth) == count, what
