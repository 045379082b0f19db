"""Knowledge about dots-and-boxes. Small boards are solved completely.

The solver works backwards from the full board. For every set of drawn edges it computes the gain: how many
more boxes than the other side the side to move still gets. The gain does not depend on who owns the boxes
that are already closed. So a table with one byte for each of the 2 ** edges sets holds everything: 16 MiB for
3 x 3 boxes (24 edges). The heuristic value is in hundredths of a box.
"""

from __future__ import annotations

import sys
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import has
from azselfplay.games.dots_and_boxes import NAME, notation, rules
from azselfplay.games.dots_and_boxes.notation import Text
from azselfplay.games.dots_and_boxes.rules import BOX_EDGES, EDGE_BOXES, NO_BOX, Board, owned, side_to_move
from azselfplay.games.jit import bind, jit, kernel
from azselfplay.games.knowledge import Heuristic, Knowledge, Known, Row, Solution, Words
from azselfplay.games.spec import Game, State

# ---- Solver --------------------------------------------------------------------------------------


MOST_EDGES = 24
"""Most edges of a solved board; larger tables would soon take gigabytes."""

Table = npt.NDArray[np.int8]


@jit
def closed_by(after: int, masks: npt.NDArray[np.int64]) -> int:
    """Return the number of boxes that an edge closes. `after`: the drawn edges including this one; `masks`
    [2]: the edges of the boxes beside it, or 0."""
    count = 0
    for i in range(2):
        if masks[i] != 0 and after & masks[i] == masks[i]:
            count += 1
    return count


@jit
def fill(masks: npt.NDArray[np.int64], table: Table) -> None:
    """Fill `table [2 ** edges]` from the full board down. masks: int64[edges, 2], see `closed_by`.

    A set's successors are larger numbers, so they are known when the loop reaches the set.
    """
    edges = len(masks)
    table[len(table) - 1] = 0
    for drawn in range(len(table) - 2, -1, -1):
        # Below every gain, because gains fit into int8.
        best = -128
        for edge in range(edges):
            if not drawn >> edge & 1:
                after = drawn | 1 << edge
                closed = closed_by(after, masks[edge])
                # A player who closes a box moves again, so the value keeps its sign.
                value = closed + table[after] if closed else -table[after]
                best = max(best, value)
        table[drawn] = best


def masks_of(board: Board) -> npt.NDArray[np.int64]:
    """Return [edges, 2]: the edges of the boxes beside each edge, as bits; 0: there is no box."""
    of_box = [sum(1 << int(edge) for edge in edges) for edges in board.edges_of_boxes()]
    beside = board.boxes_of_edges()
    return np.array([[0 if box == NO_BOX else of_box[box] for box in boxes] for boxes in beside], np.int64)


class Solver:
    """Computes the gain of the side to move for every set of drawn edges. Raises ValueError for more than
    MOST_EDGES edges."""

    def __init__(self, board: Board) -> None:
        if board.edges > MOST_EDGES:
            raise ValueError(f"{board.edges} edges are more than {MOST_EDGES}: the table would be too large")
        self.masks = masks_of(board)
        self.table: Table = np.zeros(1 << board.edges, np.int8)
        fill(self.masks, self.table)

    def gain(self, drawn: int) -> int:
        """Return the own boxes minus the other side's from here on, with best play. `drawn`: edges as
        bits."""
        return int(self.table[drawn])

    def gains_after(self, drawn: int) -> dict[int, int]:
        """Return, for each edge that is not drawn, the gain of the side that draws it, counted from this move
        on."""
        found = {}
        for edge in range(len(self.masks)):
            if not drawn >> edge & 1:
                after = drawn | 1 << edge
                closed = int(closed_by(after, self.masks[edge]))
                found[edge] = closed + self.gain(after) if closed else -self.gain(after)
        return found


@cache
def solver_of(rows: int, cols: int) -> Solver:
    """Return the solver of a size, made once."""
    return Solver(Board(rows, cols))


# ---- Heuristic -----------------------------------------------------------------------------------


BOX = 100
WAITING = 50
"""Value of a box with three drawn sides, which the side to move can close at once."""


@kernel
def sides_of(state: State, box: int) -> int:
    """Return the number of drawn edges of a box."""
    count = 0
    for side in range(4):
        count += has(state, 0, BOX_EDGES[box, side])
    return count


@kernel
def most_sides(state: State, action: int) -> int:
    """Return the largest number of drawn edges of a box beside the edge `action`, before that edge is
    drawn."""
    most = 0
    for i in range(2):
        box = EDGE_BOXES[action, i]
        if box >= 0:
            most = max(most, sides_of(state, box))
    return most


@kernel
def material(state: State) -> int:
    """Return the boxes of the side to move minus the other side's, in hundredths."""
    side = side_to_move(state)
    return BOX * (owned(state, side) - owned(state, 1 - side))


@kernel
def evaluate(state: State) -> int:
    """Return the material, plus a bonus for boxes with three drawn sides."""
    waiting = 0
    for box in range(len(BOX_EDGES)):
        waiting += sides_of(state, box) == 3
    return material(state) + WAITING * waiting


@kernel
def order_score(state: State, action: int) -> int:
    """Return the ordering score: edges that close a box first, those that give one away last."""
    sides = most_sides(state, action)
    # Drawing the third side of a box lets the other side close it.
    return 2 if sides == 3 else (0 if sides == 2 else 1)


@kernel
def is_noisy(state: State, action: int) -> bool:
    """Return whether the action closes a box."""
    return most_sides(state, action) == 3


# ---- Solved boards -------------------------------------------------------------------------------


GROUPS = ("opening", "middle", "end")
"""Thirds of the game, by the number of drawn edges."""
PER_GROUP = 300
SEED, FINAL_SEED = 1, 2
"""Seeds of positions: for tuning, and for final judgements."""
RANDOM_SHARE = 0.5
"""Share of random moves in the games from which positions are taken; all other moves are best ones."""
IN_VAIN = 3
"""Drawing stops after IN_VAIN * (wanted rows per group) games in a row without a new position."""


class Truth:
    """The known results for one board size."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.board = Board(game.rows, game.cols)
        self.text = Text(self.board)

    def probe(self, state: State) -> Known:
        """Return what is known about a position, whoever owns the boxes."""
        drawn, first, second, mover = self.text.parts(state)
        # The table has only the gain from here on; the result also depends on the boxes owned so far.
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
        """Return positions from games in which half of all moves are random, equally many of each group. No
        position occurs twice, and in at most half of a group every move keeps the result. A small board has
        fewer positions."""
        # The number of edges is part of the seed, so boards of different sizes are drawn independently.
        wanted, rng = min(limit or PER_GROUP, PER_GROUP), np.random.default_rng([seed, self.board.edges])
        taken: dict[str, list[Row]] = {group: [] for group in GROUPS}
        seen, in_vain = set(apart_from), 0
        while in_vain < IN_VAIN * wanted and any(len(rows) < wanted for rows in taken.values()):
            in_vain += 1
            state, moves, found = self.text.state_from(""), list[int](), []
            while len(moves) < self.board.edges:
                known = self.probe(state)
                found.append((known.row(moves=moves), state))
                free = [edge for edge in range(self.board.edges) if edge not in moves]
                chosen = free if rng.random() < RANDOM_SHARE else sorted(known.keeps)
                moves.append(int(rng.choice(chosen)))
                state = self.game.after(state, moves[-1])
            # Take one position of each game, from anywhere in it.
            rng.shuffle(found)
            for row, state in found:
                rows = taken[row.group]
                quiet = sum(not one.matters for one in rows)
                has_room = len(rows) < wanted and (row.matters or 2 * quiet < wanted)
                if has_room and state.tobytes() not in seen:
                    seen.add(state.tobytes())
                    rows.append(row)
                    in_vain = 0
                    break
        return [row for rows in taken.values() for row in rows]

    def final_rows(self) -> list[Row]:
        """Return positions other than those that `rows` returns for SEED."""
        tuned = set()
        for row in self.rows(SEED, 0):
            state = self.text.state_from("")
            for move in row.moves:
                state = self.game.after(state, move)
            tuned.add(state.tobytes())
        return self.rows(FINAL_SEED, 0, frozenset(tuned))


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
"""For the usual board; not measured on others."""


def knowledge_of_game(game: Game) -> Knowledge:
    """Return the knowledge about a board size. Boards with more than MOST_EDGES edges are not solved."""
    truth = Truth(game)
    solution = Solution(
        covers="all positions",
        probe=truth.probe,
        rows=truth.rows,
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
