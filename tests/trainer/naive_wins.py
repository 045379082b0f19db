"""Slow, obvious twin of `trainer.wins_kernel`: one position at a time."""

from __future__ import annotations

import numpy as np
from naive_verify import legal_and_end

from games.spec import Game, State


def naive_win(
    game: Game, states: list[State], first_move: int
) -> tuple[list[State], dict[int, float]] | None:
    """Return `states` and the first position found after them in which the side to move wins at once, with
    the share of each of its legal actions; None if no legal move leads to one."""
    legal, _ = legal_and_end(game, states)
    for action in np.roll(legal, -first_move).tolist():
        after = [*states, _played(game, states[-1], action)]
        replies, end = legal_and_end(game, after)
        wins = [] if end else [reply for reply in replies if _wins(game, after, reply)]
        if wins:
            return after, {reply: (reply in wins) / len(wins) for reply in replies}
    return None


def _played(game: Game, state: State, action: int) -> State:
    after = np.zeros_like(state)
    game.rules.play(state, action, after)
    return after


def _wins(game: Game, states: list[State], action: int) -> bool:
    after = _played(game, states[-1], action)
    _, end = legal_and_end(game, [*states, after])
    mover, next_mover = (int(game.rules.side_to_move(state)) for state in (states[-1], after))
    value = game.end_reasons[end].value if end else 0
    return (value if mover == next_mover else -value) == 1
