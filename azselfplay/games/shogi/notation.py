"""Shogi as text and pictures: SFEN positions, USI moves, a board for a terminal, and boards as SVG.

A position that no game of shogi could reach is refused with a sentence that says why. Reading is tolerant in
three points: the move number may be missing or 0 (then it is 1), "" and "startpos" stand for the usual start,
and pieces other than the kings may be missing, as in problems.

On a picture each hand is on its side of the board. Pieces are shown as letters, as in SFEN, so that no
Japanese font is needed, and point in their direction of movement. `data-kanji` has the Japanese name, which
web pages show instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from azselfplay.games import spec
from azselfplay.games.bits import ONE
from azselfplay.games.boards import (
    Clicks,
    Spot,
    grid,
    lines,
    number_from_text,
    picture,
    ranks_from_text,
    ranks_to_text,
    text_at,
)
from azselfplay.games.game_history import legal_action
from azselfplay.games.shogi.attacks import (
    ACTION_OF,
    AROUND,
    DROP_PLANE,
    PROMOTION,
    PROMOTION_PLANE,
    squares_of,
)
from azselfplay.games.shogi.board import (
    BISHOP,
    CODE_LETTERS,
    GOLD,
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
    ROOK,
    SILVER,
    STATE_WORDS,
    WHITES,
    codes_of,
    in_hand,
    start,
    write_codes,
)
from azselfplay.games.shogi.game_end import in_check
from azselfplay.games.shogi.rules import MAX_LEGAL, legal_actions
from azselfplay.games.spec import Notation, State

# ---- SFEN ----------------------------------------------------------------------------------------


START_SFEN = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
SQUARE_NAMES = tuple(f"{file}{rank}" for file in "123456789" for rank in "abcdefghi")
COLOURS = ("Black", "White")
MAX_MOVE = 9999
HAND_ORDER = (ROOK, BISHOP, GOLD, SILVER, KNIGHT, LANCE, PAWN)
"""The order of kinds in a hand in SFEN."""

_CODE_OF = {letters: code for code, letters in enumerate(CODE_LETTERS) if letters and code}
_CODE_OF |= {letters.lower(): code + WHITES for letters, code in _CODE_OF.items()}
_NAMES = {1: "pawns", 2: "lances", 3: "knights", 4: "silvers", 5: "golds", 6: "bishops", 7: "rooks"}
_RANK_OF_NO_MOVE = {PAWN: 1, LANCE: 1, KNIGHT: 2}
"""Number of last ranks on which the unpromoted piece would have no move."""


def state_from_sfen(text: str) -> State:
    """Return the position that an SFEN describes; "" is the usual start. Raises ValueError that says what is
    wrong."""
    state = unchecked_state(text)
    check_position(state)
    return state


def unchecked_state(text: str) -> State:
    """Return the position in any text with the form of an SFEN, even one with two kings of a side or three
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
    # Squares run down the files, beginning at the right with file 1; ranks are written from the left.
    ranks = ranks_from_text(fields[0], "an SFEN", "abcdefghi", _CODE_OF, 0)
    write_codes(state, [ranks[rank][8 - file] for file in range(9) for rank in range(9)])
    if fields[1] not in ("b", "w"):
        raise ValueError(f"the side to move is 'b' or 'w', not {fields[1]!r}")
    move = number_from_text(fields[3], "move number of an SFEN", MAX_MOVE) if len(fields) > 3 else 1
    plies = max(1, move) - 1
    held, hands, seen = fields[2], 0, set[str]()
    if held != "-" and not re.fullmatch(r"((?:[2-9]|1[0-8])?[RBGSNLPrbgsnlp])+", held):
        raise ValueError(
            f"the hands are '-' or pieces with their number before them, as in RB2g3p, not {held!r}"
        )
    for number, letter in re.findall(r"(\d*)([^\d-])", held):
        kind, count = _CODE_OF[letter.upper()], int(number or 1)
        if letter in seen or count > IN_ALL[kind]:
            raise ValueError(f"the hands {held!r} have {letter!r} twice, or more than {IN_ALL[kind]} of it")
        seen.add(letter)
        hands |= count << int(HAND_SHIFT[kind]) + letter.islower() * int(HAND_BITS)
    state[REST] = "bw".index(fields[1]) | hands << 1 | plies << int(PLIES_SHIFT)
    return state


def check_position(state: State) -> None:
    """Raise ValueError that says why no game of shogi reaches the position, if none does."""
    codes = codes_of(state)
    for side, name in enumerate(COLOURS):
        kings = codes.count(KING + side * WHITES)
        if kings != 1:
            raise ValueError(f"{name} has {kings} kings instead of 1")
    in_hands = Counter(hand_counts(state, 0)) + Counter(hand_counts(state, 1))
    # A promoted piece counts as one of its kind.
    counts = Counter(code % PROMOTED for code in codes) + in_hands
    for kind, most in IN_ALL.items():
        if counts[kind] > most:
            raise ValueError(f"there are {counts[kind]} {_NAMES[kind]}, and the game has {most}")
    for side, name in enumerate(COLOURS):
        for square, code in enumerate(codes):
            ahead = square % 9 if side == 0 else 8 - square % 9
            if ahead < _RANK_OF_NO_MOVE.get(code - side * WHITES, 0):
                raise ValueError(f"{name}'s {piece_letters(code)} on {SQUARE_NAMES[square]} has no move")
        for file in range(9):
            if codes[9 * file : 9 * file + 9].count(PAWN + side * WHITES) > 1:
                raise ValueError(f"{name} has two unpromoted pawns on file {file + 1}")
    # Refuse kings that touch, and a side to move that could take the other's king.
    black, white = codes.index(KING), codes.index(KING + WHITES)
    # The first word has 63 squares.
    around = int(AROUND[black, 0]) | int(AROUND[black, 1]) << 63
    if around >> white & 1:
        raise ValueError(f"the kings stand side by side on {SQUARE_NAMES[black]} and {SQUARE_NAMES[white]}")
    other = state.copy()
    # Give the turn to the other side: is its king in check?
    other[REST] ^= np.uint64(1)
    if in_check(other):
        side = int(state[REST]) & 1
        raise ValueError(f"{COLOURS[side]} is to move but {COLOURS[1 - side]}'s king is in check")


def state_to_sfen(state: State) -> str:
    """Return the SFEN of a position, with four fields."""
    rest = int(state[REST])
    hands = hand_counts(state, 0), hand_counts(state, 1)
    return sfen_of(codes_of(state), hands, rest & 1, (rest >> int(PLIES_SHIFT)) + 1)


def sfen_of(codes: Sequence[int], hands: Sequence[Mapping[int, int]], side: int, move: int) -> str:
    """Return the SFEN of any board and hands. codes: [81]; hands: Black's and White's, numbers by kind; move:
    the number of the next move."""
    letters = [piece_letters(code) for code in codes]
    board = ranks_to_text(letters[rank::9][::-1] for rank in range(9))
    held = "".join(
        f"{count if count > 1 else ''}{piece_letters(kind + holder * WHITES)}"
        for holder, counts in enumerate(hands)
        for kind in HAND_ORDER
        if (count := counts[kind])
    )
    return f"{board} {'bw'[side]} {held or '-'} {move}"


def piece_letters(code: int) -> str:
    """Return "P", "+r" and so on: upper case for Black; "" for an empty square."""
    letters = CODE_LETTERS[code % WHITES] if code else ""
    return letters.lower() if code >= WHITES else letters


def hand_counts(state: State, side: int) -> dict[int, int]:
    """Return the number of pieces of each kind in a hand, including zeros."""
    hand = np.uint64(int(state[REST]) >> 1 + side * int(HAND_BITS))
    return {kind: int(in_hand(hand, kind)) for kind in IN_ALL}


# ---- Moves ---------------------------------------------------------------------------------------


_SQUARE_OF = {name: square for square, name in enumerate(SQUARE_NAMES)}
_MOVE = re.compile(r"(?:([PLNSGBR])\*|([1-9][a-i]))([1-9][a-i])(\+?)")


legal_list = partial(spec.legal_list, legal_actions, MAX_LEGAL)
"""(state) -> the legal actions of a position, in the generator's order."""


def dropped_kind(action: int) -> int:
    """Return the kind of piece that a drop puts on the board."""
    return int(action) // 81 - DROP_PLANE + PAWN


def action_to_usi(state: State, action: int) -> str:
    """Return an action of the side to move as USI text: "7g7f", "8h2b+", "P*5e"."""
    origin, target, plane = squares_of(action, state[REST] & ONE)
    if plane >= DROP_PLANE:
        return f"{CODE_LETTERS[dropped_kind(action)]}*{SQUARE_NAMES[target]}"
    return SQUARE_NAMES[origin] + SQUARE_NAMES[target] + "+" * (plane >= PROMOTION_PLANE)


def action_from_usi(state: State, text: str) -> int:
    """Return the legal action that USI text names. Raises ValueError if there is no such legal move."""
    # Compute the action from the text, and then check that it is legal. Comparing with the texts of all legal
    # moves would take ten times as long.
    action = -1
    if move := _MOVE.fullmatch(text):
        dropped, origin, target, promotes = move.groups()
        last = 80 if int(state[REST]) & 1 else 0  # 80 - square turns the board
        to = abs(last - _SQUARE_OF[target])
        if dropped:
            action = (DROP_PLANE - PAWN + CODE_LETTERS.index(dropped)) * 81 + to
        else:
            left = abs(last - _SQUARE_OF[origin])
            action = int(ACTION_OF[left * 81 + to]) + (PROMOTION if promotes else 0)
    return legal_action(
        text,
        action,
        legal_list(state),
        partial(action_to_usi, state),
        lambda: f"written as 7g7f, 8h2b+, P*5e, in {state_to_sfen(state)}",
    )


def hand_text(state: State, side: int) -> str:
    """Return a hand as text, such as "R2 P3"; "-" for an empty hand."""
    counts = hand_counts(state, side)
    held = [(CODE_LETTERS[kind], counts[kind]) for kind in HAND_ORDER]
    return " ".join(f"{letter}{count if count > 1 else ''}" for letter, count in held if count) or "-"


def render(state: State) -> str:
    """Return the board with Black at the bottom, upper case for Black, the hands, and the side to move."""
    pieces = [f"{piece_letters(code) or '.':>2}" for code in codes_of(state)]
    rows = [" ".join([*pieces[rank::9][::-1], f" {name}"]) for rank, name in enumerate("abcdefghi")]
    mover = COLOURS[int(state[REST]) & 1]
    files = " ".join(f"{file:>2}" for file in range(9, 0, -1))
    hands = [f"{name}'s hand: {hand_text(state, side)}" for side, name in enumerate(COLOURS)]
    return "\n".join([hands[1], files, *rows, hands[0], f"{mover} to move"])


NOTATION = Notation(
    state_from_text=state_from_sfen,
    state_to_text=state_to_sfen,
    action_to_text=action_to_usi,
    action_from_text=action_from_usi,
    render=render,
    engine_protocol="usi",
)


# ---- Pictures ------------------------------------------------------------------------------------


STEP, MARGIN, HAND = 42, 18, 48
"""Pixels: size of a square, margin left and right of the board, height of the hands above and below it."""
TOP, WIDTH, HEIGHT = HAND + 16, 9 * STEP + 2 * MARGIN, 9 * STEP + 2 * HAND + 32

WOOD, LINE, PIECE, PROMOTED_LETTERS, LAST = "#efd9a7", "#6b5427", "#fbf3dd", "#b02a2a", "#e3b04f"


KANJI = ("", *"歩香桂銀金角飛玉と杏圭全", "", "馬", "龍")
"""One character for each piece by code, like `CODE_LETTERS`."""
RANK_KANJI = "一二三四五六七八九"


def svg(state: State, move: str, *, turned: bool = False) -> bytes:
    """Return the position as SVG. The squares of `move` (USI, "" at the start), which led to the position,
    are marked. `turned`: White at the bottom."""
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#f6efdf"/>',
        f'<rect x="{MARGIN}" y="{TOP}" width="{9 * STEP}" height="{9 * STEP}" fill="{WOOD}"/>',
    ]
    squares, hands = SQUARE_SPOTS, HAND_SPOTS
    if turned:
        squares, *both = (tuple(spot.opposite(WIDTH, HEIGHT) for spot in some) for some in (squares, *hands))
        hands = (both[0], both[1])
    marked = {move[:2], move[2:4]}
    for spot in squares:
        if spot.name in marked:
            place = f'x="{spot.x}" y="{spot.y}" width="{STEP}" height="{STEP}"'
            parts.append(f'<rect {place} fill="{LAST}"/>')
    parts += lines(MARGIN, TOP, STEP, 10, LINE)
    order = -1 if turned else 1
    for at, (file, rank) in enumerate(zip("987654321"[::order], "abcdefghi"[::order], strict=True)):
        parts.append(text_at(MARGIN + STEP * (at + 0.5), TOP - 4, file, 11, LINE))
        name = f' data-kanji="{RANK_KANJI["abcdefghi".index(rank)]}"'
        parts.append(text_at(WIDTH - MARGIN / 2, TOP + STEP * (at + 0.6), rank, 11, LINE, name))
    # Look up by name: spots run along the ranks, squares down the files.
    by_name = dict(zip(SQUARE_NAMES, codes_of(state), strict=True))
    for spot in squares:
        code = int(by_name[spot.name])
        if code:
            parts.append(_piece(spot, code % WHITES, turned=(code >= WHITES) != turned))
    for side in range(2):
        counts = hand_counts(state, side)
        for spot, kind in zip(hands[side], HAND_ORDER, strict=True):
            if count := counts[kind]:
                parts.append(_piece(spot, kind, turned=(side == 1) != turned))
                x, y = spot.x + spot.width + 4, spot.y + spot.height - 6
                parts.append(text_at(x, y, str(count), 12, LINE))
    return picture(WIDTH, HEIGHT, parts)


def _piece(spot: Spot, kind: int, *, turned: bool) -> str:
    """Return a piece: a pentagon that points to the opponent. kind: the piece's code without colour."""
    x, y = spot.x + spot.width / 2, spot.y + spot.height / 2
    up = -1 if turned else 1
    outline = " ".join(
        f"{x + dx:g},{y - up * dy:g}" for dx, dy in ((0, 18), (12, 12), (16, -16), (-16, -16), (-12, 12))
    )
    colour = PROMOTED_LETTERS if kind > KING else "#202020"
    # Letters stay upright. `data-turn` lets pages turn a Japanese name around its own middle.
    around = f' data-turn="rotate(180 {x:g} {y - 2:g})"' if turned else ""
    more = f' data-kanji="{KANJI[kind]}"{around}'
    shape = f'<polygon points="{outline}" fill="{PIECE}" stroke="{LINE}"/>'
    return shape + text_at(x, y + 6 + 2 * up, CODE_LETTERS[kind], 17, colour, more)


def _in_hand(side: int, kind: int) -> str:
    """Return the name of a hand's spot."""
    return f"{COLOURS[side]}'s {CODE_LETTERS[kind]} in hand"


def _hand_spots(side: int) -> tuple[Spot, ...]:
    top = 4 if side else HEIGHT - HAND + 2
    return tuple(
        Spot(_in_hand(side, kind), MARGIN + at * 54, top, STEP, STEP) for at, kind in enumerate(HAND_ORDER)
    )


def _clicked(state: State, action: int) -> tuple[str, ...]:
    """Return the spots of the origin (a square, or a kind in the hand) and of the target."""
    origin, target, plane = squares_of(action, state[REST] & ONE)
    if plane >= DROP_PLANE:
        return _in_hand(int(state[REST]) & 1, dropped_kind(action)), SQUARE_NAMES[target]
    return SQUARE_NAMES[origin], SQUARE_NAMES[target]


_RANKS = [[f"{file}{rank}" for file in range(9, 0, -1)] for rank in "abcdefghi"]
SQUARE_SPOTS = grid(_RANKS, MARGIN, TOP, STEP)
HAND_SPOTS = (_hand_spots(0), _hand_spots(1))
_SPOTS = (*SQUARE_SPOTS, *HAND_SPOTS[0], *HAND_SPOTS[1])
CLICKS = Clicks(WIDTH, HEIGHT, _SPOTS, _clicked, svg_turned=partial(svg, turned=True))
