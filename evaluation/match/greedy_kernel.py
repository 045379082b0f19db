"""The greedy player: one ply and the heuristic, compiled once a game (`search_players.kernels_for`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evaluation.match.stubs import SEES_REPLY, material
from games.jit import kernel, signed
from games.spec import NO_ROOT, Positions
from games.stubs import END_VALUES, Actions, end_reason, legal_actions, play, side_to_move, wins_at_once

WON = 1_000_000


@kernel
def seen_before(positions: Positions, n: int, value: int) -> int:
    """Convert `value`, which is for the side to move at `positions[n - 1]`, to the side to move at
    `positions[n - 2]`. positions: [>= n, state_words]."""
    return value if side_to_move(positions[n - 1]) == side_to_move(positions[n - 2]) else -value


@kernel
def has_win_at_once(positions: Positions, n: int, replies: Actions, spare: Actions) -> bool:
    """Whether the side to move at `positions[n - 1]` has an action that wins the game.

    positions  [> n, state_words]; replies, spare  [max_legal] scratch
    """
    for i in range(legal_actions(positions, n, replies)):
        if wins_at_once(positions, n, signed(replies[i]), spare):
            return True
    return False


@kernel
def greedy_scores(
    positions: Positions,
    n: int,
    actions: Actions,
    replies: Actions,
    spare: Actions,
    scores: npt.NDArray[np.int64],
) -> int:
    """Write the value of each legal action for the side to move; return how many there are.

    positions  [> n + 1, state_words]; actions, replies, spare, scores  [max_legal]; replies and spare are
    scratch
    """
    count = legal_actions(positions, n, actions)
    for i in range(count):
        play(positions[n - 1], actions[i], positions[n])
        reason = end_reason(positions, n + 1, legal_actions(positions, n + 1, replies), NO_ROOT)
        if reason != 0:
            scores[i] = seen_before(positions, n + 1, int(END_VALUES[reason]) * WON)
        elif SEES_REPLY and has_win_at_once(positions, n + 1, replies, spare):
            scores[i] = seen_before(positions, n + 1, WON)
        else:
            scores[i] = seen_before(positions, n + 1, int(material(positions[n])))
    return count
