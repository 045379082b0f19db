"""Reads and writes FEN. A position that no game of chess could reach is refused with a sentence saying why.

Four liberties: the two counters may be missing (then 0 and 1), a move number of 0 means 1, "" stands for the
usual start, and an en-passant square is dropped when no legal move takes there, as python-chess's
`fen(en_passant="legal")` does. A half-move clock of 100 and more is kept: such a game goes on until somebody
claims the draw.
Castling rights without king and rook on their squares are refused, not dropped, because they are probably a
mistake.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from games.chess.attacks import KING_ATTACKS
from games.chess.ends import in_check
from games.chess.layout import (
    BLACK,
    CLOCK_MASK,
    CLOCK_SHIFT,
    EN_PASSANT_MASK,
    EN_PASSANT_SHIFT,
    FLAGS,
    KINGS,
    PLIES_MASK,
    PLIES_SHIFT,
    STATE_WORDS,
    WHITE,
    start,
)
from games.chess.play import en_passant_field
from games.spec import State

START_FEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
PIECES = "PNBRQK"
SQUARES = tuple(file + rank for rank in "12345678" for file in "abcdefgh")
COLOURS = ("White", "Black")
MAX_CLOCK, MAX_MOVE = 9999, 9999
"""No game is that long: after 150 half-moves without capture or pawn move it is drawn without a claim."""

_CASTLING = {"K": ("e1", "h1"), "Q": ("e1", "a1"), "k": ("e8", "h8"), "q": ("e8", "a8")}
_USUAL_COUNT = {"P": 8, "N": 2, "B": 2, "R": 2, "Q": 1}


def square_name(square: int) -> str:
    """0 -> "a1", 63 -> "h8"."""
    return SQUARES[square]


def piece_letters(state: State) -> list[str]:
    """64 letters, a1 first: upper case White, lower case Black, "" for an empty square."""
    letters = [""] * 64
    for piece, letter in enumerate(PIECES):
        for square in range(64):
            if int(state[piece]) >> square & 1:
                white = int(state[6]) >> square & 1
                letters[square] = letter if white else letter.lower()
    return letters


def state_from_fen(text: str) -> State:
    """The position that a FEN describes; "" is the usual start. Raises ValueError saying what is wrong with
    it."""
    state = np.zeros(STATE_WORDS, dtype=np.uint64)
    if not text.strip():
        start(state)
        return state
    fields = text.split()
    if len(fields) not in (4, 5, 6):
        raise ValueError(
            f"a FEN has 6 fields (board, side, castling, en passant, clock, move), or the first 4 or 5; "
            f"got {len(fields)} in {text!r}"
        )
    letters = _parse_board(fields[0])
    _check_men(letters)
    side = _parse_side(fields[1])
    rights = _parse_castling(fields[2], letters)
    file = _parse_en_passant(fields[3], side, letters)
    clock = _parse_number(fields[4], "half-move clock", 0, MAX_CLOCK) if len(fields) > 4 else 0
    move = _parse_number(fields[5], "move number", 0, MAX_MOVE) if len(fields) > 5 else 1
    if file is not None and clock:
        raise ValueError(f"half-move clock {clock} is impossible: a pawn has just moved ({fields[3]})")
    _fill_boards(state, letters)
    _check_kings(state, side)
    en_passant = 0 if file is None else int(en_passant_field(state, np.uint64(side), np.uint64(file)))
    plies = 2 * max(0, move - 1) + side
    flags = side | rights << 1 | en_passant << int(EN_PASSANT_SHIFT)
    state[FLAGS] = flags | clock << int(CLOCK_SHIFT) | plies << int(PLIES_SHIFT)
    return state


def state_to_fen(state: State) -> str:
    """The FEN of a position: six fields, with the en-passant square only when a legal move takes there."""
    letters = piece_letters(state)
    ranks = []
    for rank in range(7, -1, -1):
        text = "".join(letter or "1" for letter in letters[8 * rank : 8 * rank + 8])
        for run in range(8, 1, -1):
            text = text.replace("1" * run, str(run))
        ranks.append(text)
    flags = int(state[FLAGS])
    side = flags & 1
    castling = "".join(letter for bit, letter in enumerate("KQkq", 1) if flags >> bit & 1)
    field = flags >> int(EN_PASSANT_SHIFT) & int(EN_PASSANT_MASK)
    en_passant = "abcdefgh"[field - 1] + "63"[side] if field else "-"
    clock = flags >> int(CLOCK_SHIFT) & int(CLOCK_MASK)
    move = (flags >> int(PLIES_SHIFT) & int(PLIES_MASK)) // 2 + 1
    return f"{'/'.join(ranks)} {'wb'[side]} {castling or '-'} {en_passant} {clock} {move}"


def _parse_board(text: str) -> list[str]:
    ranks = text.split("/")
    if len(ranks) != 8:
        raise ValueError(f"the board of a FEN has 8 ranks separated by '/', got {len(ranks)} in {text!r}")
    letters: list[str] = []
    for number, rank in zip(range(8, 0, -1), ranks, strict=True):
        row: list[str] = []
        for character in rank:
            if character in "12345678":
                row += [""] * int(character)
            elif character.upper() in PIECES:
                row.append(character)
            else:
                raise ValueError(f"rank {number}: {character!r} is neither a piece nor a number 1-8")
        if len(row) != 8:
            raise ValueError(f"rank {number} has {len(row)} squares instead of 8: {rank!r}")
        letters = row + letters
    return letters


def _check_men(letters: list[str]) -> None:
    """Refuse what no game can reach: missing kings, pawns on the back ranks, more men than promotions
    give."""
    for name, of_colour in zip(COLOURS, (str.isupper, str.islower), strict=True):
        count = Counter(letter.upper() for letter in letters if letter and of_colour(letter))
        if count["K"] != 1:
            raise ValueError(f"{name} has {count['K']} kings instead of 1")
        extra = sum(max(0, count[piece] - usual) for piece, usual in _USUAL_COUNT.items() if piece != "P")
        if count["P"] + extra > 8:
            raise ValueError(
                f"{name} has {count['P']} pawns and {extra} more pieces than at the start: together 8 at most"
            )
    for square in (*range(8), *range(56, 64)):
        if letters[square].upper() == "P":
            raise ValueError(f"a pawn cannot stand on {square_name(square)}")


def _parse_side(text: str) -> int:
    if text not in ("w", "b"):
        raise ValueError(f"the side to move is 'w' or 'b', not {text!r}")
    return "wb".index(text)


def _parse_castling(text: str, letters: list[str]) -> int:
    """Four bits: White short, White long, Black short, Black long."""
    if text == "-":
        return 0
    if not set(text) <= set("KQkq") or len(set(text)) < len(text):
        raise ValueError(f"castling rights are '-' or some of KQkq, each once, not {text!r}")
    rights = 0
    for letter in text:
        king, rook = _CASTLING[letter]
        white = letter.isupper()
        if (letters[SQUARES.index(king)], letters[SQUARES.index(rook)]) != (
            ("K", "R") if white else ("k", "r")
        ):
            raise ValueError(
                f"castling right {letter!r} needs a king on {king} and a rook on {rook}; remove the letter"
            )
        rights |= 1 << "KQkq".index(letter)
    return rights


def _parse_en_passant(text: str, side: int, letters: list[str]) -> int | None:
    """The file of the pawn that has just advanced two squares, or None."""
    if text == "-":
        return None
    rank, pawn = (("6", "p"), ("3", "P"))[side]
    if text not in SQUARES or text[1] != rank:
        raise ValueError(
            f"the en-passant square is '-' or on rank {rank} when {COLOURS[side]} moves, not {text!r}"
        )
    square, forward = SQUARES.index(text), -8 if side == 0 else 8
    if letters[square + forward] != pawn or letters[square] or letters[square - forward]:
        raise ValueError(f"no {COLOURS[1 - side]} pawn can just have passed over {text}")
    return square % 8


def _parse_number(text: str, name: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or not low <= int(text) <= high:
        raise ValueError(f"the {name} of a FEN is a number from {low} to {high}, not {text!r}")
    return int(text)


def _fill_boards(state: State, letters: list[str]) -> None:
    for square, letter in enumerate(letters):
        if letter:
            bit = np.uint64(1 << square)
            state[PIECES.index(letter.upper())] |= bit
            state[6 if letter.isupper() else 7] |= bit


def _check_kings(state: State, side: int) -> None:
    """Refuse kings that touch, and a side to move that could take the other's king."""
    white, black = (int(state[KINGS] & state[colour]).bit_length() - 1 for colour in (WHITE, BLACK))
    if int(KING_ATTACKS[white]) >> black & 1:
        raise ValueError(f"the kings stand side by side on {square_name(white)} and {square_name(black)}")
    state[FLAGS] = 1 - side
    if in_check(state):
        raise ValueError(f"{COLOURS[side]} is to move but {COLOURS[1 - side]}'s king is in check")
