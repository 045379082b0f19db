"""What is known about dots-and-boxes: on small boards everything.

The solver goes backwards, from the full board: for every set of drawn edges, how many boxes the side to move
still gains. That does not depend on who owns the boxes that are closed already. So a table with one byte for
each of the 2 ** edges sets holds everything: 16 MiB for 3 x 3 boxes (24 edges). The heuristic value is in
hundredths of a box.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import has
from azselfplay.games.dots_and_boxes import NAME, notation, rules
from azselfplay.games.dots_and_boxes.notation import Text
from azselfplay.games.dots_and_boxes.rules import BOX_EDGES, EDGE_BOXES, NO_BOX, Board, owned, side_to_move
from azselfplay.games.jit import bind, jit, kernel
from azselfplay.games.knowledge import Check, Drawn, Heuristic, Knowledge, Known, Row, Say, Solution, Words
from azselfplay.games.spec import Game, State

# ---- Solver --------------------------------------------------------------------------------------


MOST_EDGES = 24
"""Most edges of a board that is solved; more would take gigabytes."""

Table = npt.NDArray[np.int8]


@jit
def closed_by(after: int, masks: npt.NDArray[np.int64]) -> int:
    """Boxes that an edge closes: `after` includes it, `masks` [2] are the edges of the boxes beside it, or
    0."""
    count = 0
    for i in range(2):
        if masks[i] != 0 and after & masks[i] == masks[i]:
            count += 1
    return count


@jit
def fill(masks: npt.NDArray[np.int64], table: Table) -> None:
    """Fill `table [2 ** edges]` from the full board down. masks: int64[edges, 2], see `closed_by`.

    A set's successors are larger numbers, so they are known when the set is reached.
    """
    edges = len(masks)
    table[len(table) - 1] = 0
    for drawn in range(len(table) - 2, -1, -1):
        # Below any value: int8 holds the gains.
        best = -128
        for edge in range(edges):
            if not drawn >> edge & 1:
                after = drawn | 1 << edge
                closed = closed_by(after, masks[edge])
                # Who closes a box moves again, so the value is still its own.
                value = closed + table[after] if closed else -table[after]
                best = max(best, value)
        table[drawn] = best


def masks_of(board: Board) -> npt.NDArray[np.int64]:
    """[edges, 2] the edges of the boxes beside each edge, as bits; 0: there is no box."""
    of_box = [sum(1 << int(edge) for edge in edges) for edges in board.edges_of_boxes()]
    beside = board.boxes_of_edges()
    return np.array([[0 if box == NO_BOX else of_box[box] for box in boxes] for boxes in beside], np.int64)


class Solver:
    """What the side to move gains from every set of drawn edges. Raises ValueError for more than MOST_EDGES
    edges."""

    def __init__(self, board: Board) -> None:
        if board.edges > MOST_EDGES:
            raise ValueError(f"{board.edges} edges are more than {MOST_EDGES}: the table would be too large")
        self.masks = masks_of(board)
        self.table: Table = np.zeros(1 << board.edges, np.int8)
        fill(self.masks, self.table)

    def gain(self, drawn: int) -> int:
        """Own boxes minus the other's from here on, if both play best. `drawn`: edges as bits."""
        return int(self.table[drawn])

    def gains_after(self, drawn: int) -> dict[int, int]:
        """For each edge that is not drawn: the gain of the side that draws it, from then on."""
        found = {}
        for edge in range(len(self.masks)):
            if not drawn >> edge & 1:
                after = drawn | 1 << edge
                closed = int(closed_by(after, self.masks[edge]))
                found[edge] = closed + self.gain(after) if closed else -self.gain(after)
        return found


@cache
def solver_of(rows: int, cols: int) -> Solver:
    """The solver of a size, made once."""
    return Solver(Board(rows, cols))


# ---- Heuristic -----------------------------------------------------------------------------------


BOX = 100
WAITING = 50
"""Value of a box with three sides, which the side to move can close at once: it is almost its own."""


@kernel
def sides_of(state: State, box: int) -> int:
    """Number of drawn edges of a box."""
    count = 0
    for side in range(4):
        count += has(state, 0, BOX_EDGES[box, side])
    return count


@kernel
def most_sides(state: State, action: int) -> int:
    """The most drawn edges of a box beside an edge, before that edge is drawn."""
    most = 0
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0:
            most = max(most, sides_of(state, box))
    return most


@kernel
def material(state: State) -> int:
    """Boxes of the side to move minus the other's."""
    side = side_to_move(state)
    return BOX * (owned(state, side) - owned(state, 1 - side))


@kernel
def evaluate(state: State) -> int:
    """Material, plus a bonus for boxes with three sides."""
    waiting = 0
    for box in range(len(BOX_EDGES)):
        waiting += sides_of(state, box) == 3
    return material(state) + WAITING * waiting


@kernel
def order_score(state: State, action: int) -> int:
    """Ordering score: edges that close a box first, those that give one away last."""
    sides = most_sides(state, action)
    # The third side of a box lets the other close it.
    return 2 if sides == 3 else (0 if sides == 2 else 1)


@kernel
def is_noisy(state: State, action: int) -> bool:
    """Whether the action closes a box."""
    return most_sides(state, action) == 3


# ---- Solved boards -------------------------------------------------------------------------------


GROUPS = ("opening", "middle", "end")
"""Thirds of the game, by drawn edges."""
PER_GROUP = 300
SEED, FINAL_SEED = 1, 2
"""Seeds of positions: for tuning, and for final judgements."""
RANDOM_SHARE = 0.5
"""Share of random moves in the games that positions come from; the other moves are best ones."""
IN_VAIN = 3
"""Games per wanted row of a group. After so many in a row without a new position, there are no more."""

VALUES = {
    (1, 1): -1, (1, 2): 0, (1, 3): -1, (1, 4): 0, (1, 5): -1,
    (2, 2): 2, (2, 3): -2, (2, 4): 2, (3, 3): -3,
}  # fmt: skip
"""Published values: boxes of the first player minus the second's with best play."""


class Truth:
    """The truth about one size of the board."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.board = Board(game.rows, game.cols)
        self.text = Text(self.board)

    def probe(self, state: State) -> Known:
        """What is known about any position, whoever owns the boxes."""
        drawn, first, second, mover = self.text.parts(state)
        # The table knows only what is still to be gained; the result is that and what is owned.
        lead = (first.bit_count() - second.bit_count()) * (1 if mover == 0 else -1)
        results = {
            edge: (lead + gain > 0) - (lead + gain < 0)
            for edge, gain in solver_of(self.board.rows, self.board.cols).gains_after(drawn).items()
        }
        value = max(results.values())
        keeps = frozenset(edge for edge, result in results.items() if result == value)
        group = GROUPS[len(GROUPS) * drawn.bit_count() // self.board.edges]
        return Known(group, value, keeps, len(results))

    def rows(self, seed: int, limit: int, apart_from: frozenset[bytes] = frozenset()) -> list[Row]:
        """Positions of games in which half of all moves are random, equally many of each group; no position
        twice, and at most half of a group are positions in which every move keeps the result. A small board
        has fewer."""
        # The number of edges is part of the seed: boards of different sizes are drawn independently.
        wanted, rng = min(limit or PER_GROUP, PER_GROUP), np.random.default_rng([seed, self.board.edges])
        drawn: Drawn[Row] = Drawn(GROUPS, wanted, most_quiet=-(-wanted // 2))
        seen, in_vain = set(apart_from), 0
        while in_vain < IN_VAIN * wanted and not drawn.is_full:
            in_vain += 1
            state, moves, found = self.text.state_from(""), list[int](), []
            while len(moves) < self.board.edges:
                known = self.probe(state)
                found.append((known.row(moves=moves), state))
                free = [edge for edge in range(self.board.edges) if edge not in moves]
                chosen = free if rng.random() < RANDOM_SHARE else sorted(known.keeps)
                moves.append(int(rng.choice(chosen)))
                state = self.game.after(state, moves[-1])
            # One position of each game, from anywhere in it.
            rng.shuffle(found)
            for row, state in found:
                if drawn.has_room(row.group, matters=row.matters) and state.tobytes() not in seen:
                    seen.add(state.tobytes())
                    drawn.take(row.group, row, matters=row.matters)
                    in_vain = 0
                    break
        return drawn.rows

    def final_rows(self) -> list[Row]:
        """Positions other than those that `rows` returns for SEED."""
        tuned = set()
        for row in self.rows(SEED, 0):
            state = self.text.state_from("")
            for move in row.moves:
                state = self.game.after(state, move)
            tuned.add(state.tobytes())
        return self.rows(FINAL_SEED, 0, frozenset(tuned))

    def checks(self, _file: Path | None, say: Say) -> Iterator[Check]:
        """Check against the published values: of all boards if this is the usual one."""
        for (rows, cols), value in VALUES.items():
            say(f"dots and boxes: {rows} x {cols}")
            yield Check(f"dots and boxes: value of {rows} x {cols}", solver_of(rows, cols).gain(0), value)


# ---- In the form of games.knowledge --------------------------------------------------------------


ANCHORS = {
    "random": 0,
    "rollouts:5": 90,
    "rollouts:20": 246,
    "rollouts:100": 449,
    "rollouts:1000": 801,
    "greedy": 824,
    "alphabeta:1": 1092,
    "alphabeta:4": 1280,
}
"""On the usual board; on others these have not been measured."""


def knowledge_of_game(game: Game) -> Knowledge:
    """What is known about a size; boards with more than MOST_EDGES edges are not solved."""
    truth = Truth(game)
    solution = Solution(
        covers="all positions",
        probe=truth.probe,
        rows=truth.rows,
        checks=truth.checks,
        groups=GROUPS,
        final_rows=truth.final_rows,
    )
    found = bind([rules, sys.modules[__name__]], {game.name: rules.bindings(truth.board)})
    names = ("evaluate", "material", "order_score", "is_noisy")
    return Knowledge(
        anchors=ANCHORS if game.name == NAME else {},
        heuristic=Heuristic(**{name: getattr(found, name) for name in names}, sees_reply=False),
        svg=partial(notation.svg, truth.text),
        clicks=notation.clicks(truth.text),
        words=Words(("Blue", "Orange")),
        solution=solution if truth.board.edges <= MOST_EDGES else None,
    )


KNOWLEDGE = knowledge_of_game
