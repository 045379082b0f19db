"""One ply of thought, compiled once per game by `play.match.compiled`.

`material(state)` is the heuristic's count for the side to move; `SEES_REPLY` (also the heuristic's) says
whether a move that lets the opponent win at once is avoided.
"""
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"
# ruff: noqa: F821

from __future__ import annotations

WON = 1_000_000


def seen_before(line, n, value):
    """`value` for the side to move at `line[n - 1]` as the side that moved at `line[n - 2]` sees it."""
    return value if side_to_move(line[n - 1]) == side_to_move(line[n - 2]) else -value


def wins_at_once(line, n, replies, spare):
    """Whether the side to move at `line[n - 1]` has an action that wins the game."""
    count = legal_actions(line, n, replies)
    for i in range(count):
        play(line[n - 1], replies[i], line[n])
        reason = end_reason(line, n + 1, legal_actions(line, n + 1, spare), False)
        if reason != 0 and seen_before(line, n + 1, int(END_VALUES[reason])) > 0:
            return True
    return False


def greedy_scores(line, n, actions, replies, spare, scores):
    """Write what each legal action is worth to the side to move; return how many there are."""
    count = legal_actions(line, n, actions)
    for i in range(count):
        play(line[n - 1], actions[i], line[n])
        reason = end_reason(line, n + 1, legal_actions(line, n + 1, replies), False)
        if reason != 0:
            scores[i] = seen_before(line, n + 1, int(END_VALUES[reason]) * WON)
        elif SEES_REPLY and wins_at_once(line, n + 1, replies, spare):
            scores[i] = seen_before(line, n + 1, WON)
        else:
            scores[i] = seen_before(line, n + 1, int(material(line[n])))
    return count


KERNELS = {function.__name__: function for function in (seen_before, wins_at_once, greedy_scores)}
"""Every function above, for `games.jit.specialise`."""
