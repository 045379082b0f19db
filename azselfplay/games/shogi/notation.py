"""Shogi as text and pictures: SFEN positions, USI moves, a board for a terminal, and boards as SVG.

A position that no game of shogi could reach is refused with a sentence saying why. Three liberties: the move
number may be missing or 0 (then 1), "" and "startpos" stand for the usual start, and pieces may be missing
from the game, as in problems; but both kings must be there.

On a picture Black is at the bottom, each hand on its own side. Pieces are letters, as in SFEN, so that no
Japanese font is needed; they point in their direction of movement.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

import numpy as np

from azselfplay.games.bits import ONE
from azselfplay.games.game_history import legal_action
from azselfplay.games.knowledge import Clicks, Spot, grid
from azselfplay.games.shogi.attacks import (
    ACTION_OF,
    AROUND,
    DROP_PLANE,
    PROMOTION,
    PROMOTION_PLANE,
    squares_of,
)
from azselfplay.games.shogi.board import (
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
from azselfplay.games.shogi.rules import MAX_LEGAL, in_check, legal_actions
from azselfplay.games.spec import Notation, State

# ---- SFEN ----------------------------------------------------------------------------------------


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
    for side, name in enumerate(COLOURS):
        kings = codes.count(KING + side * WHITES)
        if kings != 1:
            raise ValueError(f"{name} has {kings} kings instead of 1")
    in_hands = Counter(hand_counts(state, 0)) + Counter(hand_counts(state, 1))
    counts = Counter(code % PROMOTED for code in codes) + in_hands
    for kind, most in IN_ALL.items():
        if counts[kind] > most:
            raise ValueError(f"there are {counts[kind]} {_NAMES[kind]}, and the game has {most}")
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


# ---- Moves ---------------------------------------------------------------------------------------


_SQUARE_OF = {name: square for square, name in enumerate(SQUARE_NAMES)}
_MOVE = re.compile(r"(?:([PLNSGBR])\*|([1-9][a-i]))([1-9][a-i])(\+?)")


def legal_list(state: State) -> list[int]:
    """The legal actions of a position, in the generator's order."""
    actions = np.zeros(MAX_LEGAL, dtype=np.uint16)
    count = legal_actions(state.reshape(1, -1), 1, actions)
    return [int(action) for action in actions[:count]]


def dropped_kind(action: int) -> int:
    """The kind of piece that a drop puts on the board."""
    return int(action) // 81 - DROP_PLANE + PAWN


def action_to_usi(state: State, action: int) -> str:
    """An action of the side to move as USI text: "7g7f", "8h2b+", "P*5e"."""
    origin, target, plane = squares_of(action, state[REST] & ONE)
    if plane >= DROP_PLANE:
        return f"{CODE_LETTERS[dropped_kind(action)]}*{SQUARE_NAMES[target]}"
    return SQUARE_NAMES[origin] + SQUARE_NAMES[target] + "+" * (plane >= PROMOTION_PLANE)


def action_from_usi(state: State, text: str) -> int:
    """The legal action that USI text names. ValueError if there is no such legal move."""
    return legal_action(
        text,
        _action_of_squares(state, text),
        legal_list(state),
        partial(action_to_usi, state),
        lambda: f"written as 7g7f, 8h2b+, P*5e, in {state_to_sfen(state)}",
    )


def _action_of_squares(state: State, text: str) -> int:
    """The action of `text` if it is legal, -1 if it cannot be. Listing all moves takes ten times as long."""
    move = _MOVE.fullmatch(text)
    if move is None:
        return -1
    dropped, origin, target, promotes = move.groups()
    turned = int(state[REST]) & 1
    to = 80 - _SQUARE_OF[target] if turned else _SQUARE_OF[target]
    if dropped:
        return (DROP_PLANE - PAWN + CODE_LETTERS.index(dropped)) * 81 + to
    left = 80 - _SQUARE_OF[origin] if turned else _SQUARE_OF[origin]
    return int(ACTION_OF[left * 81 + to]) + (PROMOTION if promotes else 0)


def hand_text(state: State, side: int) -> str:
    """ "R2 P3", "-" for an empty hand."""
    counts = hand_counts(state, side)
    held = [(letter, counts[CODE_LETTERS.index(letter)]) for letter in HAND_ORDER]
    return " ".join(f"{letter}{count if count > 1 else ''}" for letter, count in held if count) or "-"


def render(state: State) -> str:
    """The board with Black at the bottom, upper case for Black, the hands, and the side to move."""
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
"""Pixels: a square, the margin left and right of the board, and the height of a hand above and below it."""
TOP, WIDTH, HEIGHT = HAND + 16, 9 * STEP + 2 * MARGIN, 9 * STEP + 2 * HAND + 32

WOOD, LINE, PIECE, PROMOTED_LETTERS, LAST = "#efd9a7", "#6b5427", "#fbf3dd", "#b02a2a", "#e3b04f"


def svg(state: State, move: str) -> bytes:
    """The position; `move` (USI, "" at the start) led to it, and its squares are marked."""
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#f6efdf"/>',
        f'<rect x="{MARGIN}" y="{TOP}" width="{9 * STEP}" height="{9 * STEP}" fill="{WOOD}"/>',
    ]
    marked = {move[:2], move[2:4]}
    for spot in SQUARE_SPOTS:
        if spot.name in marked:
            place = f'x="{spot.x}" y="{spot.y}" width="{STEP}" height="{STEP}"'
            parts.append(f'<rect {place} fill="{LAST}"/>')
    parts += [*_lines(), *_coordinates()]
    by_name = dict(zip(SQUARE_NAMES, codes_of(state), strict=True))
    for spot in SQUARE_SPOTS:
        code = int(by_name[spot.name])
        if code:
            parts.append(_piece(spot, CODE_LETTERS[code % WHITES], turned=code >= WHITES))
    for side in range(2):
        parts += _hand(state, side)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'.encode()


def _lines() -> list[str]:
    right, bottom, found = MARGIN + 9 * STEP, TOP + 9 * STEP, []
    for at in range(10):
        x, y = MARGIN + at * STEP, TOP + at * STEP
        for x1, y1, x2, y2 in ((x, TOP, x, bottom), (MARGIN, y, right, y)):
            found.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}"/>')
    return found


def _coordinates() -> list[str]:
    files = [_text(f"{9 - col}", MARGIN + STEP * (col + 0.5), TOP - 4, 11) for col in range(9)]
    ranks = [
        _text(name, WIDTH - MARGIN / 2, TOP + STEP * (row + 0.6), 11) for row, name in enumerate("abcdefghi")
    ]
    return files + ranks


def _text(text: str, x: float, y: float, size: int, colour: str = LINE) -> str:
    font = f'font-family="sans-serif" font-size="{size}" text-anchor="middle" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {font}>{text}</text>'


def _piece(spot: Spot, letters: str, *, turned: bool) -> str:
    """A pentagon that points to the other side."""
    x, y = spot.x + spot.width / 2, spot.y + spot.height / 2
    up = -1 if turned else 1
    outline = " ".join(
        f"{x + dx:g},{y - up * dy:g}" for dx, dy in ((0, 18), (12, 12), (16, -16), (-16, -16), (-12, 12))
    )
    colour = PROMOTED_LETTERS if letters.startswith("+") else "#202020"
    shape = f'<polygon points="{outline}" fill="{PIECE}" stroke="{LINE}"/>'
    return shape + _text(letters, x, y + 6 + 2 * up, 17, colour)


def _hand(state: State, side: int) -> list[str]:
    counts, found = hand_counts(state, side), []
    for spot, letter in zip(HAND_SPOTS[side], HAND_ORDER, strict=True):
        count = counts[CODE_LETTERS.index(letter)]
        if count:
            found.append(_piece(spot, letter, turned=side == 1))
            found.append(_text(str(count), spot.x + spot.width + 4, spot.y + spot.height - 6, 12))
    return found


def _in_hand(side: int, letter: str) -> str:
    """The name of a spot."""
    return f"{COLOURS[side]}'s {letter} in hand"


def _hand_spots(side: int) -> tuple[Spot, ...]:
    top = 4 if side else HEIGHT - HAND + 2
    return tuple(
        Spot(_in_hand(side, letter), MARGIN + at * 54, top, STEP, STEP)
        for at, letter in enumerate(HAND_ORDER)
    )


def _clicked(state: State, action: int) -> tuple[str, ...]:
    """The square that the piece leaves, or its kind in the hand, and the square that it goes to."""
    origin, target, plane = squares_of(action, state[REST] & ONE)
    if plane >= DROP_PLANE:
        letter = CODE_LETTERS[dropped_kind(action)]
        return _in_hand(int(state[REST]) & 1, letter), SQUARE_NAMES[target]
    return SQUARE_NAMES[origin], SQUARE_NAMES[target]


_RANKS = [[f"{file}{rank}" for file in range(9, 0, -1)] for rank in "abcdefghi"]
SQUARE_SPOTS = grid(_RANKS, MARGIN, TOP, STEP)
HAND_SPOTS = (_hand_spots(0), _hand_spots(1))
CLICKS = Clicks(WIDTH, HEIGHT, (*SQUARE_SPOTS, *HAND_SPOTS[0], *HAND_SPOTS[1]), _clicked)
