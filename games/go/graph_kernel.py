"""All positions of a small board and the moves between them, for `games.go.table`. At most 3 x 3 points.

A board's code has the base-3 digits 0 (empty), 1 (first player) and 2, with point 0 the lowest. If all its
chains have liberties it also has a number. What is compiled here belongs to a set of rules, as the rules do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.bits import ZERO
from games.go.area_kernel import area_lead
from games.go.chains_kernel import (
    KEYS,
    POINTS,
    ROOM,
    SPAN,
    WORDS,
    find_empty,
    has,
    list_if_dead,
    list_nothing,
    put,
)
from games.go.legal_kernel import legal_actions
from games.go.rules_kernel import play
from games.jit import kernel, signed
from games.scratch import scratch_words
from games.spec import Positions, State
from games.stubs import Actions

NO_BOARD = -1


@kernel
def set_board(state: State, code: int, side: int) -> None:
    """Write the board with this code, `side` to move, no pass."""
    for word in range(3 * WORDS + 2):
        state[word] = ZERO
    rest = code
    for point in range(POINTS):
        digit = rest % 3
        if digit > 0:
            put(state, (digit - 1) * WORDS, point)
            put(state, 2 * WORDS, point)
            state[3 * WORDS] ^= KEYS[digit - 1, point]
        rest //= 3
    state[3 * WORDS + 1] = np.uint64(side)


@kernel
def code_of(state: State) -> int:
    """The code of a board."""
    code = 0
    for back in range(POINTS):
        point = POINTS - 1 - back
        code = 3 * code + (1 if has(state, 0, point) else 2 if has(state, WORDS, point) else 0)
    return code


@kernel
def all_have_liberties(state: State) -> bool:
    """Whether every chain has a liberty."""
    scratch, empty = scratch_words(ROOM), scratch_words(SPAN)
    find_empty(state, empty)
    for point in range(POINTS):
        for side in range(2):
            list_nothing(scratch)
            if has(state, side * WORDS, point) and list_if_dead(state, side, empty, point, scratch, 0) > 0:
                return False
    return True


@kernel
def number_boards(state: State, numbers: npt.NDArray[np.int32]) -> int:
    """Write the number of each code, or NO_BOARD, to `numbers` [3 ** POINTS]. Returns the number of boards.
    `state` is scratch."""
    count = 0
    for code in range(len(numbers)):
        set_board(state, code, 0)
        numbers[code] = NO_BOARD
        if all_have_liberties(state):
            numbers[code] = count
            count += 1
    return count


@kernel
def connect(numbers: Any, positions: Positions, actions: Actions, after: Any, leads: Any) -> None:
    """Write the board after each side's stone on each point of each board, or NO_BOARD where a stone is never
    allowed, to `after` int32[boards, 2, POINTS], and the area leads to `leads` int8[boards].

    positions [2, state_words] and actions [POINTS + 1] are scratch.
    """
    for code in range(len(numbers)):
        board = numbers[code]
        if board == NO_BOARD:
            continue
        for side in range(2):
            set_board(positions[0], code, side)
            for point in range(POINTS):
                after[board, side, point] = NO_BOARD
            for i in range(legal_actions(positions, 1, actions) - 1):
                play(positions[0], signed(actions[i]), positions[1])
                after[board, side, actions[i]] = numbers[code_of(positions[1])]
        leads[board] = area_lead(positions[0])
