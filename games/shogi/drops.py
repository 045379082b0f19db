"""Drops, and the one that is forbidden: mate by a dropped pawn. The board is turned to the side to move."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from games.bits import ONE, count_trailing_zeros
from games.jit import jit
from games.shogi.actions import DROP_PLANE
from games.shogi.attacks import DOWN, UP, attackers_of, pinned, safe_steps
from games.shogi.boards import (
    IN_FIRST_WORD,
    NOT_LAST_RANK,
    NOT_LAST_TWO_RANKS,
    OWN_LAST_RANK,
    Board,
    contains,
    lowest,
    overlap,
    single,
    some,
    union,
    without,
)
from games.shogi.layout import KNIGHT, LANCE, PAWN, ROOK, Men, in_hand

_EIGHT = np.uint64(8)
_SQUARES = np.uint64(81)
_BEFORE_PAWNS = np.uint64(DROP_PLANE - PAWN)


@jit
def _clear_of(pawns: np.uint64, last_rank: np.uint64) -> np.uint64:
    """The files of one word without any of `pawns`, of which no file has two."""
    # A pawn borrows its bit from the file's bit of the last rank, so that this bit stays set only on files
    # without a pawn; twice that bit minus the file's lowest bit is the whole file.
    free = (last_rank - pawns) & last_rank
    return (free << ONE) - (free >> _EIGHT)


@jit
def files_clear_of(pawns: Board) -> Board:
    """All squares of the files without any of `pawns`."""
    return _clear_of(pawns[0], OWN_LAST_RANK[0]), _clear_of(pawns[1], OWN_LAST_RANK[1])


@jit
def mates(pawn: np.uint64, men: Men, foes: Men, sides: tuple[Board, Board]) -> bool:
    """Whether a pawn dropped on the empty square `pawn`, in front of the other's king, mates.

    It does when no piece but the king can take it (a pinned one cannot) and the king has no safe step: the
    pawn itself may shield a square from the dropping side's pieces.
    """
    foe = sides[1]
    king = lowest(foes.king)
    occupied = union(union(sides[0], foe), single(pawn))
    takers = attackers_of(pawn, foes, occupied, DOWN)
    if some(without(takers, pinned(king, foe, men, occupied, UP))):
        return False
    return not some(safe_steps(king, foe, men, occupied, UP))


@jit
def _pawn_goals(men: Men, foes: Men, sides: tuple[Board, Board], goals: Board) -> Board:
    """Where a pawn may be dropped: not on a file with a pawn of the same side, and not to mate."""
    goals = overlap(overlap(goals, NOT_LAST_RANK), files_clear_of(men.pawns))
    before_king = lowest(foes.king) + ONE
    if contains(goals, before_king) and before_king % np.uint64(9) and mates(before_king, men, foes, sides):
        goals = without(goals, single(before_king))
    return goals


@jit
def write_drops(
    hand: np.uint64,
    men: Men,
    foes: Men,
    sides: tuple[Board, Board],
    goals: Board,
    actions: npt.NDArray[np.uint16],
    count: np.uint64,
) -> np.uint64:
    """Append the drops onto empty squares of `goals`; returns the new count.

    hand: of the side to move. sides: its squares and the other's. actions: uint16[max_legal].
    """
    empty = without(goals, union(sides[0], sides[1]))
    for kind in range(PAWN, ROOK + 1):
        if in_hand(hand, kind):
            targets = empty
            if kind == PAWN:
                targets = _pawn_goals(men, foes, sides, empty)
            elif kind == LANCE:
                targets = overlap(empty, NOT_LAST_RANK)
            elif kind == KNIGHT:
                targets = overlap(empty, NOT_LAST_TWO_RANKS)
            first = (_BEFORE_PAWNS + np.uint64(kind)) * _SQUARES
            low, high = targets
            while low:
                actions[count] = first + count_trailing_zeros(low)
                count += ONE
                low &= low - ONE
            first += IN_FIRST_WORD
            while high:
                actions[count] = first + count_trailing_zeros(high)
                count += ONE
                high &= high - ONE
    return count
