"""Players that search without a network: random, greedy and alpha-beta. `play.rollouts` has another one.

The searches are kernels over the stubs of a game's rules and heuristic, compiled for a game on first use
(`kernels_for`) and cached on disk.

Alpha-beta is fail-soft negamax of fixed depth on plain arrays. Value and window change sign only if the side
to move changes, because in some games a side moves twice. A win is worth WIN minus its distance in plies, so
that shorter wins are preferred. At depth 0 a quiescence search stands pat or tries noisy moves, for at most
QUIESCENCE plies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.jit import Unbound, bind, kernel
from azselfplay.games.knowledge import Heuristic, knowledge_of
from azselfplay.games.spec import NO_ROOT, Game, Positions, State
from azselfplay.games.stubs import (
    END_VALUES,
    Actions,
    end_reason,
    legal_actions,
    play,
    side_to_move,
    wins_among,
)
from azselfplay.games.stubs import bindings as rules_bindings

Think = Callable[[GameHistory, np.random.Generator], int]


def random_think(game_history: GameHistory, rng: np.random.Generator) -> int:
    """Return a random legal action."""
    return int(rng.choice(game_history.legal_actions()))


def greedy_think(game: Game) -> Think:
    """Return a player that takes the best move after one ply; ties are broken at random."""
    kernels = kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> int:
        actions, replies, spare = (np.zeros(game.max_legal, np.uint16) for _ in range(3))
        scores = np.zeros(game.max_legal, np.int64)
        count = kernels.greedy_scores(
            with_room(game_history, 2), game_history.ply + 1, actions, replies, spare, scores
        )
        # Draw among the best moves: otherwise the player's games would all be the same.
        best = np.flatnonzero(scores[:count] == scores[:count].max())
        return int(actions[rng.choice(best)])

    return think


def alphabeta_think(game: Game, depth: int) -> Think:
    """Return a player that searches `depth` plies deep plus quiescence; ties are broken at random."""
    kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> int:
        # The root moves are in random order, because ties go to the first one.
        return alphabeta(game_history, depth, rng.permutation(game_history.legal_actions()))[0]

    return think


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """Return `best_root`, `greedy_scores` and the functions that they call, bound to one game."""
    game = get_game(game_name)
    heuristic = knowledge_of(game).heuristic
    sets = {game.name: rules_bindings(game), "heuristic": bindings(heuristic)}
    return bind([sys.modules[__name__]], sets)


def alphabeta(game_history: GameHistory, depth: int, root: npt.NDArray[np.uint16]) -> tuple[int, int]:
    """Return (best action, its value in the heuristic's units).

    `root` uint16[n]: the actions to choose from; ties go to the lowest index.
    """
    game = game_history.game
    kernels = kernels_for(game.name)
    # Beyond the ply cap there is nothing to search.
    depth = min(depth, game_history.max_plies - game_history.ply)
    # Frames begin at ply 1, and the last frame uses one more row.
    rows = depth + QUIESCENCE + 2
    stack = Stack(
        actions=np.zeros((rows, game.max_legal), np.uint16),
        scores=np.zeros(game.max_legal, np.int64),
        frames=np.zeros((rows, FRAME), np.int64),
    )
    buffer = with_room(game_history, rows)
    chosen, value = kernels.best_root(
        buffer, game_history.ply + 1, depth, game_history.max_plies, root, stack
    )
    return int(root[chosen]), int(value)


def with_room(game_history: GameHistory, plies: int) -> Positions:
    """Return a copy of the game's positions with room for `plies` more: uint64[ply + 1 + plies,
    state_words]."""
    # Kernels write the searched line after the game's own positions.
    buffer = np.zeros((game_history.ply + 1 + plies, game_history.game.state_words), np.uint64)
    buffer[: game_history.ply + 1] = game_history.states
    return buffer


# ---- The heuristic of a game as kernels import it; `games.jit.bind` replaces it by a game's own ----


def evaluate(state: State) -> int:  # noqa: ARG001
    """Return the value that alpha-beta gives to a leaf, for the leaf's side to move. state  [state_words]"""
    raise _unbound()


def material(state: State) -> int:  # noqa: ARG001
    """Return the value that the greedy player gives to a position, for the side to move. state
    [state_words]"""
    raise _unbound()


def order_score(state: State, action: int) -> int:  # noqa: ARG001
    """Return the score of an action; actions with larger scores are searched first. state  [state_words]"""
    raise _unbound()


def is_noisy(state: State, action: int) -> bool:  # noqa: ARG001
    """Return whether the quiescence search tries the action. state  [state_words]"""
    raise _unbound()


SEES_REPLY = Unbound()
"""Whether the greedy player avoids moves after which the other side wins at once."""


def _unbound() -> RuntimeError:
    return RuntimeError("this is bound to the heuristic of a game by azselfplay.games.jit.bind")


def bindings(heuristic: Heuristic) -> list[tuple[Any, Any]]:
    """Return pairs (stub, function of `heuristic`) for `games.jit.bind`."""
    return [
        (evaluate, heuristic.evaluate),
        (material, heuristic.material),
        (order_score, heuristic.order_score),
        (is_noisy, heuristic.is_noisy),
        (SEES_REPLY, heuristic.sees_reply),
    ]


# ---- Greedy: one ply and the heuristic ----


WON = 1_000_000


@kernel
def greedy_scores(
    positions: Positions,
    n: int,
    actions: Actions,
    replies: Actions,
    spare: Actions,
    scores: npt.NDArray[np.int64],
) -> int:
    """Write the value of each legal action for the side to move; return the number of actions.

    positions  [> n + 1, state_words]; actions, replies, spare, scores  [max_legal]; replies and spare are
    scratch
    """
    count = legal_actions(positions, n, actions)
    for i in range(count):
        play(positions[n - 1], actions[i], positions[n])
        legal = legal_actions(positions, n + 1, replies)
        reason = end_reason(positions, n + 1, legal, NO_ROOT)
        if reason != 0:
            scores[i] = seen_before(positions, n + 1, int(END_VALUES[reason]) * WON)
        elif SEES_REPLY and wins_among(positions, n + 1, replies[:legal], replies, spare) > 0:
            # This is as bad as a loss: the other side wins with its next move.
            scores[i] = seen_before(positions, n + 1, WON)
        else:
            scores[i] = seen_before(positions, n + 1, int(material(positions[n])))
    return count


@kernel
def seen_before(positions: Positions, n: int, value: int) -> int:
    """Convert `value` from the side to move at `positions[n - 1]` to the side to move at `positions[n - 2]`.
    positions: [>= n, state_words]."""
    return value if side_to_move(positions[n - 1]) == side_to_move(positions[n - 2]) else -value


# ---- Alpha-beta ----


WIN = 1_000_000

INFINITE = 10_000_000

QUIESCENCE = 8

COUNT, NEXT, BEST, ALPHA, BETA, TURNS = range(6)

FRAME = 6
"""Length of a frame, int64[FRAME]: number of moves, index of the next move, best value so far, window (alpha,
beta), whether the side to move differs from that one ply higher."""


class Stack(NamedTuple):
    """The arrays of a search: a row for each ply below the root."""

    actions: npt.NDArray[np.uint16]
    """[plies, max_legal] the moves to try."""
    scores: npt.NDArray[np.int64]
    """[max_legal] scratch."""
    frames: npt.NDArray[np.int64]
    """[plies, FRAME]"""


@kernel
def best_root(
    positions: Positions, n: int, depth: int, max_plies: int, root: Actions, stack: Stack
) -> tuple[int, int]:
    """Return (index in `root` of the best action, its value); ties go to the lowest index.

    positions  [> n + depth + QUIESCENCE, state_words]; root  [n] legal actions
    """
    best, chosen = -INFINITE, 0
    for i in range(len(root)):
        play(positions[n - 1], root[i], positions[n])
        turns = side_to_move(positions[n - 1]) != side_to_move(positions[n])
        # Only a value better than the best one so far matters, which sets the window.
        low, high = (-INFINITE, -best) if turns else (best, INFINITE)
        value = negamax(positions, n + 1, depth, low, high, max_plies, stack)
        value = -value if turns else value
        if value > best:
            best, chosen = value, i
    return chosen, best


@kernel
def negamax(
    positions: Positions, n: int, depth: int, alpha: int, beta: int, max_plies: int, stack: Stack
) -> int:
    """Return the value of `positions[n - 1]`, one ply below the root, for its side to move.

    The search runs depth-first over a stack of frames, one per ply, because a recursive function crashes when
    Numba loads it from its disk cache.
    positions  [> n + depth + QUIESCENCE, state_words]
    """
    actions, frames = stack.actions, stack.frames
    ply = 1
    frames[ply, ALPHA], frames[ply, BETA] = alpha, beta
    enter(positions, n, ply, depth, max_plies, stack)
    while True:
        best: int = frames[ply, BEST]
        if frames[ply, NEXT] < frames[ply, COUNT] and best < frames[ply, BETA]:
            at = n + ply - 2
            play(positions[at], actions[ply, frames[ply, NEXT]], positions[at + 1])
            frames[ply, NEXT] += 1
            ply += 1
            low, high = max(frames[ply - 1, ALPHA], best), frames[ply - 1, BETA]
            turns = side_to_move(positions[at]) != side_to_move(positions[at + 1])
            # If the same side moves again, neither value nor window changes its sign.
            frames[ply, ALPHA], frames[ply, BETA] = (-high, -low) if turns else (low, high)
            frames[ply, TURNS] = turns
            enter(positions, at + 2, ply, depth, max_plies, stack)
        elif ply == 1:
            return best
        else:
            ply -= 1
            frames[ply, BEST] = max(frames[ply, BEST], -best if frames[ply + 1, TURNS] else best)


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
        # The cap is a draw: END_VALUES[0] is 0.
        count, best = 0, int(END_VALUES[reason]) * (WIN - ply)
    elif ply >= depth:
        best = int(evaluate(positions[n - 1]))
        # Stop here if standing pat is already good enough, or the line is long enough.
        if ply - depth == QUIESCENCE or best >= frames[ply, BETA]:
            count = 0
        # Try only noisy moves such as captures: a quiet position has its heuristic value.
        noisy = 0
        for i in range(count):
            if is_noisy(positions[n - 1], actions[ply, i]):
                actions[ply, noisy] = actions[ply, i]
                noisy += 1
        count = noisy
    sort_moves(positions[n - 1], actions[ply], stack.scores, count)
    frames[ply, COUNT], frames[ply, NEXT], frames[ply, BEST] = count, 0, best


@kernel
def sort_moves(state: State, actions: Actions, scores: npt.NDArray[np.int64], count: int) -> None:
    """Sort `actions[:count]` by descending `order_score`; ties keep their order.

    state  [state_words]; actions, scores  [max_legal]
    """
    for i in range(count):
        scores[i] = order_score(state, actions[i])
    # Insertion sort is stable and fast here: lists are short and often nearly sorted.
    for i in range(1, count):
        action, score, at = actions[i], scores[i], i
        while at > 0 and scores[at - 1] < score:
            actions[at], scores[at] = actions[at - 1], scores[at - 1]
            at -= 1
        actions[at], scores[at] = action, score
