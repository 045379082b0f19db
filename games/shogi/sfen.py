"""Reads and writes SFEN. A position that no game of shogi could reach is refused with a sentence saying why.

Three liberties: the move number may be missing or 0 (then 1), "" and "startpos" stand for the usual start,
and pieces may be missing from the game, as in problems; but both kings must be there.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from games.shogi.attacks import AROUND
from games.shogi.ends import in_check
from games.shogi.layout import (
    CODE_LETTERS,
    HAND_BITS,
    HAND_SHIFT,
    IN_ALL,
    KING,
    KNIGHT,
    LANCE,
    PAWN,
    PLIES_SHIFT,
    PROMOTED,
    REST,
    STATE_WORDS,
    WHITES,
    codes_of,
    in_hand,
    start,
    write_codes,
)
from games.spec import State

START_SFEN = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
SQUARE_NAMES = tuple(f"{file}{rank}" for file in "123456789" for rank in "abcdefghi")
COLOURS = ("Black", "White")
MAX_MOVE = 9999
HAND_ORDER = "RBGSNLP"
"""The order of a hand in SFEN."""

_CODE_OF = {letters: code for code, letters in enumerate(CODE_LETTERS) if letters and code}
_NAMES = {1: "pawns", 2: "lances", 3: "knights", 4: "silvers", 5: "golds", 6: "bishops", 7: "rooks"}
_RANK_OF_NO_MOVE = {PAWN: 1, LANCE: 1, KNIGHT: 2}
"""Number of ranks in front on which the unpromoted piece would have no move."""


def state_from_sfen(text: str) -> State:
    """The position that an SFEN describes; "" is the usual start. Raises ValueError saying what is wrong with
    it."""
    state = unchecked_state(text)
    check_position(state)
    return state


def unchecked_state(text: str) -> State:
    """Like `state_from_sfen`, but for any text that is an SFEN, even with two kings of a side or three
    rooks."""
    state = np.zeros(STATE_WORDS, dtype=np.uint64)
    if text.strip() in ("", "startpos"):
        start(state)
        return state
    fields = text.split()
    if len(fields) not in (3, 4):
        raise ValueError(
            f"an SFEN has 4 fields (board, side, hands, move number), or the first 3; got {len(fields)} "
            f"in {text!r}"
        )
    write_codes(state, _parse_board(fields[0]))
    if fields[1] not in ("b", "w"):
        raise ValueError(f"the side to move is 'b' or 'w', not {fields[1]!r}")
    plies = _parse_move_number(fields[3]) - 1 if len(fields) > 3 else 0
    state[REST] = "bw".index(fields[1]) | _parse_hands(fields[2]) << 1 | plies << int(PLIES_SHIFT)
    return state


def check_position(state: State) -> None:
    """Raise ValueError saying why no game of shogi reaches the position."""
    codes = codes_of(state)
    _check_pieces(codes, Counter(hand_counts(state, 0)) + Counter(hand_counts(state, 1)))
    _check_squares(codes)
    _check_kings(state, codes)


def state_to_sfen(state: State) -> str:
    """The SFEN of a position, four fields."""
    codes, rest = codes_of(state), int(state[REST])
    ranks = []
    for rank in range(9):
        row = "".join(piece_letters(codes[9 * file + rank]) or "1" for file in reversed(range(9)))
        ranks.append(re.sub("1+", lambda run: str(len(run[0])), row))
    hands = "".join(
        (str(count) if count > 1 else "") + piece_letters(CODE_LETTERS.index(letter) + side * WHITES)
        for side in range(2)
        for letter in HAND_ORDER
        if (count := hand_counts(state, side)[CODE_LETTERS.index(letter)])
    )
    return f"{'/'.join(ranks)} {'bw'[rest & 1]} {hands or '-'} {(rest >> int(PLIES_SHIFT)) + 1}"


def piece_letters(code: int) -> str:
    """ "P", "+r", ...: upper case Black; "" for an empty square."""
    letters = CODE_LETTERS[code % WHITES] if code else ""
    return letters.lower() if code >= WHITES else letters


def hand_counts(state: State, side: int) -> dict[int, int]:
    """Pieces of each kind in a hand, including zeros."""
    hand = np.uint64(int(state[REST]) >> 1 + side * int(HAND_BITS))
    return {kind: int(in_hand(hand, kind)) for kind in IN_ALL}


def _parse_board(text: str) -> list[int]:
    """[81] codes."""
    ranks = text.split("/")
    if len(ranks) != 9:
        raise ValueError(f"the board of an SFEN has 9 ranks separated by '/', got {len(ranks)} in {text!r}")
    codes = [0] * 81
    for rank, (name, row) in enumerate(zip("abcdefghi", ranks, strict=True)):
        found: list[int] = []
        for piece in re.findall(r"\+?.", row):
            if re.fullmatch("[1-9]", piece):
                found += [0] * int(piece)
            elif piece.upper() in _CODE_OF:
                found.append(_CODE_OF[piece.upper()] + (WHITES if piece.islower() else 0))
            else:
                raise ValueError(f"rank {name}: {piece!r} is neither a piece nor a number 1-9")
        if len(found) != 9:
            raise ValueError(f"rank {name} has {len(found)} squares instead of 9: {row!r}")
        for file, code in zip(reversed(range(9)), found, strict=True):
            codes[9 * file + rank] = code
    return codes


def _parse_hands(text: str) -> int:
    """The bits of both hands."""
    if text == "-":
        return 0
    if not re.fullmatch(r"((?:[2-9]|1[0-8])?[RBGSNLPrbgsnlp])+", text):
        raise ValueError(
            f"the hands are '-' or pieces with their number before them, as in RB2g3p, not {text!r}"
        )
    bits, seen = 0, set()
    for number, letter in re.findall(r"(\d*)(\D)", text):
        kind, count = _CODE_OF[letter.upper()], int(number or 1)
        if letter in seen or count > IN_ALL[kind]:
            raise ValueError(f"the hands {text!r} have {letter!r} twice, or more than {IN_ALL[kind]} of it")
        seen.add(letter)
        bits |= count << int(HAND_SHIFT[kind]) + letter.islower() * int(HAND_BITS)
    return bits


def _parse_move_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) > MAX_MOVE:
        raise ValueError(f"the move number of an SFEN is a number from 0 to {MAX_MOVE}, not {text!r}")
    return max(1, int(text))


def _check_pieces(codes: list[int], in_hands: Counter[int]) -> None:
    """Refuse more pieces than the game has, and any number of kings other than one each."""
    for side, name in enumerate(COLOURS):
        kings = codes.count(KING + side * WHITES)
        if kings != 1:
            raise ValueError(f"{name} has {kings} kings instead of 1")
    counts = Counter(code % PROMOTED for code in codes) + in_hands
    for kind, most in IN_ALL.items():
        if counts[kind] > most:
            raise ValueError(f"there are {counts[kind]} {_NAMES[kind]}, and the game has {most}")


def _check_squares(codes: list[int]) -> None:
    """Refuse pieces without moves, and two pawns of one side on a file."""
    for side, name in enumerate(COLOURS):
        for square, code in enumerate(codes):
            ahead = square % 9 if side == 0 else 8 - square % 9
            if ahead < _RANK_OF_NO_MOVE.get(code - side * WHITES, 0):
                raise ValueError(f"{name}'s {piece_letters(code)} on {SQUARE_NAMES[square]} has no move")
        for file in range(9):
            if codes[9 * file : 9 * file + 9].count(PAWN + side * WHITES) > 1:
                raise ValueError(f"{name} has two unpromoted pawns on file {file + 1}")


def _check_kings(state: State, codes: list[int]) -> None:
    """Refuse kings that touch, and a side to move that could take the other's king."""
    black, white = codes.index(KING), codes.index(KING + WHITES)
    around = int(AROUND[black, 0]) | int(AROUND[black, 1]) << 63
    if around >> white & 1:
        raise ValueError(f"the kings stand side by side on {SQUARE_NAMES[black]} and {SQUARE_NAMES[white]}")
    other = state.copy()
    other[REST] ^= np.uint64(1)
    if in_check(other):
        side = int(state[REST]) & 1
        raise ValueError(f"{COLOURS[side]} is to move but {COLOURS[1 - side]}'s king is in check")
