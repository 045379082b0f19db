"""Chess moves and boards as text: UCI moves, FEN positions, a board for a terminal."""

from __future__ import annotations

from functools import partial

import numpy as np

from games.chess.actions import ACTION_OF, PLANE_SHIFT, UNDERPROMOTION_PLANE
from games.chess.fen import SQUARES, START_FEN, piece_letters, square_name, state_from_fen, state_to_fen
from games.chess.layout import FLAGS
from games.chess.movegen import MAX_LEGAL, legal_actions
from games.move_text import legal_action
from games.spec import Notation, State

_UNDERPROMOTION_LETTERS = "nbr"
_UNDERPROMOTION_PLANES = {x: UNDERPROMOTION_PLANE + 3 * i for i, x in enumerate(_UNDERPROMOTION_LETTERS)}
"""The plane of a capture to the left with that promotion."""
_SQUARE_OF = {name: square for square, name in enumerate(SQUARES)}


def legal_list(state: State) -> list[int]:
    """The legal actions of a position, in the generator's order."""
    actions = np.zeros(MAX_LEGAL, dtype=np.uint16)
    count = legal_actions(state.reshape(1, -1), 1, actions)
    return [int(action) for action in actions[:count]]


def action_to_uci(state: State, action: int) -> str:
    """An action of the side to move as UCI text: "e2e4", "e1g1", "a7a8q"."""
    turn = 56 * (int(state[FLAGS]) & 1)
    plane, square = divmod(int(action), 64)
    origin, target = square ^ turn, (square + int(PLANE_SHIFT[plane])) % 64 ^ turn
    promotion = ""
    if plane >= UNDERPROMOTION_PLANE:
        promotion = _UNDERPROMOTION_LETTERS[(plane - UNDERPROMOTION_PLANE) // 3]
    elif target // 8 in (0, 7) and int(state[0]) >> origin & 1:
        promotion = "q"
    return square_name(origin) + square_name(target) + promotion


def action_from_uci(state: State, text: str) -> int:
    """The legal action that UCI text names. ValueError if there is no such legal move."""
    return legal_action(
        text,
        _action_of_squares(state, text),
        legal_list(state),
        partial(action_to_uci, state),
        lambda: f"written as e2e4, a7a8q, in {state_to_fen(state)}",
    )


def _action_of_squares(state: State, text: str) -> int:
    """The action of `text` if it is legal, -1 if it cannot be. Listing all moves takes ten times as long."""
    origin, target = _SQUARE_OF.get(text[:2]), _SQUARE_OF.get(text[2:4])
    if origin is None or target is None:
        return -1
    turn = 56 * (int(state[FLAGS]) & 1)
    origin, target = origin ^ turn, target ^ turn
    if text[4:] in _UNDERPROMOTION_PLANES:
        return (_UNDERPROMOTION_PLANES[text[4:]] + target % 8 - origin % 8 + 1) * 64 + origin
    return int(ACTION_OF[origin * 64 + target])


def render(state: State) -> str:
    """The board with White below, upper case White, and who is to move."""
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

__all__ = ["NOTATION", "START_FEN", "legal_list"]
