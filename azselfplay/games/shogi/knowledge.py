"""What is known about shogi: openings, material, and game files.

The heuristic value of a position is material, on the board and in hand, in hundredths of a pawn
(`games.shogi.encoding.BY_CODE`). Captures and promotions are noisy.
"""
# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from azselfplay.games.bits import ONE, ZERO, count_ones
from azselfplay.games.jit import jit
from azselfplay.games.knowledge import Heuristic, Knowledge, Matches, WrittenMove
from azselfplay.games.shogi import GAME, notation
from azselfplay.games.shogi.attacks import DROP_PLANE, PROMOTION_PLANE, squares_of
from azselfplay.games.shogi.board import (
    BISHOP,
    CODE_LETTERS,
    GOLD,
    KNIGHT,
    LANCE,
    PAWN,
    PROMOTED,
    REST,
    ROOK,
    SILVER,
    WHITES,
    Board,
    Men,
    code_at,
    codes_of,
    hand_of,
    in_hand,
    kinds_seen,
    men_of,
    occupied_of,
    side_to_move,
    sides_seen,
)
from azselfplay.games.shogi.encoding import BY_CODE
from azselfplay.games.shogi.notation import (
    HAND_ORDER,
    action_from_usi,
    dropped_kind,
    hand_counts,
    state_from_sfen,
)
from azselfplay.games.shogi.rules import END_REASONS, MATE
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
    """Own material minus the opponent's, for the side to move."""
    side = state[10] & ONE
    kinds = kinds_seen(state, ZERO)
    black, white = sides_seen(state, occupied_of(kinds), ZERO)
    ahead = _worth_of_side(men_of(kinds, black), hand_of(state, ZERO))
    ahead -= _worth_of_side(men_of(kinds, white), hand_of(state, ONE))
    return -ahead if side else ahead


@jit
def is_noisy(state: State, action: int) -> bool:
    """Whether the move is a capture or a promotion."""
    _, target, plane = squares_of(action, state[10] & ONE)
    if plane >= _DROP_PLANE:
        return False
    return plane >= _PROMOTION_PLANE or code_at(state, target) != ZERO


@jit
def order_score(state: State, action: int) -> int:
    """Ordering score: the most valuable victim first, taken by the least valuable piece; then promotions;
    then the rest."""
    origin, target, plane = squares_of(action, state[10] & ONE)
    if plane >= _DROP_PLANE:
        return 0
    victim, taker = code_at(state, target) & _PLAIN, code_at(state, origin) & _PLAIN
    if victim:
        # The victim's value counts first; the taker's only decides between equal victims.
        return 10 * BY_CODE[victim] + 10 - BY_CODE[taker] // 100
    return _PROMOTION_SCORE if plane >= _PROMOTION_PLANE else 0


# ---- CSA files -----------------------------------------------------------------------------------
# The Computer Shogi Association's standard, version 2.2.


PIECE_NAMES = ("", "FU", "KY", "KE", "GI", "KI", "KA", "HI", "OU", "TO", "NY", "NK", "NG", "", "UM", "RY")
"""CSA's names by code."""
BETWEEN_GAMES = "/\n"


def csa(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """A game in CSA's format; where CSA has no word for how it ended, that is `%CHUDAN`, broken off. Raises
    ValueError if a move is invalid.

    tags: as in PGN; White is the first player, which is Black (sente) in shogi. moves: in USI; moves other
    than those played become comments, because CSA has no variations. ending: comment after the last move. How
    the game ended is the tag Termination, or else the beginning of this comment.
    """
    state = state_from_sfen(start)
    moves = up_to_resignation(tags, state, moves)
    lines = ["V2.2", f"N+{tags.get('White', '')}", f"N-{tags.get('Black', '')}"]
    lines += [f"${name.upper()}:{tags[name]}" for name in ("Event", "Site") if name in tags]
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
        # In CSA a drop comes from square 00.
        left = "00" if plane >= DROP_PLANE else _numbers(origin)
        # After the move: CSA names the piece that it has become.
        piece = PIECE_NAMES[int(code_at(state, target)) % WHITES]
        lines.append(f"{'-' if before[REST] & ONE else '+'}{left}{_numbers(target)}{piece}")
        lines += comments("'", remarks(one))
    mover, other = ("-", "+") if state[REST] & ONE else ("+", "-")
    ends = {
        "mate": "%TSUMI",
        "repetition": "%SENNICHITE",
        "perpetual_check_given": f"%{mover}ILLEGAL_ACTION",
        "perpetual_check_suffered": f"%{other}ILLEGAL_ACTION",
        "declaration": "%KACHI",
        "resignation": "%TORYO",
    }
    end = next((ends[reason] for reason in reasons(tags, ending) if reason in ends), "%CHUDAN")
    return "\n".join([*lines, end, *comments("'", ending)])


# ---- KIF files -----------------------------------------------------------------------------------
# Japanese programs exchange these. UTF-8, as the first line says. Square `７六` is USI's 7f; a move is its
# target, the piece before the move, and its origin.


KIF_SIDES = ("先手", "後手")

KIF_FILES, KIF_RANKS = "１２３４５６７８９", "一二三四五六七八九"

KIF_PIECES = ("", *"歩香桂銀金角飛玉と", "成香", "成桂", "成銀", "", "馬", "龍")

ON_BOARD = ("・", *"歩香桂銀金角飛玉と杏圭全", "", "馬", "龍")
"""Letters by code, like `KIF_PIECES`."""

KIF_NUMBERS = ("", "", *KIF_RANKS[1:], "十", *(f"十{one}" for one in KIF_RANKS[:8]))
"""Counts of a piece in a hand; a count of one is not written."""
BROKEN_OFF = "中断"

KIF_ENDS = {
    "mate": ("詰み", "の勝ち", False),
    "resignation": ("投了", "の勝ち", False),
    "perpetual_check_given": ("反則負け", "の反則勝ち", False),
    "perpetual_check_suffered": ("反則勝ち", "の反則勝ち", True),
    "declaration": ("入玉勝ち", "の入玉勝ち", True),
}
"""By end reason: the last line of the moves, what is said about the winner, and whether that is the side to
move."""


def kif(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """A game as KIF, like `csa`. Raises ValueError if a move is invalid."""
    state = state_from_sfen(start)
    moves = up_to_resignation(tags, state, moves)
    lines = ["#KIF version=2.0 encoding=UTF-8"]
    lines += [f"開始日時：{tags['Date'].replace('.', '/')}"] if "Date" in tags else []
    lines += [f"棋戦：{tags['Event']}"] if "Event" in tags else []
    # The usual start has a name (an even game). Others are drawn, White's hand above and Black's below.
    if not start:
        lines.append("手合割：平手")
    else:
        shown = [f"{'v' if code >= WHITES else ' '}{ON_BOARD[code % WHITES]}" for code in codes_of(state)]
        frame = f"+{'-' * 27}+"
        lines += [f"{KIF_SIDES[1]}の持駒：{_kif_hand(state, 1)}", f"  {' '.join(reversed(KIF_FILES))}", frame]
        lines += [f"|{''.join(shown[rank::9][::-1])}|{name}" for rank, name in enumerate(KIF_RANKS)]
        lines += [frame, f"{KIF_SIDES[0]}の持駒：{_kif_hand(state, 0)}"]
        lines += ["後手番"] if side_to_move(state) else []
    lines += [f"先手：{tags.get('White', '')}", f"後手：{tags.get('Black', '')}"]
    lines.append("手数----指手---------消費時間--")
    last = -1
    for number, one in enumerate(moves, 1):
        action = action_from_usi(state, one.move)
        origin, target, plane = squares_of(action, state[REST] & ONE)
        file, rank = divmod(int(target), 9)
        # A move to the square of the move before says so, instead of the square.
        line = "同　" if target == last else KIF_FILES[file] + KIF_RANKS[rank]
        if plane >= DROP_PLANE:
            line += f"{KIF_PIECES[dropped_kind(action)]}打"
        else:
            promotes = "成" if plane >= PROMOTION_PLANE else ""
            line += f"{KIF_PIECES[int(code_at(state, origin)) % WHITES]}{promotes}({_numbers(origin)})"
        lines += [f"{number:4} {line}", *comments("*", remarks(one))]
        state, last = GAME.after(state, action), int(target)
    # How the game ended: as a move, and as a sentence.
    given = reasons(tags, ending)
    found = next((KIF_ENDS[reason] for reason in given if reason in KIF_ENDS), None)
    word = sentence = "千日手" if "repetition" in given else BROKEN_OFF
    if found is not None and "repetition" not in given:
        word, said, is_mover = found
        sentence = f"{KIF_SIDES[side_to_move(state) ^ (not is_mover)]}{said}"
    end = [f"{len(moves) + 1:4} {word}", f"まで{len(moves)}手で{sentence}"]
    return "\n".join([*lines, *end, *comments("*", ending)])


def _kif_hand(state: State, side: int) -> str:
    counts, kinds = hand_counts(state, side), [CODE_LETTERS.index(letter) for letter in HAND_ORDER]
    held = [f"{KIF_PIECES[kind]}{KIF_NUMBERS[counts[kind]]}" for kind in kinds if counts[kind]]
    return "　".join(held) or "なし"


# ---- What both formats share ---------------------------------------------------------------------


def comments(mark: str, text: str) -> list[str]:
    return [f"{mark}{line}" for line in text.splitlines()]


def reasons(tags: Mapping[str, str], ending: str) -> tuple[str, str]:
    """Two texts of which one may be the name of the end reason."""
    return tags.get("Termination", ""), ending.partition(":")[0]


def remarks(one: WrittenMove) -> str:
    """The comment of a move, and a line for each alternative move."""
    return "\n".join([*filter(None, [one.comment]), *(f"{move} {comment}" for move, comment in one.others)])


def up_to_resignation(
    tags: Mapping[str, str], start: State, moves: Sequence[WrittenMove]
) -> Sequence[WrittenMove]:
    """The moves up to a resignation. In self-play a side resigns together with its move, which game files
    cannot express, so that move is left out."""
    winner = {"1-0": 0, "0-1": 1}.get(tags.get("Result", ""))
    # The winner is to move only after the loser's last move.
    is_after_it = winner is not None and winner == side_to_move(start) ^ (len(moves) & 1)
    return moves[:-1] if tags.get("Termination") == "resignation" and is_after_it else moves


def _numbers(square: int) -> str:
    """ "77" for 7g."""
    return f"{square // 9 + 1}{square % 9 + 1}"


# ---- In the form of games.knowledge --------------------------------------------------------------


KNOWLEDGE = Knowledge(
    heuristic=Heuristic(
        evaluate=material, material=material, order_score=order_score, is_noisy=is_noisy, sees_reply=False
    ),
    book=BOOK,
    svg=notation.svg,
    clicks=notation.CLICKS,
    pgn=csa,
    more_forms={"kif": kif},
    between_games=BETWEEN_GAMES,
    matches=Matches(
        opponents=("random", "greedy", "alphabeta:1"),
        opening_plies=4,
        max_plies=400,  # 200 moves of each side: a mate that takes longer is not reliable
        mate=END_REASONS[MATE].name,
    ),
)
