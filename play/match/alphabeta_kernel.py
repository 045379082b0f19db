"""Fixed-depth alpha-beta on plain arrays, compiled once per game by `play.match.compiled`.

`play`, `side_to_move`, `legal_actions`, `end_reason` and `END_VALUES` are the game's. Its heuristic's
(`games.knowledge`) are `evaluate(state)` (centipawns or the like, side to move),
`order_score(state, action)` (larger is tried first) and `is_noisy(state, action)` (moves that the quiescence
search goes on with).

Fail-soft negamax, in which value and window turn only where the mover changes. A win is worth WIN minus its
distance in plies, so that the shorter one is preferred.
At depth 0 a quiescence search stands pat or goes on with noisy moves, at most QUIESCENCE plies.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

WIN = 1_000_000
INFINITE = 10_000_000
QUIESCENCE = 8
COUNT, NEXT, BEST, ALPHA, BETA, TURNS = range(6)
FRAME = 6
"""A frame, `int64[FRAME]`: moves to try, the next one, the best value yet, the window, and whether the other
side moves here than at the ply above."""


def sort_moves(state, actions, scores, count):
    """Order `actions[:count]` by falling `order_score`; equals keep their order."""
    for i in range(count):
        scores[i] = order_score(state, actions[i])
    for i in range(1, count):
        action, score, at = actions[i], scores[i], i
        while at > 0 and scores[at - 1] < score:
            actions[at], scores[at] = actions[at - 1], scores[at - 1]
            at -= 1
        actions[at], scores[at] = action, score


def enter(line, n, ply, depth, max_plies, actions, scores, frames):
    """Fill in the frame of `line[n - 1]`: its moves to try, and the value it has without them."""
    count = legal_actions(line, n, actions[ply])
    reason = end_reason(line, n, count, True)
    best = -INFINITE
    if reason != 0 or n - 1 >= max_plies:
        count, best = 0, int(END_VALUES[reason]) * (WIN - ply)
    elif ply >= depth:
        best = int(evaluate(line[n - 1]))
        if ply - depth == QUIESCENCE or best >= frames[ply, BETA]:
            count = 0
        noisy = 0
        for i in range(count):
            if is_noisy(line[n - 1], actions[ply, i]):
                actions[ply, noisy] = actions[ply, i]
                noisy += 1
        count = noisy
    sort_moves(line[n - 1], actions[ply], scores, count)
    frames[ply, COUNT], frames[ply, NEXT], frames[ply, BEST] = count, 0, best


def negamax(line, n, depth, alpha, beta, max_plies, actions, scores, frames, counter):
    """Value of `line[n - 1]`, one ply below the root, for its side to move.

    Depth-first over a stack of frames, one a ply: a recursive function crashes when Numba loads it from disk.
    """
    ply = 1
    frames[ply, ALPHA], frames[ply, BETA] = alpha, beta
    enter(line, n, ply, depth, max_plies, actions, scores, frames)
    while True:
        counter[0] += frames[ply, NEXT] == 0
        best = frames[ply, BEST]
        if frames[ply, NEXT] < frames[ply, COUNT] and best < frames[ply, BETA]:
            at = n + ply - 2
            play(line[at], actions[ply, frames[ply, NEXT]], line[at + 1])
            frames[ply, NEXT] += 1
            ply += 1
            low, high = max(frames[ply - 1, ALPHA], best), frames[ply - 1, BETA]
            turns = side_to_move(line[at]) != side_to_move(line[at + 1])
            frames[ply, ALPHA], frames[ply, BETA] = (-high, -low) if turns else (low, high)
            frames[ply, TURNS] = turns
            enter(line, at + 2, ply, depth, max_plies, actions, scores, frames)
        elif ply == 1:
            return best
        else:
            ply -= 1
            frames[ply, BEST] = max(frames[ply, BEST], -best if frames[ply + 1, TURNS] else best)


def best_root(line, n, depth, max_plies, root, actions, scores, frames, counter):
    """(index in `root` of the best action, its value); the first of equals, in the order given."""
    best, chosen = -INFINITE, 0
    for i in range(len(root)):
        play(line[n - 1], root[i], line[n])
        turns = side_to_move(line[n - 1]) != side_to_move(line[n])
        low, high = (-INFINITE, -best) if turns else (best, INFINITE)
        value = negamax(line, n + 1, depth, low, high, max_plies, actions, scores, frames, counter)
        value = -value if turns else value
        if value > best:
            best, chosen = value, i
    return chosen, best


KERNELS = {function.__name__: function for function in (sort_moves, enter, negamax, best_root)}
"""Every function above, for `games.jit.specialise`."""
