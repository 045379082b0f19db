"""What is known about dots-and-boxes: on small boards everything."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np

from games.dots_and_boxes import GAME, game_of_size, heuristic_kernel, pictures, rules_kernel
from games.dots_and_boxes.board import Board
from games.dots_and_boxes.notation import Text
from games.dots_and_boxes.solver import MOST_EDGES, solver_of
from games.jit import bind
from games.knowledge import Check, Heuristic, Knowledge, Known, Row, Say, Solution
from games.spec import Game, State

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


class Truth:
    """The truth about one size of the board."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.board = Board(game.rows, game.cols)
        self.text = Text(self.board)

    def probe(self, state: State) -> Known:
        """What is known about any position, whoever owns the boxes."""
        drawn, first, second, mover = self.text.parts(state)
        lead = (first.bit_count() - second.bit_count()) * (1 if mover == 0 else -1)
        results = {
            edge: _sign(lead + gain)
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
        wanted, rng = min(limit or PER_GROUP, PER_GROUP), np.random.default_rng([seed, self.board.edges])
        taken: dict[str, list[Row]] = {group: [] for group in GROUPS}
        quiet, seen = dict.fromkeys(GROUPS, 0), set(apart_from)
        in_vain = 0
        while in_vain < IN_VAIN * wanted and any(len(rows) < wanted for rows in taken.values()):
            in_vain += 1
            for row, state in self._game(rng):
                full = len(taken[row.group]) == wanted
                dull = not row.matters and 2 * quiet[row.group] >= wanted
                if full or dull or state.tobytes() in seen:
                    continue
                seen.add(state.tobytes())
                quiet[row.group] += not row.matters
                taken[row.group].append(row)
                in_vain = 0
                break
        return [row for rows in taken.values() for row in rows]

    def _game(self, rng: np.random.Generator) -> list[tuple[Row, State]]:
        """The positions of one game, in any order."""
        state, moves, found = self.text.state_from(""), list[int](), []
        while len(moves) < self.board.edges:
            known = self.probe(state)
            row = Row(known.group, "", tuple(moves), known.value, known.keeps, known.legal, {})
            found.append((row, state))
            free = [edge for edge in range(self.board.edges) if edge not in moves]
            chosen = free if rng.random() < RANDOM_SHARE else sorted(known.keeps)
            moves.append(int(rng.choice(chosen)))
            state, before = np.zeros_like(state), state
            self.game.rules.play(before, moves[-1], state)
        rng.shuffle(found)
        return found

    def final_rows(self) -> list[Row]:
        """Positions other than those that `rows` returns for SEED."""
        tuned = frozenset(self._state_of(row).tobytes() for row in self.rows(SEED, 0))
        return self.rows(FINAL_SEED, 0, tuned)

    def _state_of(self, row: Row) -> State:
        state = self.text.state_from("")
        for move in row.moves:
            state, before = np.zeros_like(state), state
            self.game.rules.play(before, move, state)
        return state

    def checks(self, _file: Path | None, say: Say) -> Iterator[Check]:
        """Check against the published values: of all boards if this is the usual one."""
        for (rows, cols), value in VALUES.items():
            say(f"dots and boxes: {rows} x {cols}")
            yield Check(f"dots and boxes: value of {rows} x {cols}", solver_of(rows, cols).gain(0), value)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _heuristic(game: Game) -> Heuristic:
    bindings = rules_kernel.bindings(Board(game.rows, game.cols))
    found = bind([rules_kernel, heuristic_kernel], {game.name: bindings})
    names = ("evaluate", "material", "order_score", "is_noisy")
    return Heuristic(**{name: getattr(found, name) for name in names}, sees_reply=False)


@cache
def knowledge_of_size(rows: int, cols: int) -> Knowledge:
    """What is known about a size; boards with more than MOST_EDGES edges are not solved."""
    game = game_of_size(rows, cols)
    truth = Truth(game)
    solution = Solution(
        covers="all positions",
        probe=truth.probe,
        rows=truth.rows,
        checks=truth.checks,
        groups=GROUPS,
        final_rows=truth.final_rows,
    )
    return Knowledge(
        anchors=ANCHORS if game is GAME else {},
        heuristic=_heuristic(game),
        svg=partial(pictures.svg, truth.text),
        clicks=pictures.clicks(truth.text),
        solution=solution if truth.board.edges <= MOST_EDGES else None,
    )
