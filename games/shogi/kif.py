"""Games of shogi as KIF files, which Japanese programs exchange. UTF-8, as the first line says.

Square `７六` is USI's 7f; a move is its target, the piece before the move, and its origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from games.bits import ONE
from games.knowledge import WrittenMove
from games.shogi.actions import DROP_PLANE, PROMOTION_PLANE, squares_of
from games.shogi.layout import CODE_LETTERS, REST, STATE_WORDS, WHITES, code_at, codes_of
from games.shogi.notation import action_from_usi, dropped_kind
from games.shogi.play import play
from games.shogi.records import remarks, side_to_move, up_to_resignation
from games.shogi.sfen import HAND_ORDER, hand_counts, state_from_sfen
from games.spec import State

SIDES = ("先手", "後手")
FILES, RANKS = "１２３４５６７８９", "一二三四五六七八九"
PIECES = ("", *"歩香桂銀金角飛玉と", "成香", "成桂", "成銀", "", "馬", "龍")
ON_BOARD = ("・", *"歩香桂銀金角飛玉と杏圭全", "", "馬", "龍")
"""Letters by code, like `PIECES`."""
NUMBERS = ("", "", *RANKS[1:], "十", *(f"十{one}" for one in RANKS[:8]))
"""Counts of a piece in a hand; a count of one is not written."""
BROKEN_OFF = "中断"
ENDS = {
    "mate": ("詰み", "の勝ち", False),
    "resignation": ("投了", "の勝ち", False),
    "perpetual_check_given": ("反則負け", "の反則勝ち", False),
    "perpetual_check_suffered": ("反則勝ち", "の反則勝ち", True),
    "declaration": ("入玉勝ち", "の入玉勝ち", True),
}
"""By end reason: the last line of the moves, what is said about the winner, and whether that is the side to
move."""


def kif(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """A game as KIF, like `games.shogi.records.csa`. Raises ValueError if a move is invalid."""
    state = state_from_sfen(start)
    moves = up_to_resignation(tags, state, moves)
    lines = ["#KIF version=2.0 encoding=UTF-8"]
    lines += [f"開始日時：{tags['Date'].replace('.', '/')}"] if "Date" in tags else []
    lines += [f"棋戦：{tags['Event']}"] if "Event" in tags else []
    lines += _position(state) if start else ["手合割：平手"]
    lines += [f"先手：{tags.get('White', '')}", f"後手：{tags.get('Black', '')}"]
    lines.append("手数----指手---------消費時間--")
    before = -1
    for number, one in enumerate(moves, 1):
        line, state, before = _played(state, one.move, before)
        lines += [f"{number:4} {line}", *_comments(remarks(one))]
    reasons = (tags.get("Termination", ""), ending.partition(":")[0])
    return "\n".join([*lines, *_end(state, len(moves), reasons), *_comments(ending)])


def _end(state: State, plies: int, reasons: Sequence[str]) -> list[str]:
    """How the game ended in `state`: as a move, and as a sentence."""
    if "repetition" in reasons:
        return [f"{plies + 1:4} 千日手", f"まで{plies}手で千日手"]
    found = next((ENDS[reason] for reason in reasons if reason in ENDS), None)
    if found is None:
        return [f"{plies + 1:4} {BROKEN_OFF}", f"まで{plies}手で{BROKEN_OFF}"]
    word, said, is_mover = found
    winner = SIDES[side_to_move(state) ^ (not is_mover)]
    return [f"{plies + 1:4} {word}", f"まで{plies}手で{winner}{said}"]


def _position(state: State) -> list[str]:
    """The board as a diagram, White's hand above, Black's below, and the side to move."""
    shown = [f"{'v' if code >= WHITES else ' '}{ON_BOARD[code % WHITES]}" for code in codes_of(state)]
    frame = f"+{'-' * 27}+"
    ranks = [f"|{''.join(shown[rank::9][::-1])}|{name}" for rank, name in enumerate(RANKS)]
    head = [f"{SIDES[1]}の持駒：{_hand(state, 1)}", f"  {' '.join(reversed(FILES))}"]
    return [
        *(*head, frame, *ranks, frame, f"{SIDES[0]}の持駒：{_hand(state, 0)}"),
        *(["後手番"] if side_to_move(state) else []),
    ]


def _hand(state: State, side: int) -> str:
    counts, kinds = hand_counts(state, side), [CODE_LETTERS.index(letter) for letter in HAND_ORDER]
    return "　".join(f"{PIECES[kind]}{NUMBERS[counts[kind]]}" for kind in kinds if counts[kind]) or "なし"


def _played(state: State, usi: str, before: int) -> tuple[str, State, int]:
    """The text of a move, the position after it, and its target; `before` is the target of the previous move.
    Raises ValueError if it is not legal."""
    action, child = action_from_usi(state, usi), np.zeros(STATE_WORDS, np.uint64)
    play(state, action, child)
    origin, target, plane = squares_of(action, state[REST] & ONE)
    file, rank = divmod(int(target), 9)
    to = "同　" if target == before else FILES[file] + RANKS[rank]
    if plane >= DROP_PLANE:
        return f"{to}{PIECES[dropped_kind(action)]}打", child, int(target)
    piece = PIECES[int(code_at(state, origin)) % WHITES]
    promotes = "成" if plane >= PROMOTION_PLANE else ""
    return f"{to}{piece}{promotes}({origin // 9 + 1}{origin % 9 + 1})", child, int(target)


def _comments(text: str) -> list[str]:
    return [f"*{line}" for line in text.splitlines()]
