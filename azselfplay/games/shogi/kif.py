"""Reads and writes games of shogi as KIF, the format that Japanese programs exchange. Variations are written,
but not read.

Files are written in UTF-8, as their first line says. Square `７六` is USI's 7f. A move is written as its
target, the piece before the move, and its origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from azselfplay.games.bits import ONE
from azselfplay.games.boards import centipawns
from azselfplay.games.knowledge import GameFormat, ReadGame, WrittenMove
from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.attacks import DROP_PLANE, PROMOTION_PLANE, squares_of
from azselfplay.games.shogi.board import (
    CODE_LETTERS,
    IN_ALL,
    REST,
    WHITES,
    code_at,
    codes_of,
    side_to_move,
)
from azselfplay.games.shogi.game_files import (
    BROKEN_OFF,
    ENDS,
    Placed,
    comments,
    decoded,
    end_of,
    numbers_of,
    read_game,
    up_to_resignation,
    usi_square,
    usual_start,
)
from azselfplay.games.shogi.notation import (
    HAND_ORDER,
    KANJI,
    RANK_KANJI,
    action_from_usi,
    dropped_kind,
    hand_counts,
    state_from_sfen,
)
from azselfplay.games.spec import State

# ---- Written -------------------------------------------------------------------------------------


KIF_SIDES = ("先手", "後手")

KIF_FILES = "１２３４５６７８９"

KIF_PIECES = ("", *"歩香桂銀金角飛玉と", "成香", "成桂", "成銀", "", "馬", "龍")

ON_BOARD = ("・", *KANJI[1:])
"""One character for each piece by code, like `KIF_PIECES`."""

KIF_NUMBERS = ("", "", *RANK_KANJI[1:], "十", *(f"十{one}" for one in RANK_KANJI[:8]))
"""Numbers of pieces of a kind in a hand; the number one is not written."""


def kif(tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str) -> str:
    """Return a game as KIF, from the arguments of `csa`, with alternative lines as variations. Values become
    comments in the style of engines (`**解析 0 評価値 31`), in hundredths of a pawn for Black. Raises
    ValueError if a move is invalid."""
    state = state_from_sfen(start)
    moves = up_to_resignation(tags, state, moves)
    lines = ["#KIF version=2.0 encoding=UTF-8"]
    lines += [f"開始日時：{tags['Date'].replace('.', '/')}"] if "Date" in tags else []
    lines += [f"棋戦：{tags['Event']}"] if "Event" in tags else []
    # The usual start has a name (an even game). Other positions are drawn, with White's hand above and
    # Black's below.
    if not start:
        lines.append("手合割：平手")
    else:
        shown = [f"{'v' if code >= WHITES else ' '}{ON_BOARD[code % WHITES]}" for code in codes_of(state)]
        frame = f"+{'-' * 27}+"
        lines += [f"{KIF_SIDES[1]}の持駒：{_kif_hand(state, 1)}", f"  {' '.join(reversed(KIF_FILES))}", frame]
        lines += [f"|{''.join(shown[rank::9][::-1])}|{name}" for rank, name in enumerate(RANK_KANJI)]
        lines += [frame, f"{KIF_SIDES[0]}の持駒：{_kif_hand(state, 0)}"]
        lines += ["後手番"] if side_to_move(state) else []
    lines += [f"先手：{tags.get('White', '')}", f"後手：{tags.get('Black', '')}"]
    lines.append("手数----指手---------消費時間--")
    before: int | None = None
    variations = list[tuple[int, list[str]]]()
    for number, one in enumerate(moves, 1):
        for line, comment in one.others:
            found = _kif_line(state, before, number, line)
            head = ["", f"変化：{number}手", found[0], *comments("*", comment)]
            variations.append((number, head + found[1:]))
        lines += _kif_line(state, before, number, [one.move])
        lines += [] if one.value is None else [f"**解析 0 評価値 {centipawns(one.value)}"]
        lines += comments("*", one.comment)
        before = action_from_usi(state, one.move)
        state = GAME.after(state, before)
    # Write how the game ended twice: as a move, and as a sentence.
    end = end_of(tags, ending, side_to_move(state))
    word = sentence = end.kif if end else BROKEN_OFF[1]
    if end is not None and end.value:
        sentence = f"{KIF_SIDES[side_to_move(state) ^ (end.value < 0)]}{end.said}"
    lines += [f"{len(moves) + 1:4} {word}", f"まで{len(moves)}手で{sentence}", *comments("*", ending)]
    # Latest first, so that each branches off the main line, not off the variation above it.
    for _, variation in sorted(variations, key=lambda one: -one[0]):
        lines += variation
    return "\n".join(lines)


def _kif_line(state: State, before: int | None, number: int, line: Iterable[str]) -> list[str]:
    """Return moves as lines of KIF; the first has the number `number`. `before`: the action that led to
    `state`."""
    lines = []
    for at, move in enumerate(line, number):
        action = action_from_usi(state, move)
        lines.append(f"{at:4} {kif_move(state, action, before)}")
        state, before = GAME.after(state, action), action
    return lines


def kif_move(state: State, action: int, before: int | None) -> str:
    """Return a move as in KIF: its target, the piece before the move, and its origin, as in ７六歩(77). If
    the target is that of the move `before`, the word for "same" replaces the square."""
    origin, target, plane = squares_of(action, state[REST] & ONE)
    file, rank = divmod(int(target), 9)
    last = None if before is None else squares_of(before, state[REST] & ONE ^ ONE)[1]
    square = "同　" if target == last else KIF_FILES[file] + RANK_KANJI[rank]
    if plane >= DROP_PLANE:
        return f"{square}{KIF_PIECES[dropped_kind(action)]}打"
    promotes = "成" if plane >= PROMOTION_PLANE else ""
    return f"{square}{KIF_PIECES[int(code_at(state, origin)) % WHITES]}{promotes}({numbers_of(origin)})"


def _kif_hand(state: State, side: int) -> str:
    counts = hand_counts(state, side)
    held = [f"{KIF_PIECES[kind]}{KIF_NUMBERS[counts[kind]]}" for kind in HAND_ORDER if counts[kind]]
    return "　".join(held) or "なし"


# ---- Read ----------------------------------------------------------------------------------------


HANDICAPS = {
    "平手": "lnsgkgsnl/1r5b1",
    "香落ち": "lnsgkgsn1/1r5b1",
    "右香落ち": "1nsgkgsnl/1r5b1",
    "角落ち": "lnsgkgsnl/1r7",
    "飛車落ち": "lnsgkgsnl/7b1",
    "飛香落ち": "lnsgkgsn1/7b1",
    "二枚落ち": "lnsgkgsnl/9",
    "三枚落ち": "lnsgkgsn1/9",
    "四枚落ち": "1nsgkgsn1/9",
    "五枚落ち": "2sgkgsn1/9",
    "左五枚落ち": "1nsgkgs2/9",
    "六枚落ち": "2sgkgs2/9",
    "左七枚落ち": "2sgkg3/9",
    "右七枚落ち": "3gkgs2/9",
    "八枚落ち": "3gkg3/9",
    "十枚落ち": "4k4/9",
}
"""White's two back ranks in SFEN, by handicap."""
SIDE_MARKS = "▲△▼▽☗☖"
"""Some programs write one of them before each move."""
_KIF_CODES = {
    name: code for names in (ON_BOARD, KIF_PIECES) for code, name in enumerate(names) if name and code
}
_KIF_CODES |= {"王": _KIF_CODES["玉"], "竜": _KIF_CODES["龍"]}
_KIF_MOVE = re.compile(
    rf"\s*([0-9]+)\s+[{SIDE_MARKS}]?(同|[１-９1-9][一二三四五六七八九])[\s　]*"
    rf"({'|'.join(sorted(_KIF_CODES, key=len, reverse=True))})(打|成|不成)?(?:\(([1-9]{{2}})\))?(?!\w)"
)
_KIF_WORD = re.compile(r"\s*[0-9]+\s+(\S+)")
_KIF_LIKE_MOVE = re.compile(rf"[{SIDE_MARKS}同０-９0-9]")
_KIF_HEADER = re.compile(r"([^\s：:*#&|+]{1,20})(?:：|(?<=[^\x00-\x7f]):)(.*)")
"""A key in Japanese may have the colon of ASCII; `https:` is no key."""
_KIF_HELD = re.compile(rf"(.)([{RANK_KANJI}十]*)")
_KIF_ENDS = {end.kif: end for end in ENDS}
_KIF_ENDS |= {
    "勝ち宣言": _KIF_ENDS["入玉勝ち"],
    "入玉宣言": _KIF_ENDS["入玉勝ち"],
    "詰": _KIF_ENDS["詰み"],
    "時間切れ": _KIF_ENDS["切れ負け"],
}
_KIF_VALUES = {word: end.value for word, end in _KIF_ENDS.items()} | {
    "不戦勝": 1,
    "不戦敗": -1,
    "中断": None,
    "封じ手": None,
    "不詰": None,
}
"""Value of the last word for the side to move. None, as for unknown words: the game has no result."""
_KIF_TAGS = {"先手": "White", "下手": "White", "後手": "Black", "上手": "Black"}
_KIF_TAGS |= {"開始日時": "Date", "棋戦": "Event", "場所": "Site"}
_MOVES_FOLLOW = "手数--"


def read_kif(data: bytes) -> Iterator[ReadGame | ValueError]:
    """Yield the games in a KIF file, as `GameFormat.read` says. A file may have several, each with its
    header."""
    games, has_moves = [list[str]()], False
    for line in decoded(data).splitlines():
        is_move = bool(_KIF_WORD.match(line))
        is_head = _KIF_HEADER.match(line) and not line.startswith("変化")
        if has_moves and (is_head or line.startswith(("#KIF", _MOVES_FOLLOW))):
            games.append([])
            has_moves = False
        has_moves = has_moves or is_move
        games[-1].append(line)
    for lines in games:
        if any(line.strip() for line in lines):
            try:
                yield _kif_game(lines)
            except ValueError as error:
                yield error


def _kif_game(lines: Sequence[str]) -> ReadGame:
    placed, tags, handicap = Placed(), dict[str, str](), "平手"
    moves, outcome, ended, last, rank = list[str](), None, None, "", 0
    for line in lines:
        # Skip comments on moves, comments on the file, and bookmarks.
        if line.startswith(("*", "#", "&")):
            continue
        # Variations follow the main line and are not read.
        if line.startswith("変化"):
            break
        # A line of a drawn board; the first is rank 1.
        if line.startswith("|"):
            rank += 1
            for file, (sign, name) in zip("987654321", re.findall(r"([ v^])(.)", line[1:]), strict=False):
                if name in _KIF_CODES:
                    placed.codes[f"{file}{rank}"] = _KIF_CODES[name] + WHITES * (sign == "v")
        elif line.strip() in ("後手番", "上手番"):
            placed.side = 1
        elif found := _KIF_MOVE.match(line):
            _, square, piece, how, origin = found.groups()
            # 同 repeats the target of the move before.
            if square != "同":
                column = KIF_FILES.find(square[0]) + 1 or int(square[0])
                last = f"{column}{'abcdefghi'[RANK_KANJI.index(square[1])]}"
            if not last:
                number = len(moves) + 1
                raise ValueError(f"move {number}: 同 means the square of the move before, and there is none")
            if how == "打" or not origin:
                moves.append(f"{CODE_LETTERS[_KIF_CODES[piece]]}*{last}")
            else:
                moves.append(usi_square(origin) + last + ("+" if how == "成" else ""))
        elif found := _KIF_WORD.match(line):
            word = found[1].partition("(")[0]
            # After a move, a word that we do not know says that the game was over.
            if word not in _KIF_VALUES and (
                not moves or _KIF_LIKE_MOVE.match(word) or re.search(r"\([1-9]{2}\)|打$", found[1])
            ):
                raise ValueError(f"move {len(moves) + 1} ({line.strip()[:40]!r}) cannot be read")
            side, value = _kif_start(placed, handicap)[1] ^ (len(moves) & 1), _KIF_VALUES.get(word)
            outcome = None if value is None else value if side == 0 else -value
            ended = _KIF_ENDS.get(word)
            break
        elif (found := _KIF_HEADER.match(line)) and found[1].endswith("の持駒"):
            hand, held = placed.hands[found[1][0] in "後上"], "".join(found[2].split())
            for name, pieces in _KIF_HELD.findall(held) if held != "なし" else ():
                code = _KIF_CODES.get(name, 0)
                if code not in IN_ALL or pieces not in (*KIF_NUMBERS, "一"):
                    raise ValueError(f"{name + pieces!r} is no piece in a hand")
                hand[code] += 1 if pieces in ("", "一") else KIF_NUMBERS.index(pieces)
        elif found:
            said = found[2].strip("　 ")
            handicap = said if found[1] == "手合割" else handicap
            tags |= {_KIF_TAGS[found[1]]: said} if found[1] in _KIF_TAGS else {}
    return read_game(_kif_start(placed, handicap)[0], moves, outcome, ended, tags)


def _kif_start(placed: Placed, handicap: str) -> tuple[str, int]:
    """Return (start position, side to move first). Raises ValueError for an unknown handicap or an impossible
    position."""
    if placed.codes:
        return placed.sfen(), placed.side
    if handicap not in HANDICAPS:
        raise ValueError(f"the handicap {handicap[:20]!r} is not known, and no board is drawn")
    if handicap == "平手":
        return "", 0
    # White, who gives the handicap, moves first.
    return f"{HANDICAPS[handicap]}{usual_start(1)[len(HANDICAPS['平手']) :]}", 1


# Lists of openings have comments with `#`, too, but nothing in Japanese after them. Moves begin with a mark.
_KIF_BEGINS = re.compile(rf"#KIF|(?:#[^\n]*\n\s*)*[^\x00-\x7f{SIDE_MARKS}]")

KIF = GameFormat("KIF", (".kif", ".kifu"), _KIF_BEGINS, kif, read_kif)
