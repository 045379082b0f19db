"""Chess960: chess from 960 start positions, with castling as the king's move onto its own rook.

State, actions, planes, sparse features and the compiled rules are those of chess (`games.chess.castling` says
how). A network sees which castling rights are left, but not with which rook. That is ambiguous only if two
rooks stand on the same side of a king.

Start positions have Scharnagl's numbers from 0 to 959. Number 518, that of chess, is the usual start. Games
of self-play and random openings begin at any of them, with equal probability, unless settings say otherwise.
Positions are written as Shredder-FEN (`HAha`). X-FEN (`KQkq`: the outermost rooks) is read too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np

from azselfplay.games import chess
from azselfplay.games.chess import board, notation
from azselfplay.games.chess.board import FLAGS, KINGS
from azselfplay.games.jit import jit
from azselfplay.games.spec import StartGenerator, State

# ---- Start positions -----------------------------------------------------------------------------


USUAL, LAST = 518, 959
ALL = "all"
_KNIGHTS = tuple(combinations(range(5), 2))


def start_of(number: int) -> str:
    """Return the start position of that number, as FEN."""
    # Each step puts a piece on a square that is still free; free squares are counted from the a-file.
    rank = [""] * 8
    rest, light = divmod(number, 4)
    rest, dark = divmod(rest, 4)
    knights, queen = divmod(rest, 6)
    rank[2 * light + 1] = rank[2 * dark] = "b"
    for piece, places in (("q", (queen,)), ("n", _KNIGHTS[knights]), ("r", (0, 2)), ("k", (0,))):
        free = [file for file in range(8) if not rank[file]]
        for place in places:
            rank[free[place]] = piece
    pieces = "".join(rank)
    rooks = "".join("abcdefgh"[file] for file in range(7, -1, -1) if rank[file] == "r")
    castling = rooks.upper() + rooks
    return f"{pieces}/pppppppp/8/8/8/8/PPPPPPPP/{pieces.upper()} w {castling} - 0 1"


@cache
def starts(name: str) -> tuple[str, ...]:
    """Return the start positions that `name` stands for. Raises ValueError if it is not a valid name."""
    if name == ALL:
        return tuple(map(start_of, range(LAST + 1)))
    if not (name.isascii() and name.isdecimal() and int(name) <= LAST):
        raise ValueError(
            f"{name!r} is no start position of chess960: write {ALL}, or a number from 0 to {LAST}"
        )
    return (start_of(int(name)),)


def check(name: str) -> None:
    """Raise ValueError that says what is wrong with `name`, if anything."""
    starts(name)


def draw(name: str, rng: np.random.Generator) -> str:
    """Return one of the start positions called `name`, each with equal probability."""
    return starts(name)[int(rng.integers(len(starts(name))))]


def matches(name: str, text: str) -> bool:
    """Return whether `draw(name)` may have returned this text."""
    return text in starts(name)


@jit
def start(state: State) -> None:
    """Write the usual start position."""
    board.start(state)
    state[8] |= np.uint64(0x8181) << board.CASTLING_ROOKS_SHIFT


# ---- Text ----------------------------------------------------------------------------------------


def state_from_text(text: str) -> State:
    """Return the position that a FEN describes; "" is the usual start. Raises ValueError that says what is
    wrong."""
    return notation.state_from_fen(text.strip() or start_of(USUAL), chess960=True)


_AS_IN_CHESS = {"e1h1": "e1g1", "e1a1": "e1c1", "e8h8": "e8g8", "e8a8": "e8c8"}


def action_to_chess(state: State, action: int) -> str:
    """Return an action as UCI text for programs that play only chess: castling with king e1 and rook h1 is
    "e1g1"."""
    text = notation.action_to_uci(state, action)
    is_king = int(state[KINGS]) >> notation.SQUARES.index(text[:2]) & 1
    return _AS_IN_CHESS.get(text, text) if is_king else text


def action_from_text(state: State, text: str) -> int:
    """Return the legal action that UCI text names. Castling may be written as in chess. Raises ValueError if
    there is no such legal action."""
    if text in _AS_IN_CHESS.values() and int(state[FLAGS]) >> int(board.CASTLING_ROOKS_SHIFT):
        for action in notation.legal_list(state):
            if action_to_chess(state, action) == text:
                return action
    return notation.action_from_uci(state, text)


# ---- The game ------------------------------------------------------------------------------------


GAME = replace(
    chess.GAME,
    name="chess960",
    rules=replace(chess.GAME.rules, start=start),
    notation=replace(
        chess.GAME.notation,
        state_from_text=state_from_text,
        action_from_text=action_from_text,
        action_to_chess=action_to_chess,
    ),
    generator=StartGenerator(
        names=f"{ALL}, or the number of a start position, 0 to {LAST}",
        check=check,
        draw=draw,
        matches=matches,
        usual=ALL,
    ),
)
