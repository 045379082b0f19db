"""Knowledge about chess and chess960: openings, a heuristic, endgame tables, mates in one, ratings of fixed
players.

The heuristic value of a position is material and mobility, in centipawns: pawn 100, knight 320, bishop 330,
rook 500, queen 900, and 2 for each square that a knight, bishop, rook or queen attacks (own men's squares
too). Captures, en-passant captures and promotions are noisy.
"""
# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

import numpy as np

from azselfplay.games.bits import ONE, ZERO, count_ones, count_trailing_zeros
from azselfplay.games.boards import bare_position
from azselfplay.games.chess import GAME, endings, notation
from azselfplay.games.chess.board import (
    KNIGHT_ATTACKS,
    PLANE_SHIFT,
    UPSIDE_DOWN,
    bishop_attacks,
    rook_attacks,
)
from azselfplay.games.chess.rules import CHECKMATE, END_REASONS
from azselfplay.games.jit import jit
from azselfplay.games.knowledge import (
    BadTruth,
    Heuristic,
    Knowledge,
    Known,
    Matches,
    Row,
    Solution,
    Words,
)
from azselfplay.games.spec import Game, State

# ---- Openings ------------------------------------------------------------------------------------


BOOK = {
    "Ruy Lopez": "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6",
    "Italian Game": "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5 c2c3 g8f6",
    "Scotch Game": "e2e4 e7e5 g1f3 b8c6 d2d4 e5d4 f3d4 g8f6",
    "Four Knights": "e2e4 e7e5 g1f3 b8c6 b1c3 g8f6",
    "Petrov Defence": "e2e4 e7e5 g1f3 g8f6 f3e5 d7d6 e5f3 f6e4",
    "Vienna Game": "e2e4 e7e5 b1c3 g8f6 f2f4 d7d5",
    "Sicilian Najdorf": "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 a7a6",
    "Sicilian Dragon": "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 g7g6",
    "Sicilian Sveshnikov": "e2e4 c7c5 g1f3 b8c6 d2d4 c5d4 f3d4 g8f6 b1c3 e7e5",
    "Sicilian Taimanov": "e2e4 c7c5 g1f3 e7e6 d2d4 c5d4 f3d4 b8c6",
    "Closed Sicilian": "e2e4 c7c5 b1c3 b8c6 g2g3 g7g6",
    "French Advance": "e2e4 e7e6 d2d4 d7d5 e4e5 c7c5",
    "French Winawer": "e2e4 e7e6 d2d4 d7d5 b1c3 f8b4",
    "Caro-Kann Classical": "e2e4 c7c6 d2d4 d7d5 b1c3 d5e4 c3e4 c8f5",
    "Caro-Kann Advance": "e2e4 c7c6 d2d4 d7d5 e4e5 c8f5",
    "Pirc Defence": "e2e4 d7d6 d2d4 g8f6 b1c3 g7g6",
    "Alekhine Defence": "e2e4 g8f6 e4e5 f6d5 d2d4 d7d6",
    "Scandinavian": "e2e4 d7d5 e4d5 d8d5 b1c3 d5a5",
    "Queen's Gambit Declined": "d2d4 d7d5 c2c4 e7e6 b1c3 g8f6",
    "Queen's Gambit Accepted": "d2d4 d7d5 c2c4 d5c4 g1f3 g8f6",
    "Slav Defence": "d2d4 d7d5 c2c4 c7c6 g1f3 g8f6 b1c3 d5c4",
    "Semi-Slav": "d2d4 d7d5 c2c4 c7c6 g1f3 g8f6 b1c3 e7e6",
    "Tarrasch Defence": "d2d4 d7d5 c2c4 e7e6 b1c3 c7c5",
    "London System": "d2d4 d7d5 g1f3 g8f6 c1f4 c7c5",
    "Nimzo-Indian": "d2d4 g8f6 c2c4 e7e6 b1c3 f8b4",
    "Queen's Indian": "d2d4 g8f6 c2c4 e7e6 g1f3 b7b6",
    "Bogo-Indian": "d2d4 g8f6 c2c4 e7e6 g1f3 f8b4",
    "King's Indian": "d2d4 g8f6 c2c4 g7g6 b1c3 f8g7 e2e4 d7d6",
    "Gruenfeld": "d2d4 g8f6 c2c4 g7g6 b1c3 d7d5",
    "Modern Benoni": "d2d4 g8f6 c2c4 c7c5 d4d5 e7e6",
    "Benko Gambit": "d2d4 g8f6 c2c4 c7c5 d4d5 b7b5",
    "Dutch Defence": "d2d4 f7f5 g2g3 g8f6 f1g2 e7e6",
    "Catalan": "d2d4 g8f6 c2c4 e7e6 g2g3 d7d5",
    "English Symmetrical": "c2c4 c7c5 g1f3 g8f6",
    "English Reversed Sicilian": "c2c4 e7e5 b1c3 g8f6",
    "Reti Opening": "g1f3 d7d5 c2c4 e7e6",
    "King's Indian Attack": "g1f3 d7d5 g2g3 g8f6 f1g2 c7c6",
    "Larsen's Opening": "b2b3 e7e5 c1b2 b8c6",
    "Bird's Opening": "f2f4 d7d5 g1f3 g8f6",
    "Trompowsky": "d2d4 g8f6 c1g5 f6e4",
}
"""Well-known openings, a few moves each: balanced, and as different as possible."""

# ---- Heuristic -----------------------------------------------------------------------------------


PIECE_VALUES = np.array([100, 320, 330, 500, 900, 0], dtype=np.int64)
MOBILITY = 2
"""Centipawns per attacked square."""

_LAST_SQUARE, _SIX = np.uint64(63), np.uint64(6)
_LAST_RANK = np.uint64(56)
"""Mask of the bits of a square's number that give its rank; all are set on the last rank."""
_QUEEN_LIKE = np.uint64(64)
_FILE = np.uint64(7)


@jit
def material(state: State) -> int:
    """Return the material of the side to move minus the opponent's, in centipawns."""
    side = state[8] & ONE
    own, foe = state[_SIX + side], state[np.uint64(7) - side]
    total = 0
    for piece in range(5):
        ahead = np.int64(count_ones(state[piece] & own)) - np.int64(count_ones(state[piece] & foe))
        total += PIECE_VALUES[piece] * ahead
    return total


@jit
def attacked_squares(state: State, men: np.uint64) -> int:
    """Return the number of squares attacked by the knights, bishops, rooks and queens of `men`, counted once
    per attacker."""
    occupied = state[6] | state[7]
    total = ZERO
    knights, diagonal, straight = state[1] & men, (state[2] | state[4]) & men, (state[3] | state[4]) & men
    while knights:
        total += count_ones(KNIGHT_ATTACKS[count_trailing_zeros(knights)])
        knights &= knights - ONE
    while diagonal:
        total += count_ones(bishop_attacks(count_trailing_zeros(diagonal), occupied))
        diagonal &= diagonal - ONE
    while straight:
        total += count_ones(rook_attacks(count_trailing_zeros(straight), occupied))
        straight &= straight - ONE
    return np.int64(total)


@jit
def evaluate(state: State) -> int:
    """Return material and mobility for the side to move, in centipawns."""
    side = state[8] & ONE
    mobility = attacked_squares(state, state[_SIX + side])
    mobility -= attacked_squares(state, state[np.uint64(7) - side])
    return material(state) + MOBILITY * mobility


@jit
def _squares(state: State, action: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return (from, to, plane) of an action; squares as White sees them."""
    move = np.uint64(action)
    view = UPSIDE_DOWN if state[8] & ONE else ZERO
    plane = move >> _SIX
    target = ((move & _LAST_SQUARE) + PLANE_SHIFT[plane]) & _LAST_SQUARE
    return (move & _LAST_SQUARE) ^ view, target ^ view, plane


@jit
def _foe(state: State) -> np.uint64:
    """Return the men of the side that is not to move. (Only those can be captured: in chess960 a king castles
    onto its own rook.)"""
    return state[np.uint64(7) - (state[8] & ONE)]


@jit
def _piece_on(state: State, square: np.uint64) -> int:
    """Return the index of the piece on a square. An empty square gives 5, like the king, whose value is 0."""
    for piece in range(5):
        if (state[piece] >> square) & ONE:
            return piece
    return 5


@jit
def _is_pawn_capture_or_promotion(state: State, origin: np.uint64, target: np.uint64) -> bool:
    if not (state[0] >> origin) & ONE:
        return False
    rank = target & _LAST_RANK
    # A pawn that changes its file captures, even if its target is empty (en passant).
    return rank in (ZERO, _LAST_RANK) or ((origin ^ target) & _FILE) != ZERO


@jit
def is_noisy(state: State, action: int) -> bool:
    """Return whether the move is a capture (including en passant) or a promotion."""
    origin, target, _ = _squares(state, action)
    if (_foe(state) >> target) & ONE:
        return True
    return _is_pawn_capture_or_promotion(state, origin, target)


@jit
def order_score(state: State, action: int) -> int:
    """Return the ordering score: first captures, by the most valuable victim and then the least valuable
    attacker; then promotions; then the rest."""
    origin, target, plane = _squares(state, action)
    score = 0
    if (_foe(state) >> target) & ONE:
        # The victim's value dominates; the attacker's index only decides between equal victims.
        score = 10 * PIECE_VALUES[_piece_on(state, target)] - _piece_on(state, origin) + 10
    elif plane < _QUEEN_LIKE and _is_pawn_capture_or_promotion(state, origin, target):
        score = 500
    return score


# ---- Endings and mates ---------------------------------------------------------------------------


PER_ENDING = 300
"""Positions per ending."""
MATE_IN_ONE = "mate in one"
"""The group of whole boards on which the side to move mates at once. Any other move counts as an error there,
even if it keeps the win."""
MATES_IN_ONE = Path(__file__).parent / "data" / "mates_in_one.epd"
"""Positions from an engine's games, one of each game."""
FINAL_MATES_IN_ONE = MATES_IN_ONE.with_stem("mates_in_one_final")
"""Other positions of the same kind, for final judgements."""


def probe(state: State) -> Known | None:
    """Return what is known about a position in which the game continues; None if there is no table for its
    material."""
    here = endings.probe(state)
    if here is None:
        return None
    after = {action: _after(state, action) for action in GAME.legal_list(state)}
    keeps = frozenset(action for action, one in after.items() if one.value == here.value)
    # The winner prefers the fastest mate, the loser the slowest.
    hurry = min if here.value > 0 else max
    plies = hurry(after[action].plies for action in keeps) if here.value else 0
    best = frozenset(action for action in keeps if here.value == 0 or after[action].plies == plies)
    return Known(endings.ending_of(state) or "", here.value, keeps, len(after), here.plies, best)


def _after(state: State, action: int) -> endings.TableEntry:
    """Return the result after `action`, for the side that makes it. Material without a table is insufficient
    to mate (KK, KNK, KBK)."""
    known = endings.probe(GAME.after(state, action))
    return endings.TableEntry(0, 0) if known is None else endings.TableEntry(-known.value, known.plies)


def rows(seed: int, limit: int) -> list[Row]:
    """Return positions of all endings, drawn with `seed`, at most `limit` of each (0: PER_ENDING), and mates
    in one."""
    rng, count = np.random.default_rng([seed, 64]), min(limit or PER_ENDING, PER_ENDING)
    endgames = [row for name in endings.ENDINGS for row in _ending_rows(name, count, rng)]
    return [*endgames, *mates_in(MATES_IN_ONE)[: limit or None]]


def mates_in(file: Path) -> list[Row]:
    """Return the positions of MATES_IN_ONE or FINAL_MATES_IN_ONE. Raises BadTruth."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise BadTruth(f"{file} cannot be read ({error.strerror}): reinstall azselfplay") from error
    rows = []
    for line in lines:
        if not line.startswith("#"):
            state = GAME.notation.state_from_text(f"{line} 0 1")
            legal = GAME.legal_list(state)
            # after mate the value is -1 for the side then to move
            mating = frozenset(action for action in legal if GAME.end_value(GAME.after(state, action)) == -1)
            rows.append(Known(MATE_IN_ONE, 1, mating, len(legal)).row(f"{line} 0 1"))
    return rows


def won_rows(name: str, count: int, seed: int, apart_from: Collection[Row]) -> list[Row]:
    """Return `count` different won positions of one of the ENDINGS, in which the side with the men is to
    move, without those in `apart_from`."""
    taken = {row.start for row in apart_from}
    found = _ending_rows(name, count + len(taken), np.random.default_rng([seed, 65]))
    return [row for row in found if row.start not in taken][:count]


def _ending_rows(name: str, count: int, rng: np.random.Generator) -> list[Row]:
    """Return different won positions, drawn uniformly, in which the side with the men is to move. The colour
    that has the men is random."""
    found: dict[str, Row] = {}
    table = endings.ending(name).white
    while len(found) < count:
        # Draw an index of the table: placing men one by one would make some positions more likely than
        # others.
        index = int(rng.integers(len(table)))
        if table[index] >= endings.UNKNOWN:
            continue
        black = bool(rng.integers(2))
        state = endings.state_at(name, index, strong_to_move=True, strong_is_black=black)
        row = row_of(name, state)
        if row is not None:
            # The same position may be drawn twice.
            found.setdefault(row.start, row)
    return list(found.values())


def row_of(group: str, state: State) -> Row | None:
    """Return the known result of a position as a question; None if the game is over there or there is no
    table."""
    known = probe(state) if GAME.end_value(state) is None else None
    if known is None:
        return None
    longer: dict[int, int] = {}
    if known.value > 0 and known.plies is not None:
        longer = {action: _after(state, action).plies + 1 - known.plies for action in known.keeps}
    return replace(known, group=group).row(GAME.notation.state_to_text(state), longer=longer)


SOLUTION = Solution(
    covers=", ".join(endings.ENDINGS),
    probe=probe,
    rows=rows,
    groups=(*endings.ENDINGS, MATE_IN_ONE),
    watched_rows=partial(mates_in, MATES_IN_ONE),
    final_watched_rows=partial(mates_in, FINAL_MATES_IN_ONE),
    plays_whole_games=False,
    counts_plies=True,
    endings={name: partial(won_rows, name) for name in endings.ENDINGS},
)


# ---- EPD -----------------------------------------------------------------------------------------


def fen_of_epd(text: str) -> str:
    """Return the FEN of an EPD, or of a FEN with operations after it. The operations `hmvc` and `fmvn` give
    its counters; others, such as `bm Nf3;`, are ignored. Whether the FEN is valid is not checked here."""
    text = bare_position(text)
    fields = text.split()
    # Others are a FEN, or a list of moves. The last semicolon may be missing.
    if "/" not in text or not (";" in text or {"bm", "am", "id", "hmvc", "fmvn"} & {*fields[4:5]}):
        return text
    counters = [*takewhile(str.isdigit, fields[4:6])]
    if not counters:
        given = [re.search(rf"\s{name}\s+([0-9]+)\s*(;|$)", text) for name in ("hmvc", "fmvn")]
        counters = [found[1] if found else usual for found, usual in zip(given, "01", strict=True)]
    return " ".join(fields[:4] + counters)


# ---- In the form of games.knowledge --------------------------------------------------------------


CHESS = Knowledge(
    heuristic=Heuristic(
        evaluate=evaluate, material=material, order_score=order_score, is_noisy=is_noisy, sees_reply=False
    ),
    anchors={
        "random": 0,
        "blend:greedy:30": 306,
        "blend:greedy:60": 519,
        "blend:greedy:85": 597,
        "greedy": 677,
        "blend:alphabeta:1:80": 1063,
        "blend:alphabeta:1:92": 1352,
        "alphabeta:1": 1550,
        "blend:alphabeta:2:92": 1577,
        "alphabeta:2": 1906,
        "alphabeta:3": 2324,
    },
    book=BOOK,
    read_start=fen_of_epd,
    svg=notation.svg,
    clicks=notation.CLICKS,
    words=Words(notation.COLOURS, notation.san, notation.move_number, notation.uci_from_san),
    formats=(notation.PGN,),
    solution=SOLUTION,
    matches=Matches(
        opponents=("random", "greedy", "alphabeta:1", "alphabeta:2"),
        opening_plies=8,
        max_plies=300,  # 150 moves of each side: a mate that takes longer is not reliable
        mate=END_REASONS[CHECKMATE].name,
    ),
)


def knowledge_of_game(game: Game) -> Knowledge:
    """Return the knowledge about chess or chess960. Chess960 has no ratings, which were measured only in
    chess, no named openings, and its own file format. (No mate in one is by castling, so these positions
    serve both games.)"""
    if game.name == GAME.name:
        return CHESS
    return replace(CHESS, anchors={}, book={}, formats=(notation.PGN_960,))


KNOWLEDGE = knowledge_of_game
