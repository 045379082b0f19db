"""Knowledge about Go.

The heuristic value is in hundredths of a point. An empty point counts for the side whose stones are nearer,
by steps through empty points. All stones count as alive.
"""

from __future__ import annotations

import sys
from functools import partial

from azselfplay.games.bits import ZERO, clear, count_ones, scratch_words
from azselfplay.games.go import board as board_kernels
from azselfplay.games.go import notation
from azselfplay.games.go import rules as rules_kernels
from azselfplay.games.go.board import (
    POINTS,
    SCRATCH_WORDS,
    SPAN,
    WORDS,
    Board,
    find_empty,
    list_dead_beside,
    list_nothing,
)
from azselfplay.games.go.notation import Text
from azselfplay.games.go.rules import (
    KOMI_HALVES,
    beside,
    bindings_of,
    kernels_of,
    rules_of_options,
    side_to_move,
)
from azselfplay.games.go.sgf import sgf_format
from azselfplay.games.jit import bind, kernel, signed
from azselfplay.games.knowledge import Heuristic, Knowledge, Words
from azselfplay.games.names import parts_of
from azselfplay.games.spec import Game, State

# ---- Heuristic -----------------------------------------------------------------------------------


POINT, HALF = 100, 50


@kernel
def near_lead(state: State) -> int:
    """Return the number of points nearer to the first player's stones minus those nearer to the second's,
    including the stones themselves. Both areas grow by one step at a time; points where they meet belong to
    neither."""
    first, second, open_ = scratch_words(WORDS), scratch_words(WORDS), scratch_words(SPAN)
    grown_first, grown_second = scratch_words(WORDS), scratch_words(WORDS)
    find_empty(state, open_)
    for word in range(WORDS):
        first[word], second[word] = state[word], state[WORDS + word]
    grows = True
    # Both sides grow in each round, so that a point between them goes to the nearer side.
    while grows:
        grows = False
        for word in range(WORDS):
            grown_first[word] = beside(first, word) & open_[word]
            grown_second[word] = beside(second, word) & open_[word]
        for word in range(WORDS):
            first[word] |= grown_first[word] & ~grown_second[word]
            second[word] |= grown_second[word] & ~grown_first[word]
            taken = grown_first[word] | grown_second[word]
            open_[word] &= ~taken
            grows = grows or taken != ZERO
    points = 0
    for word in range(WORDS):
        points += signed(count_ones(first[word])) - signed(count_ones(second[word]))
    return points


@kernel
def material(state: State) -> int:
    """Return the nearer points of the side to move minus those of the other side, in hundredths."""
    lead = POINT * near_lead(state)
    return lead if side_to_move(state) == 0 else -lead


@kernel
def evaluate(state: State) -> int:
    """Return the material corrected by the komi."""
    komi = HALF * KOMI_HALVES
    return material(state) - (komi if side_to_move(state) == 0 else -komi)


@kernel
def captured_by(state: State, action: int) -> int:
    """Return the number of stones that an action captures."""
    if signed(action) == POINTS:
        return 0
    scratch, empty = scratch_words(SCRATCH_WORDS), scratch_words(SPAN)
    list_nothing(scratch)
    find_empty(state, empty)
    # The new stone takes away a liberty.
    clear(empty, 0, signed(action))
    return list_dead_beside(state, 1 - side_to_move(state), empty, signed(action), scratch)


@kernel
def order_score(state: State, action: int) -> int:
    """Return the ordering score: moves that capture most first, the pass last."""
    return -1 if signed(action) == POINTS else captured_by(state, action)


@kernel
def is_noisy(state: State, action: int) -> bool:
    """Return whether the action captures stones."""
    return captured_by(state, action) > 0


# ---- In the form of games.knowledge --------------------------------------------------------------


def knowledge_of_game(game: Game) -> Knowledge:
    """Return the knowledge about a game. No fixed player has been rated yet."""
    rules = rules_of_options(parts_of(game.name)[1])
    text = Text(Board(rules.size), kernels_of(rules))
    modules = [board_kernels, rules_kernels, sys.modules[__name__]]
    found = bind(modules, bindings_of(rules))
    names = ("evaluate", "material", "order_score", "is_noisy")
    return Knowledge(
        heuristic=Heuristic(**{name: getattr(found, name) for name in names}, sees_reply=False),
        svg=partial(notation.svg, text),
        clicks=notation.clicks(rules.size),
        words=Words(("Black", "White")),
        formats=(sgf_format(rules),),
    )


KNOWLEDGE = knowledge_of_game
