"""Jitted replay of a finished game under its rules: the checks that need the board.

Compiled once for each game. `tests/trainer/naive_verify.py` is the slow twin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import kernel, signed
from games.spec import NO_ROOT, Positions
from games.stubs import end_reason, legal_actions, play
from protocol.records import IMPROVED_POLICY, POLICY_TARGET, PRUNED_TARGET, SHARES

FINE = 0
ILLEGAL_ACTION = 1
PLAYED_ON = 2
VISIT_UNKNOWN_ACTION = 3
VISIT_ORDER = 4
VISIT_ZERO = 5
VISIT_SUM = 6
VISIT_NOT_PLAYED = 7

MOST_VISITS = 0xFFFF
"""A subtree with more visits is not kept, because a record could not hold them."""

PLY, FOUND, WANTED = 0, 1, 2
"""Columns of the report: the ply, what was found, and what was expected."""


class Played(NamedTuple):
    """The columns of a record that are replayed (`protocol.records.GameRecord`)."""

    actions: npt.NDArray[np.uint16]
    """[plies]"""
    visited: npt.NDArray[np.uint16]
    """[plies] number of entries of each ply in `visit_actions` and `visits`."""
    flags: npt.NDArray[np.uint8]
    """[plies]"""
    visit_actions: npt.NDArray[np.uint16]
    """[sum of visited]"""
    visits: npt.NDArray[np.uint16]
    """[sum of visited]"""


@kernel
def check_visits(
    actions: npt.NDArray[np.uint16],
    visits: npt.NDArray[np.uint16],
    first: int,
    last: int,
    allowed: npt.NDArray[np.int32],
    mark: int,
    report: npt.NDArray[np.int64],
) -> int:
    """Return the fault of the visit columns `first .. last` of one ply, or FINE with their sum in FOUND of
    `report` (int64[3]). `actions`, `visits`: [sum of visited].

    `allowed [actions of the game]` holds for each action the mark of the last ply at which it was legal, so
    that it need not be cleared between plies: an action is legal at this ply if `allowed[action] == mark`.
    """
    total = 0
    previous = -1
    for i in range(first, last):
        action = signed(actions[i])
        report[FOUND] = action
        report[WANTED] = previous
        if action >= len(allowed) or allowed[action] != mark:
            return VISIT_UNKNOWN_ACTION
        if action <= previous:
            return VISIT_ORDER
        if visits[i] == 0:
            return VISIT_ZERO
        previous = action
        total += signed(visits[i])
    report[FOUND] = total
    return FINE


@kernel
def visits_of(
    actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.uint16], first: int, last: int, action: int
) -> int:
    """Return the visits of `action` at the ply whose entries of `actions` and `visits` ([sum of visited]) are
    `first .. last`; 0 when it has none."""
    for i in range(first, last):
        if signed(actions[i]) == action:
            found: int = signed(visits[i])
            return found
    return 0


@kernel
def sum_allowed(total: int, simulations: int, kept: int, flags: int) -> bool:
    """Return whether a sum of root visits is allowed: `simulations` new visits, plus at most `kept` from the
    subtree. (It may be fewer: the search takes back visits of a repetition of what is now before the root.)

    A ply that is not a policy target had a smaller search, and a pruned target lost visits, so their sums are
    only bounded from above. The shares of an improved policy have a fixed sum of their own.
    """
    if (flags & IMPROVED_POLICY) != 0:
        return total == SHARES
    if (flags & POLICY_TARGET) == 0 or (flags & PRUNED_TARGET) != 0:
        return total <= simulations + kept
    return simulations <= total <= simulations + kept


@kernel
def replay(
    positions: Positions,
    legal: npt.NDArray[np.uint16],
    allowed: npt.NDArray[np.int32],
    game: Played,
    simulations: int,
    report: npt.NDArray[np.int64],
) -> int:
    """Play the game from `positions[0]` and return the first fault, with its ply in `report[PLY]`.

    positions: uint64[plies + 1, state_words] scratch; row 0 is the start position. legal: [max_legal]
    scratch. allowed: [actions of the game] scratch. report: int64[3]; after FINE, FOUND is the end reason of
    the final position (0: goes on).
    """
    flags = game.flags
    allowed[:] = 0
    first = 0
    kept = 0
    plies = len(game.actions)
    for ply in range(plies):
        report[PLY] = ply
        count = legal_actions(positions, ply + 1, legal)
        ended = end_reason(positions, ply + 1, count, NO_ROOT)
        if ended != 0:
            report[FOUND] = ended
            return PLAYED_ON
        mark = ply + 1
        for i in range(count):
            allowed[signed(legal[i])] = mark
        action = signed(game.actions[ply])
        report[FOUND] = action
        if action >= len(allowed) or allowed[action] != mark:
            return ILLEGAL_ACTION
        last = first + signed(game.visited[ply])
        fault = check_visits(game.visit_actions, game.visits, first, last, allowed, mark, report)
        if fault != FINE:
            return fault
        is_target = (flags[ply] & POLICY_TARGET) != 0
        is_improved = (flags[ply] & IMPROVED_POLICY) != 0
        if not sum_allowed(report[FOUND], simulations, kept, signed(flags[ply])):
            report[WANTED] = simulations + kept
            return VISIT_SUM
        played = visits_of(game.visit_actions, game.visits, first, last, action)
        if is_target and not is_improved and played == 0:
            # A full search plays an action that it visited; the action of other plies may come from a random
            # opening. An action chosen by noise may have too small a share of an improved policy to be
            # listed.
            report[FOUND] = action
            return VISIT_NOT_PLAYED
        if (flags[ply] & PRUNED_TARGET) == 0:
            kept = 0 if is_improved else max(played - 1, 0)
        else:  # pruning may have removed the visits of the action played
            kept = min(simulations + kept - 1, MOST_VISITS)
        first = last
        play(positions[ply], action, positions[ply + 1])
    report[PLY] = plies
    count = legal_actions(positions, plies + 1, legal)
    report[FOUND] = end_reason(positions, plies + 1, count, NO_ROOT)
    return FINE
