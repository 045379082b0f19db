"""Fixed-depth alpha-beta on plain arrays, compiled once a game (`search_players.kernels_for`).

Fail-soft negamax. Value and window change sign only where the mover changes. A win is worth WIN minus its
distance in plies, so that shorter wins are preferred. At depth 0 a quiescence search stands pat or tries
noisy moves, for at most QUIESCENCE plies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation.match.stubs import evaluate, is_noisy, order_score
from games.jit import kernel
from games.spec import Positions, State
from games.stubs import END_VALUES, Actions, end_reason, legal_actions, play, side_to_move

WIN = 1_000_000
INFINITE = 10_000_000
QUIESCENCE = 8
COUNT, NEXT, BEST, ALPHA, BETA, TURNS = range(6)
FRAME = 6
"""Length of a frame, int64[FRAME]: number of moves, index of the next move, best value so far, window (alpha,
beta), whether the mover differs from that of the ply above."""


class Stack(NamedTuple):
    """The arrays of a search: a row for each ply below the root."""

    actions: npt.NDArray[np.uint16]
    """[plies, max_legal] the moves to try."""
    scores: npt.NDArray[np.int64]
    """[max_legal] scratch."""
    frames: npt.NDArray[np.int64]
    """[plies, FRAME]"""
    seen: npt.NDArray[np.int64]
    """[1] positions seen so far."""


@kernel
def sort_moves(state: State, actions: Actions, scores: npt.NDArray[np.int64], count: int) -> None:
    """Sort `actions[:count]` by descending `order_score`; equals keep their order.

    state  [state_words]; actions, scores  [max_legal]
    """
    for i in range(count):
        scores[i] = order_score(state, actions[i])
    for i in range(1, count):
        action, score, at = actions[i], scores[i], i
        while at > 0 and scores[at - 1] < score:
            actions[at], scores[at] = actions[at - 1], scores[at - 1]
            at -= 1
        actions[at], scores[at] = action, score


@kernel
def enter(positions: Positions, n: int, ply: int, depth: int, max_plies: int, stack: Stack) -> None:
    """Fill in the frame of `positions[n - 1]`: the moves to try, and its value without them.

    positions  [> n, state_words]
    """
    actions, frames = stack.actions, stack.frames
    count = legal_actions(positions, n, actions[ply])
    reason = end_reason(positions, n, count, n - 1 - ply)
    best = -INFINITE
    if reason != 0 or n - 1 >= max_plies:
        count, best = 0, int(END_VALUES[reason]) * (WIN - ply)
    elif ply >= depth:
        best = int(evaluate(positions[n - 1]))
        if ply - depth == QUIESCENCE or best >= frames[ply, BETA]:
            count = 0
        noisy = 0
        for i in range(count):
            if is_noisy(positions[n - 1], actions[ply, i]):
                actions[ply, noisy] = actions[ply, i]
                noisy += 1
        count = noisy
    sort_moves(positions[n - 1], actions[ply], stack.scores, count)
    frames[ply, COUNT], frames[ply, NEXT], frames[ply, BEST] = count, 0, best


@kernel
def negamax(
    positions: Positions, n: int, depth: int, alpha: int, beta: int, max_plies: int, stack: Stack
) -> int:
    """Value of `positions[n - 1]`, one ply below the root, for its side to move.

    Depth-first over a stack of frames, one a ply: a recursive function crashes when Numba loads it from disk.
    positions  [> n + depth + QUIESCENCE, state_words]
    """
    actions, frames = stack.actions, stack.frames
    ply = 1
    frames[ply, ALPHA], frames[ply, BETA] = alpha, beta
    enter(positions, n, ply, depth, max_plies, stack)
    while True:
        stack.seen[0] += frames[ply, NEXT] == 0
        best: int = frames[ply, BEST]
        if frames[ply, NEXT] < frames[ply, COUNT] and best < frames[ply, BETA]:
            at = n + ply - 2
            play(positions[at], actions[ply, frames[ply, NEXT]], positions[at + 1])
            frames[ply, NEXT] += 1
            ply += 1
            low, high = max(frames[ply - 1, ALPHA], best), frames[ply - 1, BETA]
            turns = side_to_move(positions[at]) != side_to_move(positions[at + 1])
            frames[ply, ALPHA], frames[ply, BETA] = (-high, -low) if turns else (low, high)
            frames[ply, TURNS] = turns
            enter(positions, at + 2, ply, depth, max_plies, stack)
        elif ply == 1:
            return best
        else:
            ply -= 1
            frames[ply, BEST] = max(frames[ply, BEST], -best if frames[ply + 1, TURNS] else best)


@kernel
def best_root(
    positions: Positions, n: int, depth: int, max_plies: int, root: Actions, stack: Stack
) -> tuple[int, int]:
    """(index in `root` of the best action, its value); ties go to the lowest index.

    positions  [> n + depth + QUIESCENCE, state_words]; root  [n] legal actions
    """
    best, chosen = -INFINITE, 0
    for i in range(len(root)):
        play(positions[n - 1], root[i], positions[n])
        turns = side_to_move(positions[n - 1]) != side_to_move(positions[n])
        low, high = (-INFINITE, -best) if turns else (best, INFINITE)
        value = negamax(positions, n + 1, depth, low, high, max_plies, stack)
        value = -value if turns else value
        if value > best:
            best, chosen = value, i
    return chosen, best
