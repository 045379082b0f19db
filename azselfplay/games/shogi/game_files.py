"""Games of shogi in files: reads and writes CSA, the standard of computer shogi (version 2.2). Also has the
code that CSA shares with KIF (`kif`).

Black (sente) is the first player, even if White moves first in a handicap game.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from azselfplay.games.bits import ONE
from azselfplay.games.boards import centipawns
from azselfplay.games.knowledge import RESULTS, GameFormat, ReadGame, WrittenMove
from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.attacks import DROP_PLANE, squares_of
from azselfplay.games.shogi.board import (
    CODE_LETTERS,
    IN_ALL,
    PROMOTED,
    REST,
    WHITES,
    code_at,
    codes_of,
    side_to_move,
)
from azselfplay.games.shogi.notation import (
    START_SFEN,
    action_from_usi,
    hand_counts,
    sfen_of,
    state_from_sfen,
)
from azselfplay.games.spec import RESIGNATION, State

# ---- What both formats share ---------------------------------------------------------------------


class End(NamedTuple):
    """A way for a game to end: its words in files, and its value for the side that would be to move."""

    reason: str
    """As in the rules, or in the tag Termination."""
    csa: str
    kif: str
    value: int
    """+1 if that side wins, -1 if it loses, 0 for a draw."""
    said: str = "の勝ち"
    """KIF's words after the winner's name, or for a draw."""


ENDS = (
    End("mate", "%TSUMI", "詰み", -1),
    End(RESIGNATION, "%TORYO", "投了", -1),
    End("time", "%TIME_UP", "切れ負け", -1),
    End("repetition", "%SENNICHITE", "千日手", 0, "千日手"),
    End("impasse", "%JISHOGI", "持将棋", 0, "持将棋"),
    End("perpetual_check_given", "%{mover}ILLEGAL_ACTION", "反則負け", -1, "の反則勝ち"),
    End("perpetual_check_suffered", "%{other}ILLEGAL_ACTION", "反則勝ち", 1, "の反則勝ち"),
    End("declaration", "%KACHI", "入玉勝ち", 1, "の入玉勝ち"),
)
UNNAMED = {
    -1: next(end for end in ENDS if end.reason == RESIGNATION),
    0: End("", "%HIKIWAKE", "持将棋", 0, "持将棋"),
    1: next(end for end in ENDS if end.reason == "perpetual_check_suffered"),
}
"""The nearest ends, by value, if only the result is known."""
BROKEN_OFF = ("%CHUDAN", "中断")
"""Written (in CSA, in KIF) if the game has no result."""


def end_of(tags: Mapping[str, str], ending: str, side: int) -> End | None:
    """Return how a game ended, according to the tag Termination, or else to the beginning of its last
    comment. If neither is known, the tag Result decides. side: the side to move at the end."""
    reasons = (tags.get("Termination", ""), ending.partition(":")[0])
    for reason in reasons:
        if found := next((end for end in ENDS if end.reason == reason), None):
            return found
    outcome = next((one for one, text in RESULTS.items() if text == tags.get("Result")), None)
    return None if outcome is None else UNNAMED[-outcome if side else outcome]


def comments(mark: str, text: str) -> list[str]:
    return [f"{mark}{line}" for line in text.splitlines()]


def up_to_resignation(
    tags: Mapping[str, str], start: State, moves: Sequence[WrittenMove]
) -> Sequence[WrittenMove]:
    """Return the moves without one that was made together with a resignation. In self-play a side resigns
    together with its move, which game files cannot express, so that move is left out."""
    winner = {"1-0": 0, "0-1": 1}.get(tags.get("Result", ""))
    # If the winner is to move, the last move is the loser's.
    is_after_it = winner is not None and winner == side_to_move(start) ^ (len(moves) & 1)
    return moves[:-1] if tags.get("Termination") == RESIGNATION and is_after_it else moves


def numbers_of(square: int) -> str:
    """Return a square in digits: "77" for 7g."""
    return f"{square // 9 + 1}{square % 9 + 1}"


def usi_square(numbers: str) -> str:
    """Return a square as in USI: "7g" for "77"."""
    return numbers[0] + "abcdefghi"[int(numbers[1]) - 1]


@dataclass
class Placed:
    """A position as a file draws it, piece by piece."""

    codes: dict[str, int] = field(default_factory=dict)
    """Codes by square (`77`); White's pieces have `WHITES` added."""
    hands: tuple[Counter[int], Counter[int]] = field(default_factory=lambda: (Counter(), Counter()))
    side: int = 0

    def sfen(self) -> str:
        """Return the position as SFEN; "" is the usual start. Raises ValueError for an impossible
        position."""
        squares = (f"{file}{rank}" for file in range(1, 10) for rank in range(1, 10))
        text = sfen_of([self.codes.get(square, 0) for square in squares], self.hands, self.side, 1)
        # This checks the position, and gives the usual start only one text.
        return "" if np.array_equal(state_from_sfen(text), state_from_sfen("")) else text


def decoded(data: bytes) -> str:
    """Return the text of a file: UTF-8, or else Shift-JIS, as in most older files."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp932", "replace")


def read_game(
    start: str, moves: Sequence[str], outcome: int | None, ended: End | None, tags: Mapping[str, str]
) -> ReadGame:
    if not moves and not start:
        raise ValueError("it has neither moves nor a position")
    more = {"Termination": ended.reason} if ended else {}
    more |= {} if outcome is None else {"Result": RESULTS[outcome]}
    return ReadGame(start, moves, outcome, {**tags, **more})


# ---- Written -------------------------------------------------------------------------------------


PIECE_NAMES = ("", "FU", "KY", "KE", "GI", "KI", "KA", "HI", "OU", "TO", "NY", "NK", "NG", "", "UM", "RY")
"""CSA's names of pieces, by code."""
CSA_TAGS = {"$EVENT": "Event", "$SITE": "Site"}


def csa(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """Return a game in CSA's format. If it has no result, `%CHUDAN` (broken off) is written. Raises
    ValueError if a move is invalid.

    tags: as in PGN, where White is the first player; in shogi that is Black (sente). moves: in USI.
    Alternative lines become comments, because CSA has no variations. Values are written as on Floodgate (`**
    31`, in hundredths of a pawn for Black). ending: comment after the last move.
    """
    state = state_from_sfen(start)
    moves = up_to_resignation(tags, state, moves)
    lines = ["V2.2", f"N+{tags.get('White', '')}", f"N-{tags.get('Black', '')}"]
    lines += [f"{key}:{tags[name]}" for key, name in CSA_TAGS.items() if name in tags]
    # The start position: the board rank by rank, the hands, and the side to move.
    pieces = [f"{'-' if code >= WHITES else '+'}{PIECE_NAMES[code % WHITES]}" for code in codes_of(state)]
    squares = [piece if len(piece) > 1 else " * " for piece in pieces]
    lines += [f"P{rank + 1}{''.join(squares[rank::9][::-1])}" for rank in range(9)]
    for side, sign in enumerate("+-"):
        held = "".join(f"00{PIECE_NAMES[kind]}" * count for kind, count in hand_counts(state, side).items())
        lines += [f"P{sign}{held}"] if held else []
    lines.append("-" if state[REST] & ONE else "+")
    for one in moves:
        action, before = action_from_usi(state, one.move), state
        state = GAME.after(before, action)
        origin, target, plane = squares_of(action, before[REST] & ONE)
        # In CSA the origin of a drop is 00.
        left = "00" if plane >= DROP_PLANE else numbers_of(origin)
        # Read after the move: CSA names the piece after a promotion.
        piece = PIECE_NAMES[int(code_at(state, target)) % WHITES]
        lines.append(f"{'-' if before[REST] & ONE else '+'}{left}{numbers_of(target)}{piece}")
        lines += [] if one.value is None else [f"'** {centipawns(one.value)}"]
        lines += comments("'", one.comment)
        lines += [f"'{' '.join(line)} {comment}" for line, comment in one.others]
    mover, other = ("-", "+") if state[REST] & ONE else ("+", "-")
    end = end_of(tags, ending, side_to_move(state))
    word = end.csa.format(mover=mover, other=other) if end else BROKEN_OFF[0]
    return "\n".join([*lines, word, *comments("'", ending)])


# ---- Read ----------------------------------------------------------------------------------------


_CSA_MOVE = re.compile(r"([+-])([0-9]{2})([1-9]{2})([A-Z]{2})")
_CSA_PIECE = re.compile(r"([0-9]{2})([A-Z]{2})")
_CSA_VALUES = {end.csa: end.value for end in ENDS} | {
    "%ILLEGAL_MOVE": -1,
    "%HIKIWAKE": 0,
    "%MAX_MOVES": 0,
    "%MATTA": None,
    "%CHUDAN": None,
}
"""Value of the last word for the side to move. None, as for unknown words: the game has no result."""


def read_csa(data: bytes) -> Iterator[ReadGame | ValueError]:
    """Yield the games in a CSA file, as `GameFormat.read` says."""
    for text in re.split(r"^/.*$", decoded(data), flags=re.MULTILINE):
        words = list[str]()
        for line in text.splitlines():
            # Only moves, special words and times may share a line, separated by commas; names may contain
            # commas.
            parts = line.strip().split(",") if line[:1] in "+-%T" else [line.strip()]
            words += filter(None, parts if not line.startswith("'") else [])
        if not words:
            continue
        try:
            yield _csa_game(words)
        except ValueError as error:
            yield error


def _csa_game(words: Sequence[str]) -> ReadGame:
    tags, placed, state = dict[str, str](), Placed(), None
    start, moves, outcome, ended = "", list[str](), None, None
    for number, word in enumerate(words):
        key, _, value = word.partition(":")
        if word[:2] in ("N+", "N-"):
            tags["White" if word[1] == "+" else "Black"] = word[2:]
        elif word.startswith("$"):
            tags |= {CSA_TAGS[key]: value} if key in CSA_TAGS else {}
        elif word.startswith("P"):
            _csa_place(placed, word)
        elif word in ("+", "-"):
            placed.side = "+-".index(word)
            start = placed.sfen() if placed.codes else usual_start(placed.side)
            state = state_from_sfen(start)
        elif word.startswith(("+", "-")):
            if state is None:
                raise ValueError(f"the move {word!r} comes before the side to move, a line `+` or `-`")
            try:
                usi = _csa_move(state, word)
                state = GAME.after(state, action_from_usi(state, usi))
            except ValueError as error:
                raise ValueError(f"move {len(moves) + 1} ({word!r}): {error}") from error
            moves.append(usi)
        elif word.startswith("%") and state is not None:
            side = side_to_move(state)
            # A sign names the side that has done something illegal.
            named = word.replace(f"%{'+-'[side]}", "%{mover}").replace(f"%{'-+'[side]}", "%{other}")
            found = _CSA_VALUES.get(named)
            outcome = None if found is None else found if side == 0 else -found
            ended = next((end for end in ENDS if end.csa == named), None)
            break
        elif not word.startswith(("V", "T")):
            raise ValueError(f"statement {number + 1}, {word[:40]!r}, is none of CSA")
    if state is None:
        raise ValueError("it does not say which side moves first, in a line `+` or `-`")
    return read_game(start, moves, outcome, ended, tags)


def _csa_place(placed: Placed, word: str) -> None:
    """Read a line of a position: a rank (P1), the usual start without some pieces (PI), or pieces (P+)."""
    pieces = [(square, name) for square, name in _CSA_PIECE.findall(word[2:])]
    if any(name not in (*PIECE_NAMES[1:], "AL") for _, name in pieces):
        raise ValueError(f"{word[:60]!r} names a piece that there is not")
    if word.startswith("PI"):
        usual = codes_of(state_from_sfen(""))
        placed.codes |= {numbers_of(square): int(code) for square, code in enumerate(usual) if code}
        for square, _ in pieces:
            placed.codes.pop(square, None)
    elif word[1:2] in ("+", "-"):
        side = "+-".index(word[1])
        for square, name in pieces:
            if name == "AL":
                # AL: all pieces that are neither on the board nor in a hand.
                used = Counter(code % WHITES % PROMOTED for code in placed.codes.values())
                used += placed.hands[0] + placed.hands[1]
                placed.hands[side].update({kind: most - used[kind] for kind, most in IN_ALL.items()})
            elif square == "00":
                placed.hands[side][PIECE_NAMES.index(name)] += 1
            else:
                placed.codes[square] = PIECE_NAMES.index(name) + side * WHITES
    elif word[1:2].isdecimal() and word[1] != "0":
        # Pad the line: blanks at its end, which are empty squares, are often cut off.
        for file, piece in zip("987654321", re.findall("...", word[2:].ljust(27)), strict=False):
            if piece.strip() not in ("", "*"):
                if piece[0] not in "+-" or piece[1:] not in PIECE_NAMES[1:]:
                    raise ValueError(f"{piece!r} in {word[:40]!r} is no piece")
                of_white = WHITES * (piece[0] == "-")
                placed.codes[f"{file}{word[1]}"] = PIECE_NAMES.index(piece[1:]) + of_white
    else:
        raise ValueError(f"{word[:40]!r} is no part of a position")


def _csa_move(state: State, word: str) -> str:
    """Return a move in USI. CSA names the piece after the move, so a promotion shows only by comparison with
    the piece before it."""
    found = _CSA_MOVE.fullmatch(word)
    if not found or found[4] not in PIECE_NAMES[1:]:
        raise ValueError("it is not written as +7776FU")
    if "+-".index(found[1]) != side_to_move(state):
        raise ValueError("the other side is to move")
    _, left, target, name = found.groups()
    code = PIECE_NAMES.index(name)
    if left == "00":
        return f"{CODE_LETTERS[code]}*{usi_square(target)}"
    # There is no file or rank 0, so no piece there.
    place = (int(left[0]) - 1) * 9 + int(left[1]) - 1
    before = 0 if "0" in left else int(codes_of(state)[place]) % WHITES
    promotes = "+" if code == before + PROMOTED else ""
    if not promotes and code != before:
        raise ValueError(f"the piece on {left} is no {name}, and cannot become one")
    return usi_square(left) + usi_square(target) + promotes


def usual_start(side: int) -> str:
    return START_SFEN.replace(" b ", " w ") if side else ""


CSA = GameFormat("CSA", (".csa",), re.compile(r"V\d|N[+-]|P[I1+-]|'"), csa, read_csa, between="/\n")
