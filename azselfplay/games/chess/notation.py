"""Chess as text and pictures: FEN positions, UCI moves, a board for a terminal, PGN, and boards as SVG.

A position that no game of chess could reach is refused with a sentence that says why. Reading is tolerant in
four points: the two counters may be missing (then they are 0 and 1), a move number of 0 means 1, "" stands
for the usual start, and an en-passant square is dropped if no legal move captures there, as in python-chess's
`fen(en_passant="legal")`. A half-move clock of 100 or more is kept, because such a game goes on until
somebody claims the draw. Castling rights without king and rook on their squares are refused, not dropped:
they are probably a mistake.

PGN and SVG come from python-chess, which is imported when needed.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from azselfplay.games import spec
from azselfplay.games.boards import Clicks, centipawns, grid, number_from_text, ranks_from_text, ranks_to_text
from azselfplay.games.chess.board import (
    ACTION_OF,
    BLACK,
    CASTLING_ROOKS_SHIFT,
    CLOCK_MASK,
    CLOCK_SHIFT,
    EN_PASSANT_MASK,
    EN_PASSANT_SHIFT,
    FLAGS,
    KING_ATTACKS,
    KINGS,
    PLANE_SHIFT,
    PLIES_MASK,
    PLIES_SHIFT,
    RIGHTS_MASK,
    STATE_WORDS,
    UNDERPROMOTION_PLANE,
    WHITE,
    start,
)
from azselfplay.games.chess.castling import castling_of
from azselfplay.games.chess.rules import MAX_LEGAL, en_passant_field, in_check, legal_actions
from azselfplay.games.game_history import legal_action
from azselfplay.games.knowledge import RESULTS, GameFormat, ReadGame, WrittenMove, tag_value
from azselfplay.games.spec import Notation, State

if TYPE_CHECKING:
    import chess

# ---- FEN -----------------------------------------------------------------------------------------


PIECES = "PNBRQK"
SQUARES = tuple(file + rank for rank in "12345678" for file in "abcdefgh")
"""Names of the squares."""
COLOURS = ("White", "Black")
MAX_CLOCK, MAX_MOVE = 9999, 9999
"""No game reaches these: after 150 half-moves without capture or pawn move it is drawn without a claim."""

_LETTERS = {letter: letter for letter in PIECES + PIECES.lower()}

_ROOK_FILES = "HGFEDCBAhgfedcba"
"""Letters of Shredder-FEN. Those of each colour begin with the highest bit of its byte of files."""
_USUAL_COUNT = {"P": 8, "N": 2, "B": 2, "R": 2, "Q": 1}


def piece_letters(state: State) -> list[str]:
    """Return 64 letters, a1 first: upper case for White, lower case for Black, "" for an empty square."""
    letters = [""] * 64
    for piece, letter in enumerate(PIECES):
        for square in range(64):
            if int(state[piece]) >> square & 1:
                white = int(state[6]) >> square & 1
                letters[square] = letter if white else letter.lower()
    return letters


def state_from_fen(text: str, *, chess960: bool = False) -> State:
    """Return the position that a FEN describes; "" is the usual start of chess. Raises ValueError that says
    what is wrong. `chess960`: castling rights are written as in Shredder-FEN or X-FEN."""
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
    ranks = ranks_from_text(fields[0], "a FEN", "87654321", _LETTERS, "")
    letters = [letter for rank in reversed(ranks) for letter in rank]
    # Refuse positions that no game can reach: missing kings, more pieces than promotions can give, pawns on
    # the back ranks.
    for name, of_colour in zip(COLOURS, (str.isupper, str.islower), strict=True):
        count = Counter(letter.upper() for letter in letters if letter and of_colour(letter))
        if count["K"] != 1:
            raise ValueError(f"{name} has {count['K']} kings instead of 1")
        # Each piece beyond the usual number must be a promoted pawn.
        extra = sum(max(0, count[piece] - usual) for piece, usual in _USUAL_COUNT.items() if piece != "P")
        if count["P"] + extra > 8:
            raise ValueError(
                f"{name} has {count['P']} pawns and {extra} more pieces than at the start: together 8 at most"
            )
    for square in (*range(8), *range(56, 64)):
        if letters[square].upper() == "P":
            raise ValueError(f"a pawn cannot stand on {SQUARES[square]}")
    if fields[1] not in ("w", "b"):
        raise ValueError(f"the side to move is 'w' or 'b', not {fields[1]!r}")
    side = "wb".index(fields[1])
    rooks = _parse_castling(fields[2], letters, chess960=chess960)
    file = _parse_en_passant(fields[3], side, letters)
    clock = number_from_text(fields[4], "half-move clock of a FEN", MAX_CLOCK) if len(fields) > 4 else 0
    move = number_from_text(fields[5], "move number of a FEN", MAX_MOVE) if len(fields) > 5 else 1
    if file is not None and clock:
        raise ValueError(f"half-move clock {clock} is impossible: a pawn has just moved ({fields[3]})")
    for square, letter in enumerate(letters):
        if letter:
            bit = np.uint64(1 << square)
            state[PIECES.index(letter.upper())] |= bit
            state[WHITE if letter.isupper() else BLACK] |= bit
    # Refuse kings that touch, and a side to move that could take the other's king.
    white, black = (int(state[KINGS] & state[colour]).bit_length() - 1 for colour in (WHITE, BLACK))
    if int(KING_ATTACKS[white]) >> black & 1:
        raise ValueError(f"the kings stand side by side on {SQUARES[white]} and {SQUARES[black]}")
    # Give the turn to the other side for a moment, so that `in_check` tests the king of the side that has
    # just moved.
    state[FLAGS] = 1 - side
    if in_check(state):
        raise ValueError(f"{COLOURS[side]} is to move but {COLOURS[1 - side]}'s king is in check")
    # Drop the en-passant file unless a legal move captures there, so that equal positions have equal flags.
    en_passant = 0 if file is None else int(en_passant_field(state, np.uint64(side), np.uint64(file)))
    plies = 2 * max(0, move - 1) + side
    castling = int(castling_of(state, np.uint64(rooks)))
    if not chess960:  # no files of rooks: they are known
        castling &= int(RIGHTS_MASK)
    flags = side | castling | en_passant << int(EN_PASSANT_SHIFT)
    state[FLAGS] = flags | clock << int(CLOCK_SHIFT) | plies << int(PLIES_SHIFT)
    return state


def state_to_fen(state: State) -> str:
    """Return the FEN of a position. It has six fields, and an en-passant square only if a legal move captures
    there. In chess960, castling rights are the files of the rooks, as in Shredder-FEN."""
    letters = piece_letters(state)
    board = ranks_to_text(letters[8 * rank : 8 * rank + 8] for rank in range(7, -1, -1))
    flags = int(state[FLAGS])
    side = flags & 1
    castling = "".join(letter for bit, letter in enumerate("KQkq", 1) if flags >> bit & 1)
    if rooks := flags >> int(CASTLING_ROOKS_SHIFT):
        castling = "".join(letter for bit, letter in enumerate(_ROOK_FILES) if rooks >> (bit ^ 7) & 1)
    field = flags >> int(EN_PASSANT_SHIFT) & int(EN_PASSANT_MASK)
    en_passant = "abcdefgh"[field - 1] + "63"[side] if field else "-"
    clock = flags >> int(CLOCK_SHIFT) & int(CLOCK_MASK)
    return f"{board} {'wb'[side]} {castling or '-'} {en_passant} {clock} {move_number(state)}"


def move_number(state: State) -> int:
    """Return the number of the next move, from 1. A move of White and the following one of Black have the
    same number."""
    return (int(state[FLAGS]) >> int(PLIES_SHIFT) & int(PLIES_MASK)) // 2 + 1


def _parse_castling(text: str, letters: list[str], *, chess960: bool) -> int:
    """Return the files of the rooks that may castle, as `castling_of` takes them."""
    rooks, sides = 0, set[tuple[bool, bool]]()
    for letter in "" if text == "-" else text:
        name, is_black = letter.upper(), letter.islower()
        if name not in ("HGFEDCBAKQ" if chess960 else "KQ"):
            more = ", in chess960 also files of rooks (HAha)" if chess960 else ""
            raise ValueError(f"castling rights are '-' or some of KQkq{more}, not {text!r}")
        rank = "".join(one or "." for one in letters[56 if is_black else 0 :][:8])
        king, rook = rank.find("Kk"[is_black]), "Rr"[is_black]
        # In X-FEN, K and Q stand for the outermost rook on that side, which in chess stands in the corner.
        file = {"K": rank.rfind(rook), "Q": rank.find(rook)}.get(name, "ABCDEFGH".find(name))
        side = is_black, file > king
        fits = king >= 0 <= file and rank[file] == rook and (name not in "KQ" or (name == "K") == side[1])
        fits = fits and (chess960 or (king == SQUARES.index("e1") and file in (0, 7)))
        if not fits or side in sides:
            where = "on its first rank" if chess960 else "on their first squares"
            raise ValueError(
                f"castling right {letter!r} needs {COLOURS[is_black]}'s king and such a rook {where}, and "
                "there is one for each side of the king; remove the letter"
            )
        sides.add(side)
        rooks |= 1 << 8 * is_black + file
    return rooks


def _parse_en_passant(text: str, side: int, letters: list[str]) -> int | None:
    """Return the file of the pawn that has just advanced two squares, or None."""
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


# ---- Moves ---------------------------------------------------------------------------------------


_UNDERPROMOTION_LETTERS = "nbr"
_UNDERPROMOTION_PLANES = {x: UNDERPROMOTION_PLANE + 3 * i for i, x in enumerate(_UNDERPROMOTION_LETTERS)}
"""By promotion letter: the plane of the capture to the left; straight on and to the right follow."""
_SQUARE_OF = {name: square for square, name in enumerate(SQUARES)}


legal_list = partial(spec.legal_list, legal_actions, MAX_LEGAL)
"""(state) -> the legal actions of a position, in the generator's order."""


def action_to_uci(state: State, action: int) -> str:
    """Return an action of the side to move as UCI text: "e2e4", "e1g1", "a7a8q"."""
    turn = 56 * (int(state[FLAGS]) & 1)
    plane, square = divmod(int(action), 64)
    origin, target = square ^ turn, (square + int(PLANE_SHIFT[plane])) % 64 ^ turn
    promotion = ""
    if plane >= UNDERPROMOTION_PLANE:
        promotion = _UNDERPROMOTION_LETTERS[(plane - UNDERPROMOTION_PLANE) // 3]
    # A promotion to a queen has no plane of its own.
    elif target // 8 in (0, 7) and int(state[0]) >> origin & 1:
        promotion = "q"
    return SQUARES[origin] + SQUARES[target] + promotion


def action_from_uci(state: State, text: str) -> int:
    """Return the legal action that UCI text names. Raises ValueError if there is no such legal move."""
    # Compute the action from the text, and then check that it is legal. Comparing with the texts of all legal
    # moves would take ten times as long.
    action, turn = -1, 56 * (int(state[FLAGS]) & 1)
    origin, target = _SQUARE_OF.get(text[:2]), _SQUARE_OF.get(text[2:4])
    if origin is not None and target is not None:
        origin, target = origin ^ turn, target ^ turn
        action = int(ACTION_OF[origin * 64 + target])
        if text[4:] in _UNDERPROMOTION_PLANES:
            action = (_UNDERPROMOTION_PLANES[text[4:]] + target % 8 - origin % 8 + 1) * 64 + origin
    return legal_action(
        text,
        action,
        legal_list(state),
        partial(action_to_uci, state),
        lambda: f"written as e2e4, a7a8q, in {state_to_fen(state)}",
    )


def render(state: State) -> str:
    """Return the board with White at the bottom, upper case for White, and the side to move."""
    letters = piece_letters(state)
    rows = [
        f"{rank + 1} " + " ".join(x or "." for x in letters[8 * rank : 8 * rank + 8])
        for rank in range(7, -1, -1)
    ]
    mover = ("White", "Black")[int(state[FLAGS]) & 1]
    return "\n".join([*rows, "  a b c d e f g h", f"{mover} to move"])


NOTATION = Notation(
    state_from_text=state_from_fen,
    state_to_text=state_to_fen,
    action_to_text=action_to_uci,
    action_from_text=action_from_uci,
    render=render,
    engine_protocol="uci",
)


# ---- Pictures and PGN ----------------------------------------------------------------------------


PICTURE_SIZE = 230
"""Pixels."""
PGN_COLUMNS = 80
SQUARE, MARGIN = 45, 15
"""Size of a square, and of the margin with the coordinates, in python-chess's own units."""


def svg(state: State, move: str, *, turned: bool = False) -> bytes:
    """Return the board of a position as SVG. `move` (UCI, "" at the start), which led to the position, is
    marked. `turned`: Black at the bottom."""
    import chess
    import chess.svg

    board, last = chess.Board(state_to_fen(state)), chess.Move.from_uci(move) if move else None
    below = chess.BLACK if turned else chess.WHITE
    return str(chess.svg.board(board, orientation=below, size=PICTURE_SIZE, lastmove=last)).encode()


def _board(state: State) -> chess.Board:
    import chess

    return chess.Board(state_to_fen(state), chess960=bool(int(state[FLAGS]) >> int(CASTLING_ROOKS_SHIFT)))


def san(state: State, action: int, _before: int | None = None) -> str:
    """Return an action as people write it: "Nf3", "O-O", "exd8=Q+"."""
    import chess

    return _board(state).san(chess.Move.from_uci(action_to_uci(state, action)))


def uci_from_san(state: State, text: str) -> str:
    """Return the UCI of a move in SAN, also in ways that differ from the standard: "Ngf3", "0-0", "e7e8Q".
    Raises ValueError if it is none, or not legal."""
    move = _board(state).parse_san(text.rstrip("+#!?").replace("o", "O"))
    if not move:
        raise ValueError(f"{text!r} is a null move")  # python-chess reads "--"
    return move.uci()


MARKS = {"?!": 6, "?": 2, "??": 4}
"""Numeric annotation glyphs (section 10 of PGN's standard)."""


def write_pgn(
    tags: Mapping[str, str], start: str, moves: Sequence[WrittenMove], ending: str, *, chess960: bool = False
) -> str:
    """Return a game as PGN, with alternative lines as variations. Values are written as on lichess: `[%eval
    0.31]`, in pawns for White. `moves`: in UCI; `ending`: comment after the last move. Raises ValueError if a
    move is invalid."""
    import chess
    import chess.pgn

    tree = chess.pgn.Game()
    tree.setup(chess.Board(start or chess.STARTING_FEN, chess960=chess960))
    # FEN and SetUp are already set by `setup`; a file's own tags may write the position differently.
    tree.headers.update(
        {name: tag_value(text) for name, text in tags.items() if name not in ("FEN", "SetUp")}
    )
    node: chess.pgn.GameNode = tree
    for one in moves:
        played = node.add_main_variation(chess.Move.from_uci(one.move), comment=one.comment)
        if one.value is not None:
            comment = f"[%eval {centipawns(one.value) / 100:.2f}] {one.comment}"
            played.comment = comment.strip()
        if one.mark:
            played.nags = {MARKS[one.mark]}
        for line, comment in one.others:
            other = node
            for number, move in enumerate(line):
                other = other.add_variation(chess.Move.from_uci(move), comment="" if number else comment)
        node = played
    if ending:
        node.comment = ending
    return tree.accept(chess.pgn.StringExporter(columns=PGN_COLUMNS))


def read_pgn(data: bytes, *, chess960: bool = False) -> Iterator[ReadGame | ValueError]:
    """Yield the games in a PGN, with moves in UCI. A game with an illegal move or an invalid FEN, one of
    another variant, and one with neither moves nor a FEN is yielded as an error. The result is the one after
    the moves, so a game that was cut off has none."""
    import chess
    import chess.pgn

    class MainLine(chess.pgn.GameBuilder):  # type: ignore[type-arg]
        ended = ""

        def begin_variation(self) -> chess.pgn.SkipType:  # type: ignore[override]
            return chess.pgn.SKIP

        def end_variation(self) -> None:
            pass  # python-chess calls this alone after an illegal move

        def visit_result(self, result: str) -> None:
            super().visit_result(result)
            self.ended = result

        def handle_error(self, error: Exception) -> None:
            self.game.errors.append(error)  # collect the error without logging it

        def result(self) -> tuple[chess.pgn.Game, str]:
            return self.game, self.ended

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin_1")
    file = io.StringIO(text)
    # Skip variations while reading: an annotated game may have thousands of them.
    while (pair := chess.pgn.read_game(file, Visitor=MainLine)) is not None:
        found, ended = pair
        variant = found.headers.get("Variant", chess.Board.aliases[0])
        start = found.headers.get("FEN", "")
        moves = [move.uci() for move in found.mainline_moves()]
        is_standard = variant.lower() in map(str.lower, chess.Board.aliases)
        if not (found.headers.is_chess960() if chess960 else is_standard):
            wanted = "chess960" if chess960 else "standard chess"
            yield ValueError(f"it is of the variant {variant[:60]!r}, not of {wanted}")
        elif found.errors:
            yield ValueError(str(found.errors[0]) or type(found.errors[0]).__name__)
        elif not start and not moves:
            yield ValueError("it has neither moves nor a FEN")
        else:
            yield ReadGame(start, moves, OUTCOMES.get(ended), dict(found.headers))


OUTCOMES = {text: outcome for outcome, text in RESULTS.items()}
PGN = GameFormat("PGN", (".pgn",), re.compile(r"\[|1\s*\."), write_pgn, read_pgn)
PGN_960 = replace(PGN, write=partial(write_pgn, chess960=True), read=partial(read_pgn, chess960=True))


_SIZE = 8 * SQUARE + 2 * MARGIN
_RANKS = [SQUARES[8 * rank : 8 * rank + 8] for rank in reversed(range(8))]
CLICKS = Clicks(
    _SIZE,
    _SIZE,
    grid(_RANKS, MARGIN, MARGIN, SQUARE),
    # The from-square and the to-square.
    lambda state, action: ((move := action_to_uci(state, action))[:2], move[2:4]),
    svg_turned=partial(svg, turned=True),
)
