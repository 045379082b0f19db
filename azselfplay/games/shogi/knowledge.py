"""Knowledge about shogi: openings, a heuristic by material, and the formats of game files.

The heuristic value of a position is material, on the board and in hand, in hundredths of a pawn
(`BY_CODE`). Captures and promotions are noisy.
"""
# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

import numpy as np

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.boards import bare_position
from azselfplay.games.jit import jit
from azselfplay.games.knowledge import Heuristic, Knowledge, Matches, Words
from azselfplay.games.shogi import notation
from azselfplay.games.shogi.attacks import DROP_PLANE, PROMOTION_PLANE, squares_of
from azselfplay.games.shogi.board import (
    BISHOP,
    GOLD,
    KNIGHT,
    LANCE,
    PAWN,
    PROMOTED,
    ROOK,
    SILVER,
    Board,
    Men,
    code_at,
    hand_of,
    in_hand,
    kinds_seen,
    men_of,
    occupied_of,
    side_to_move,
    sides_seen,
)
from azselfplay.games.shogi.game_end import END_REASONS, MATE
from azselfplay.games.shogi.game_files import CSA
from azselfplay.games.shogi.kif import KIF, kif_move
from azselfplay.games.spec import State

# ---- Openings ------------------------------------------------------------------------------------


BOOK = {
    "Yagura": "7g7f 8c8d 7i6h 3c3d 6h7g 7a6b 3i4h 5c5d",
    "Double Wing Attack": "2g2f 8c8d 2f2e 8d8e 6i7h 4a3b",
    "Bishop Exchange": "7g7f 8c8d 2g2f 8d8e 8h7g 3c3d 7i8h 2b7g+ 8h7g 3a2b",
    "Tempo Loss Bishop Exchange": "7g7f 3c3d 2g2f 2b8h+ 7i8h 3a2b",
    "Side Pawn Capture": "7g7f 3c3d 2g2f 8c8d 2f2e 8d8e 6i7h 4a3b 2e2d 2c2d 2h2d 8e8f 8g8f 8b8f 2d3d",
    "Fourth File Rook": "7g7f 3c3d 6g6f 8c8d 2h6h 7a6b",
    "Third File Rook": "7g7f 3c3d 6g6f 8c8d 2h7h 7a6b",
    "Cheerful Central Rook": "7g7f 3c3d 2g2f 5c5d 2f2e 8b5b",
    "Opposing Rook": "7g7f 3c3d 6g6f 8c8d 8h7g 8d8e 2h8h",
    "Snow Roof": "7g7f 3c3d 6g6f 8c8d 7i6h 7a6b 6h6g",
    "Climbing Silver": "2g2f 8c8d 2f2e 4a3b 3i3h 7a7b 3h2g",
    "Ishida": "7g7f 3c3d 7f7e 8c8d 2h7h",
    "Double Ranging Rook": "7g7f 3c3d 6g6f 3a3b 2h6h 8b4b",
    "Right Fourth File Rook": "2g2f 8c8d 7g7f 8d8e 8h7g 3c3d 7i6h 4c4d 4g4f 3a4b 3i4h",
}
"""Well-known openings, a few moves each: balanced, and as different as possible."""


# ---- Heuristic -----------------------------------------------------------------------------------


BY_CODE = np.array([0, 100, 300, 350, 500, 550, 800, 950, 0, 550, 550, 550, 550, 0, 1100, 1300], np.int64)
"""`[code % 16]`: nothing, pawn, lance, knight, silver, gold, bishop, rook, king, then the promoted pieces.
Promoted pawns, lances, knights and silvers count as golds."""
_PLAIN = np.uint64(15)
_PROMOTION_PLANE, _DROP_PLANE = np.uint64(PROMOTION_PLANE), np.uint64(DROP_PLANE)
_HORSE_MORE = int(BY_CODE[BISHOP + PROMOTED] - BY_CODE[BISHOP])
_DRAGON_MORE = int(BY_CODE[ROOK + PROMOTED] - BY_CODE[ROOK])
_PROMOTION_SCORE = 500


@jit
def _worth(board: Board, value: int) -> int:
    return value * np.int64(count_ones(board[0]) + count_ones(board[1]))


@jit
def _worth_of_side(men: Men, hand: np.uint64) -> int:
    total = _worth(men.pawns, BY_CODE[PAWN]) + _worth(men.lances, BY_CODE[LANCE])
    total += _worth(men.knights, BY_CODE[KNIGHT]) + _worth(men.silvers, BY_CODE[SILVER])
    total += _worth(men.golds, BY_CODE[GOLD])  # promoted small pieces are worth the same
    total += _worth(men.diagonal, BY_CODE[BISHOP]) + _worth(men.horses, _HORSE_MORE)
    total += _worth(men.straight, BY_CODE[ROOK]) + _worth(men.dragons, _DRAGON_MORE)
    for kind in range(PAWN, ROOK + 1):
        total += BY_CODE[kind] * np.int64(in_hand(hand, kind))
    return total


@jit
def material(state: State) -> int:
    """Return the material of the side to move minus the opponent's."""
    side = state[10] & ONE
    kinds = kinds_seen(state, ZERO)
    black, white = sides_seen(state, occupied_of(kinds), ZERO)
    ahead = _worth_of_side(men_of(kinds, black), hand_of(state, ZERO))
    ahead -= _worth_of_side(men_of(kinds, white), hand_of(state, ONE))
    return -ahead if side else ahead


@jit
def is_noisy(state: State, action: int) -> bool:
    """Return whether the move is a capture or a promotion."""
    _, target, plane = squares_of(action, state[10] & ONE)
    if plane >= _DROP_PLANE:
        return False
    return plane >= _PROMOTION_PLANE or code_at(state, target) != ZERO


@jit
def order_score(state: State, action: int) -> int:
    """Return the ordering score: first captures, by the most valuable victim and then the least valuable
    attacker; then promotions; then the rest."""
    origin, target, plane = squares_of(action, state[10] & ONE)
    if plane >= _DROP_PLANE:
        return 0
    victim, taker = code_at(state, target) & _PLAIN, code_at(state, origin) & _PLAIN
    if victim:
        # The victim's value dominates; the attacker's only decides between equal victims.
        return 10 * BY_CODE[victim] + 10 - BY_CODE[taker] // 100
    return _PROMOTION_SCORE if plane >= _PROMOTION_PLANE else 0


# ---- In the form of games.knowledge --------------------------------------------------------------


KNOWLEDGE = Knowledge(
    heuristic=Heuristic(
        evaluate=material, material=material, order_score=order_score, is_noisy=is_noisy, sees_reply=False
    ),
    book=BOOK,
    read_start=bare_position,
    svg=notation.svg,
    clicks=notation.CLICKS,
    words=Words(
        notation.COLOURS,
        lambda state, action, before: "▲△"[side_to_move(state)] + kif_move(state, action, before),
    ),
    formats=(CSA, KIF),
    matches=Matches(
        opponents=("random", "greedy", "alphabeta:1"),
        opening_plies=4,
        max_plies=400,  # 200 moves of each side: a mate that takes longer is not reliable
        mate=END_REASONS[MATE].name,
    ),
)
