"""Slow, obvious twin of `trainer.sampler_kernel.write_wins`: one position at a time."""

from __future__ import annotations

import numpy as np
from naive_verify import legal_and_end

from azselfplay.games.spec import Game, State


def naive_win(game: Game, states: list[State], move: int) -> tuple[list[State], dict[int, float]] | None:
    """Return `states` and the position after the legal move numbered `move`, with the share of each of its
    legal actions, if the side to move wins at once there; else None."""
    legal, _ = legal_and_end(game, states)
    after = [*states, _played(game, states[-1], legal[move % len(legal)])]
    replies, end = legal_and_end(game, after)
    wins = [] if end else [reply for reply in replies if _wins(game, after, reply)]
    return (after, {reply: (reply in wins) / len(wins) for reply in replies}) if wins else None


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
