"""A board as text."""

from __future__ import annotations

import re

from games.spec import Game, State

TO_MOVE = re.compile(r"\S+ to move\b")


def board_text(game: Game, state: State, *, is_over: bool) -> str:
    """The board of a position, without empty lines. Where the game is over, the line that begins with "x to
    move" is left out, because it cannot be told from the position alone that nobody is."""
    lines = game.notation.render(state).splitlines()
    shown = [line.rstrip() for line in lines if line.strip()]
    return "\n".join(line for line in shown if not (is_over and TO_MOVE.match(line)))
