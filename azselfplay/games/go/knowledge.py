"""Knowledge about Go. Boards up to 3 x 3 are solved: nearly all positions, with any past.

The heuristic value is in hundredths of a point. An empty point counts for the side whose stones are nearer,
by steps through empty points. All stones count as alive.
"""

from __future__ import annotations

import sys
import threading
from functools import cached_property, partial

import numpy as np

from azselfplay.games.bits import ZERO, clear, count_ones, scratch_words
from azselfplay.games.go import board as board_kernels
from azselfplay.games.go import notation
from azselfplay.games.go import rules as rules_kernels
from azselfplay.games.go.board import (
    POINTS,
    ROOM,
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
    SMALLEST,
    GoRules,
    beside,
    bindings_of,
    kernels_of,
    rules_of_options,
    side_to_move,
)
from azselfplay.games.go.sgf import sgf_format
from azselfplay.games.go.solver import LARGEST, Table
from azselfplay.games.jit import bind, kernel, signed
from azselfplay.games.knowledge import Drawn, Heuristic, Knowledge, Known, Row, Solution, Words
from azselfplay.games.names import parts_of
from azselfplay.games.spec import Game, Positions, State

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
    scratch, empty = scratch_words(ROOM), scratch_words(SPAN)
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


# ---- Solved boards -------------------------------------------------------------------------------


GROUPS = ("opening", "middle", "end")
"""By the share of points with stones: less than a half, less than three quarters, more."""
PER_GROUP = 300
SEED, FINAL_SEED = 1, 2
"""Seeds of positions: for tuning, and for final judgements."""
DEPTH = 6
"""Search depth in plies of alpha-beta, with which the perfect player moves where the exact search gives no
answer."""


class Truth:
    """The known results under one set of rules."""

    def __init__(self, rules: GoRules, text: Text) -> None:
        self.rules, self.text = rules, text
        self._solving = threading.Lock()
        """Held by the thread that uses the table, which searches in arrays of its own."""

    @cached_property
    def table(self) -> Table:
        """The table of results; made on first use, which takes seconds."""
        return Table(self.rules)

    def probe(self, state: State) -> Known | None:
        """Return what is known about a position without a past."""
        return self.probe_with_past(state.reshape(1, -1))

    def probe_with_past(self, positions: Positions) -> Known | None:
        """Return what is known about the newest of `positions`, the history of a game that continues."""
        with self._solving:
            results = self.table.results(positions)
        if results is None:
            return None
        state = positions[-1]
        # Results are for the first player.
        sign = 1 - 2 * int(self.text.kernels.side_to_move(state))
        value = max(sign * result for result in results.values())
        keeps = frozenset(action for action, result in results.items() if sign * result == value)
        stones = sum(int(word).bit_count() for word in state[: 2 * self.text.board.words])
        points = self.text.board.points
        # Each comparison that is true moves one group further.
        group = GROUPS[(2 * stones >= points) + (4 * stones >= 3 * points)]
        return Known(group, value, keeps, len(results))

    def rows(self, seed: int, limit: int, apart_from: frozenset[str] = frozenset()) -> list[Row]:
        """Return positions without a past, drawn from all boards, equally many of each group. In at most half
        of a group every move keeps the result."""
        wanted = min(limit or PER_GROUP, PER_GROUP)
        codes = np.flatnonzero(self.table.numbers >= 0)
        drawn: Drawn[Row] = Drawn(GROUPS, wanted, most_quiet=-(-wanted // 2))
        # The numbers cover each board with either side to move.
        for number in np.random.default_rng([seed, self.rules.size]).permutation(2 * len(codes)).tolist():
            state = self.table.state_of(int(codes[number // 2]), number % 2)
            known, start = self.probe(state), self.text.text_of(state)
            if known is None or start in apart_from:
                continue
            if drawn.has_room(known.group, matters=known.matters):
                drawn.take(known.group, known.row(start), matters=known.matters)
            if drawn.is_full:
                break
        return drawn.rows

    def final_rows(self) -> list[Row]:
        """Return positions other than those that `rows` returns for SEED, as far as there are any."""
        return self.rows(FINAL_SEED, 0, frozenset(row.start for row in self.rows(SEED, 0)))


def solution_of(rules: GoRules, text: Text) -> Solution | None:
    """Return the solution under these rules; None for a board that is too large."""
    if rules.size > LARGEST[rules.superko]:
        return None
    truth = Truth(rules, text)
    return Solution(
        covers="nearly all positions, with their past",
        probe=truth.probe,
        probe_with_past=truth.probe_with_past,
        rows=truth.rows,
        groups=GROUPS,
        # On 2 x 2 the exact search always gives an answer, so alpha-beta is not needed.
        depth=DEPTH if rules.size > SMALLEST else 0,
        # 2 x 2 has too few positions for a second set.
        final_rows=truth.final_rows if rules.size > SMALLEST else None,
    )


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
        solution=solution_of(rules, text),
    )


KNOWLEDGE = knowledge_of_game
