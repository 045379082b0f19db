"""Players that search without a network: random, greedy, alpha-beta, and tree search with random playouts.

The searches are kernels over the stubs of a game's rules and heuristic, compiled for a game on first use
(`kernels_for`) and cached on disk.

Alpha-beta is fail-soft negamax of fixed depth on plain arrays. Value and window change sign only if the side
to move changes, because in some games a side moves twice. A win is worth WIN minus its distance in plies, so
that shorter wins are preferred. At depth 0 a quiescence search stands pat or tries noisy moves, for at most
QUIESCENCE plies.

The rollouts are UCT: each simulation adds one node, plays random moves from it to the end of the game (the
ply cap is a draw), and backs the result up; each edge gets the result for the side that moves there.
Unvisited children come first, then UCB1 decides (Kocsis and Szepesvari 2006): `Q + C sqrt(ln N / n)` with Q
in [-1, 1] and C = 1.4. Random numbers come from xorshift64* on `seed: uint64[1]`, so the seed determines the
game.
"""

from __future__ import annotations

import math
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
    Words,
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
            _with_room(game_history, 2), game_history.ply + 1, actions, replies, spare, scores
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


def rollout_think(game: Game, simulations: int) -> Think:
    """Return a player that takes the most visited move of UCT with random playouts. Every move gets a new
    tree."""
    kernels = kernels_for(game.name)

    def think(game_history: GameHistory, rng: np.random.Generator) -> int:
        # A playout may continue up to the ply cap.
        room = max(1, game_history.max_plies - game_history.ply) + 1
        tree = Tree(
            nodes=np.empty((simulations + 1, 3), np.int32),
            # Each simulation adds at most one node.
            edges=np.empty(((simulations + 1) * game.max_legal, 4), np.int32),
            used=np.zeros(2, np.int64),
            path=np.empty(room, np.int32),
        )
        # The seed must not be 0, because xorshift would stay at 0 for ever.
        seed = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        action = kernels.run_rollouts(
            tree,
            _with_room(game_history, room),
            game_history.ply + 1,
            game_history.max_plies,
            np.zeros(game.max_legal, np.uint16),
            seed,
            simulations,
        )
        return int(action)

    return think


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """Return `best_root`, `greedy_scores`, `run_rollouts` and the functions that they call, bound to one
    game."""
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
    buffer = _with_room(game_history, rows)
    chosen, value = kernels.best_root(
        buffer, game_history.ply + 1, depth, game_history.max_plies, root, stack
    )
    return int(root[chosen]), int(value)


def _with_room(game_history: GameHistory, plies: int) -> Positions:
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


# ---- Rollouts ----


EXPLORATION = 1.4

NO_CHILD = -1


class Tree(NamedTuple):
    """A search tree with room for one node per simulation. Node 0 is the root."""

    nodes: npt.NDArray[np.int32]
    """[nodes, 3] first edge, number of edges, value if the game is over."""
    edges: npt.NDArray[np.int32]
    """[edges, 4] action, child or NO_CHILD, visits, sum of values."""
    used: npt.NDArray[np.int64]
    """[2] nodes and edges in use, 0 before a search."""
    path: npt.NDArray[np.int32]
    """[longest line] scratch."""


@kernel
def run_rollouts(
    tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, seed: Words, simulations: int
) -> int:
    """Return the most visited action. The game is not over at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    nodes, edges = tree.nodes, tree.edges
    open_node(tree, positions, n, max_plies, actions, NO_ROOT)
    for _ in range(simulations):
        simulate(tree, positions, n, max_plies, actions, seed)
    best = 0
    # The root's edges are the first ones.
    for e in range(1, nodes[0, 1]):
        if edges[e, 2] > edges[best, 2]:
            best = e
    return int(edges[best, 0])


@kernel
def simulate(tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, seed: Words) -> None:
    """Run one simulation from the root, which is at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    nodes, edges, path = tree.nodes, tree.edges, tree.path
    node, depth, root = 0, 0, n - 1
    while nodes[node, 1] > 0:
        edge = best_edge(edges, nodes[node, 0], nodes[node, 1], seed)
        path[depth] = edge
        depth += 1
        play(positions[n - 1], edges[edge, 0], positions[n])
        n += 1
        if edges[edge, 1] == NO_CHILD:
            node = open_node(tree, positions, n, max_plies, actions, root)
            edges[edge, 1] = node
            break
        node = edges[edge, 1]
    # The value is for the side to move at the leaf; each edge gets it for the side that moves there.
    value, mover = nodes[node, 2], side_to_move(positions[n - 1])
    if nodes[node, 1] > 0:
        # The game is not over at the leaf, so a random playout gives the value.
        value = play_out(positions, n, root, max_plies, actions, seed)
    for i in range(depth):
        edges[path[i], 2] += 1
        edges[path[i], 3] += value if side_to_move(positions[root + i]) == mover else -value


@kernel
def open_node(tree: Tree, positions: Positions, n: int, max_plies: int, actions: Actions, root: int) -> int:
    """Append a node for `positions[n - 1]`, and return its index.

    `root`: index of the root in `positions`; `NO_ROOT` for the root itself, which always needs a move.
    positions  [>= n, state_words]; actions  [max_legal] scratch
    """
    nodes, edges, used = tree.nodes, tree.edges, tree.used
    node: int = used[0]
    edge = used[1]
    count = legal_actions(positions, n, actions)
    reason = end_reason(positions, n, count, root)
    value = 0
    if reason != 0 or n - 1 >= max_plies:
        count = 0
        value = int(END_VALUES[reason])
    nodes[node, 0], nodes[node, 1], nodes[node, 2] = edge, count, value
    for i in range(count):
        edges[edge + i, 0], edges[edge + i, 1] = actions[i], NO_CHILD
        edges[edge + i, 2], edges[edge + i, 3] = 0, 0
    used[0], used[1] = node + 1, edge + count
    return node


@kernel
def best_edge(edges: npt.NDArray[np.int32], first: int, count: int, seed: Words) -> int:
    """Return a random unvisited edge, or else the edge with the largest UCB1. edges  [edges, 4]; seed  [1]"""
    unvisited, visits = 0, 0
    for e in range(first, first + count):
        visits += edges[e, 2]
        if edges[e, 2] == 0:
            unvisited += 1
    if unvisited:
        # Choose at random, because otherwise the first move in the rules' order would be favoured.
        lot = draw_below(seed, unvisited)
        for e in range(first, first + count):
            if edges[e, 2] == 0:
                if lot == 0:
                    return e
                lot -= 1
    # All edges have visits here, so there is no logarithm of 0 and no division by 0.
    best, best_score, log = first, -math.inf, math.log(float(visits))
    for e in range(first, first + count):
        seen = edges[e, 2]
        score = edges[e, 3] / seen + EXPLORATION * math.sqrt(log / seen)
        if score > best_score:
            best, best_score = e, score
    return best


@kernel
def play_out(positions: Positions, n: int, root: int, max_plies: int, actions: Actions, seed: Words) -> int:
    """Play random moves from `positions[n - 1]` to the end of the game, in a search from `positions[root]`;
    return the value for the side to move at `positions[n - 1]`.

    positions  [max_plies + 2, state_words]; actions  [max_legal] scratch; seed  [1]
    """
    mover = side_to_move(positions[n - 1])
    while True:
        count = legal_actions(positions, n, actions)
        reason = end_reason(positions, n, count, root)
        if reason != 0:
            value = int(END_VALUES[reason])
            return value if side_to_move(positions[n - 1]) == mover else -value
        if n - 1 >= max_plies:
            return 0
        play(positions[n - 1], actions[draw_below(seed, count)], positions[n])
        n += 1


@kernel
def draw_below(seed: Words, limit: int) -> int:
    """Return a random number in [0, limit). seed  [1]"""
    word = seed[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    seed[0] = word
    # Use the upper bits, because the lower bits of xorshift* are less random.
    return int(((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % np.uint64(limit))
