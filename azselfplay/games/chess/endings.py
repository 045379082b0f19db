"""Tables of chess endgames: king and queen, rook, or bishop and knight against a bare king.

The result of every position is known. Each process computes a table on first use, which takes up to two
seconds. `probe` looks up a position, whichever colour has the men.

The tables are filled by retrograde analysis: from the mates, move by move backwards, to all won positions. A
table holds one byte per position: plies to mate with best play, `DRAWN` or `ILLEGAL`. White has the men,
Black a bare king. Index: white king + 64 * black king + 64^2 * first man (+ 64^3 * second man). The table
`white` is for White to move, `black` for Black to move. Castling, the fifty-move rule and history are
ignored.

In all jitted functions tables are uint8[64 ** (2 + men)], `kinds` are int64[1 or 2] of KNIGHT..QUEEN, and
`ways`, which has the size of a table, counts Black's moves that are not yet known to lose. Finding the
predecessors of a position is cheap: the men can move back, so a man may have come from any square that it
attacks.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from azselfplay.games.chess.board import (
    BISHOPS,
    BLACK,
    FLAGS,
    KING_ATTACKS,
    KINGS,
    KNIGHT_ATTACKS,
    KNIGHTS,
    PAWNS,
    QUEENS,
    RIGHTS_MASK,
    ROOKS,
    WHITE,
    bishop_attacks,
    rook_attacks,
)
from azselfplay.games.jit import jit
from azselfplay.games.spec import State

ENDINGS = ("KQK", "KRK", "KBNK")

KNIGHT, BISHOP, ROOK, QUEEN = 1, 2, 3, 4

ILLEGAL, DRAWN, UNKNOWN = 255, 254, 253
"""UNKNOWN occurs only while a table is being made."""

_PIECES = {"KQK": (QUEEN,), "KRK": (ROOK,), "KBNK": (BISHOP, KNIGHT)}

_WORDS = {"Q": QUEENS, "R": ROOKS, "P": PAWNS, "B": BISHOPS, "N": KNIGHTS}

Table = npt.NDArray[np.uint8]


class Ending(NamedTuple):
    """Both tables of an ending in which White has the men (for index and entries see above)."""

    name: str
    white: Table
    """White to move: plies to mate, DRAWN or ILLEGAL."""
    black: Table
    """Black to move."""


class TableEntry(NamedTuple):
    """A table's entry about a position, for the side to move."""

    value: int
    """+1, 0 or -1 for the side to move."""
    plies: int
    """Plies until mate with best play; 0 in a draw, and when mated."""


@cache
def ending(name: str) -> Ending:
    """Return the tables of one of ENDINGS."""
    men = len(name) - 2
    white, black = (np.zeros(64 ** (2 + men), np.uint8) for _ in range(2))
    solve_pieces(np.array(_PIECES[name], np.int64), white, black, np.zeros_like(white))
    return Ending(name, white, black)


def ending_of(state: State) -> str | None:
    """Return the name of the position's ending if there is a table for it, whichever side has the men; else
    None."""
    counts = {letter: int(state[word]).bit_count() for letter, word in _WORDS.items()}
    name = "K" + "".join(letter * counts[letter] for letter in "QRPBN") + "K"
    white, black = int(state[WHITE]), int(state[BLACK])
    bare = min(white.bit_count(), black.bit_count()) == 1
    return name if name in ENDINGS and bare and not state[FLAGS] & RIGHTS_MASK else None


def probe(state: State) -> TableEntry | None:
    """Return the table's result for a legal position; None if there is no table for its material. Raises
    ValueError if the table shows that the position is illegal."""
    name = ending_of(state)
    if name is None:
        return None
    strong_is_black = int(state[WHITE]).bit_count() == 1
    strong_to_move = bool(int(state[FLAGS]) & 1) == strong_is_black
    # In the table the strong side is White, so flip the board if it is Black.
    turn = 56 if strong_is_black else 0
    words = _words_of(name, strong_is_black)
    squares = [(int(state[piece] & state[side]).bit_length() - 1) ^ turn for piece, side in words]
    index = sum(square * 64**place for place, square in enumerate(squares))
    tables = ending(name)
    entry = int((tables.white if strong_to_move else tables.black)[index])
    if entry == ILLEGAL:
        raise ValueError("no legal position: the kings touch, or the side that has moved is in check")
    if entry == DRAWN:
        return TableEntry(0, 0)
    return TableEntry(1 if strong_to_move else -1, entry)


def _words_of(name: str, strong_is_black: bool) -> list[tuple[int, int]]:
    """Return (word of the piece, word of its side) for each man, in the order of a table's index."""
    strong, weak = (BLACK, WHITE) if strong_is_black else (WHITE, BLACK)
    return [(KINGS, strong), (KINGS, weak), *((_WORDS[letter], strong) for letter in name[1:-1])]


def state_at(name: str, index: int, *, strong_to_move: bool, strong_is_black: bool = False) -> State:
    """Return the position of a table's entry, with counters at 0. The board is flipped if Black has the
    men."""
    turn = 56 if strong_is_black else 0
    state = np.zeros(9, np.uint64)
    for place, (piece, side) in enumerate(_words_of(name, strong_is_black)):
        bit = np.uint64(1 << ((index >> 6 * place & 63) ^ turn))
        state[piece] |= bit
        state[side] |= bit
    black_to_move = strong_to_move == strong_is_black
    # Bit 0 is the side to move; if that is Black, one half-move has been played.
    state[FLAGS] = np.uint64(int(black_to_move) * (1 + (1 << 32)))
    return state


# ---- Solving, jitted -----------------------------------------------------------------------------


_LAST = np.uint64(63)
_SIX, _TWELVE, _EIGHTEEN = np.uint64(6), np.uint64(12), np.uint64(18)


@jit
def _attacks(kind: int, square: np.uint64, occupied: np.uint64) -> np.uint64:
    """Return the squares that a white piece attacks."""
    if kind == KNIGHT:
        return KNIGHT_ATTACKS[square]
    found = ZERO
    if kind != ROOK:
        found |= bishop_attacks(square, occupied)
    if kind != BISHOP:
        found |= rook_attacks(square, occupied)
    return found


@jit
def _men(index: np.uint64, count: int) -> np.uint64:
    """Return the squares of White's men other than the king."""
    men = ONE << ((index >> _TWELVE) & _LAST)
    if count == 2:
        men |= ONE << ((index >> _EIGHTEEN) & _LAST)
    return men


@jit
def _moved(index: np.uint64, shift: np.uint64, square: np.uint64) -> np.uint64:
    """Return the index after moving one man to another square."""
    return (index & ~(_LAST << shift)) | (square << shift)


@jit
def _begin(index: np.uint64, kinds: npt.NDArray[np.int64], white: Table, black: Table, ways: Table) -> None:
    """Initialise one index in both tables: illegal, drawn, mate, or unknown. `ways` gets the number of
    Black's moves."""
    count = len(kinds)
    wk, bk = index & _LAST, (index >> _SIX) & _LAST
    king, men = ONE << wk, _men(index, count)
    occupied = king | men
    # No two men on one square.
    alone = np.int64(count_ones(occupied)) == count + 1 and not occupied & (ONE << bk)
    if not alone or KING_ATTACKS[wk] & (ONE << bk):
        white[index] = black[index] = ILLEGAL
        return
    attacked = KING_ATTACKS[wk]
    for man in range(count):
        attacked |= _attacks(kinds[man], (index >> (_TWELVE + _SIX * np.uint64(man))) & _LAST, occupied)
    in_check = attacked & (ONE << bk)
    white[index] = ILLEGAL if in_check else UNKNOWN
    escapes = KING_ATTACKS[bk] & ~attacked
    ways[index] = count_ones(escapes)
    if not escapes:
        black[index] = 0 if in_check else DRAWN
    else:  # after a capture there is too little material to mate
        black[index] = DRAWN if escapes & men else UNKNOWN


@jit
def _before_white(index: np.uint64, kinds: npt.NDArray[np.int64], plies: int, white: Table) -> int:
    """Mark the positions from which White can move to this position, which Black loses. Returns how many are
    new."""
    wk = index & _LAST
    occupied = (ONE << wk) | (ONE << ((index >> _SIX) & _LAST)) | _men(index, len(kinds))
    found = 0
    for man in range(-1, len(kinds)):
        shift = ZERO if man < 0 else _TWELVE + _SIX * np.uint64(man)
        square = (index >> shift) & _LAST
        # -1 is the king.
        origins = KING_ATTACKS[square] if man < 0 else _attacks(kinds[man], square, occupied)
        origins &= ~occupied
        while origins:
            earlier = _moved(index, shift, count_trailing_zeros(origins))
            if white[earlier] == UNKNOWN:
                white[earlier] = plies
                found += 1
            origins &= origins - ONE
    return found


@jit
def _before_black(
    index: np.uint64, kinds: npt.NDArray[np.int64], plies: int, black: Table, ways: Table
) -> int:
    """Count one way less in all positions from which Black can move to this one, which White wins. A position
    without ways left is lost for Black. Returns how many lost positions are new."""
    bk = (index >> _SIX) & _LAST
    origins = KING_ATTACKS[bk] & ~((ONE << (index & _LAST)) | _men(index, len(kinds)))
    found = 0
    while origins:
        earlier = _moved(index, _SIX, count_trailing_zeros(origins))
        if black[earlier] == UNKNOWN:
            ways[earlier] -= 1
            if ways[earlier] == 0:
                black[earlier] = plies
                found += 1
        origins &= origins - ONE
    return found


@jit
def solve_pieces(kinds: npt.NDArray[np.int64], white: Table, black: Table, ways: Table) -> None:
    """Fill both tables for one or two pieces whose loss leaves a draw.

    kinds int64[1 or 2] of KNIGHT..QUEEN; white, black, ways uint8[64 ** (2 + len(kinds))].
    """
    for index in range(len(white)):
        _begin(np.uint64(index), kinds, white, black, ways)
    plies, found = 0, 1
    while found:
        found = 0
        for index in range(len(black)):
            # Only positions found in the last round can have new predecessors.
            if black[index] == plies:
                found += _before_white(np.uint64(index), kinds, plies + 1, white)
        for index in range(len(white)):
            if white[index] == plies + 1:
                found += _before_black(np.uint64(index), kinds, plies + 2, black, ways)
        plies += 2
    for index in range(len(white)):
        if white[index] == UNKNOWN:
            white[index] = DRAWN
        if black[index] == UNKNOWN:
            black[index] = DRAWN
