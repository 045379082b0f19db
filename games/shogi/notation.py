"""Shogi moves and boards as text: USI moves, SFEN positions, a board for a terminal."""

from __future__ import annotations

import re
from functools import partial

import numpy as np

from games.bits import ONE
from games.move_text import legal_action
from games.shogi.actions import ACTION_OF, DROP_PLANE, PROMOTION, PROMOTION_PLANE, squares_of
from games.shogi.layout import CODE_LETTERS, PAWN, REST, codes_of
from games.shogi.movegen import MAX_LEGAL, legal_actions
from games.shogi.sfen import (
    COLOURS,
    HAND_ORDER,
    SQUARE_NAMES,
    hand_counts,
    piece_letters,
    state_from_sfen,
    state_to_sfen,
)
from games.spec import Notation, State

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
