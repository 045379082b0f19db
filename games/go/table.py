"""Small boards solved: the result of any position with best play, under the exact rules.

Superko makes the result depend on the past, so there can be no table of results by position. The table holds
what a side can force without ever repeating a position (`games.go.table_kernel`). That settles most positions
for almost any past. From the others, a short exact search that knows the past ends in such positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from games.go import area_kernel, chains_kernel, graph_kernel, legal_kernel, rules_kernel
from games.go.board import Board
from games.go.kernels import bindings_of
from games.go.rules import GoRules, Superko
from games.go.table_kernel import Forced, Graph, collect, follow, force, is_won, search, situation_of
from games.jit import bind
from games.spec import Positions, State

LARGEST: Mapping[Superko, int] = {"positional": 3, "situational": 2}
"""Largest board in points per side. 4 x 4 has 24 million boards; situational superko forbids less, so
searches on 3 x 3 do not end."""
DEEPEST, STEP = 28, 4
MOST_NODES = 60_000_000
"""A search that does not end within so many plies and nodes gives no answer, after some ten seconds. Of 200
games for all points of 3 x 3, two reached such a position; 40 plies and 200 million nodes were not enough
there either."""


class Table:
    """The results under one set of rules. Raises ValueError for a board that is too large."""

    def __init__(self, rules: GoRules) -> None:
        if rules.size > LARGEST[rules.superko]:
            raise ValueError(f"{rules.name} has too many positions to solve them all")
        self.rules, self.board = rules, Board(rules.size)
        modules = [chains_kernel, area_kernel, rules_kernel, legal_kernel, graph_kernel]
        self._kernels = bind(modules, bindings_of(rules))
        self.numbers = np.zeros(3**self.board.points, np.int32)
        positions = np.zeros((2, self.board.state_words), np.uint64)
        self.boards = int(self._kernels.number_boards(positions[0], self.numbers))
        self._after = np.zeros((self.boards, 2, self.board.points), np.int32)
        self._leads = np.zeros(self.boards, np.int8)
        actions = np.zeros(self.board.points + 1, np.uint16)
        self._kernels.connect(self.numbers, positions, actions, self._after, self._leads)

    @cached_property
    def _questions(self) -> list[Question]:
        """The questions that decide the result: whether the first player gets more than the komi, and, if the
        komi can be equalled, whether it gets that much."""
        leads = sorted({math.floor(self.rules.komi) + 1, math.ceil(self.rules.komi)})
        return [Question(self.graph(lead)) for lead in leads]

    def graph(self, at_least: int) -> Graph:
        """The board, and the lead that the first player has to reach."""
        situational = int(self.rules.superko == "situational")
        return Graph(self._after, self._leads, situational, self.rules.last_ply, at_least)

    def node_of(self, state: State) -> int:
        """The node of a position in which the game continues."""
        board = self.numbers[self._kernels.code_of(state)]
        side, passes = self._kernels.side_to_move(state), self._kernels.passes(state)
        return int((board * 2 + side) * 2 + passes)

    def state_of(self, code: int, side: int) -> State:
        """The position with this code (`games.go.graph_kernel`), no pass."""
        state = np.zeros(self.board.state_words, np.uint64)
        self._kernels.set_board(state, code, side)
        return state

    def results(self, positions: Positions) -> dict[int, int] | None:
        """For each legal action in the newest of `positions` [n, state_words], where the game continues: the
        result with best play, +1, 0 or -1 for the first player. None if a search does not end."""
        nodes = [self.node_of(state) for state in positions]
        answers = [one.answers(nodes) for one in self._questions]
        if any(0 in answer.values() for answer in answers):
            return None
        return {action: _joined([answer[action] for answer in answers]) for action in answers[0]}

    def value(self) -> int:
        """The first player's lead after best play from the empty board. Raises ValueError if that takes too
        long."""
        for lead in range(self.board.points, -self.board.points, -1):
            answer = Question(self.graph(lead)).answer([0])
            if answer == 0:
                raise ValueError(f"the search cannot decide whether a lead of {lead} can be reached")
            if answer > 0:
                return lead
        return -self.board.points


def _joined(answers: Sequence[int]) -> int:
    """The result from the answers to all questions, +1 or -1 each: a draw if they differ."""
    return answers[0] if len(set(answers)) == 1 else 0


class Question:
    """Whether the first player can reach a certain lead."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.first, self.second = (_forced(graph, side) for side in (0, 1))

    def answer(self, nodes: Sequence[int]) -> int:
        """+1 (yes), -1 (no) or 0 (the search does not end) at the last of `nodes`, which are those of the
        game so far."""
        return self._search(nodes[-1], self._path(nodes), len(nodes))

    def answers(self, nodes: Sequence[int]) -> dict[int, int]:
        """The answer after each legal action there."""
        n, here, path = len(nodes), nodes[-1], self._path(nodes)
        found, points = {}, self.graph.after.shape[2]
        for move in range(points + 1):
            if move == points and here % 2 == 1:
                found[move] = 1 if is_won(self.graph, here // 4, 0) else -1
                continue
            following = follow(self.graph, here, move, path, n)
            if following >= 0:
                found[move] = self._search(following, path, n + 1)
        return found

    def _path(self, nodes: Sequence[int]) -> npt.NDArray[np.int64]:
        path = np.zeros(len(nodes) + DEEPEST + 1, np.int64)
        path[: len(nodes)] = [situation_of(self.graph, node // 4, node // 2 % 2) for node in nodes]
        return path

    def _search(self, node: int, path: npt.NDArray[np.int64], n: int) -> int:
        for depth in range(0, DEEPEST + 1, STEP):
            left = np.array([MOST_NODES])
            answer = int(search(self.graph, self.first, self.second, node, depth, path, n, left))
            if answer != 0 or left[0] < 0:
                return answer
        return 0


def _forced(graph: Graph, side: int) -> Forced:
    """What `side` can force."""
    boards, situations = len(graph.leads), len(graph.leads) * (1 + graph.situational)
    plies, moves = np.zeros(4 * boards, np.int16), np.zeros(4 * boards, np.int8)
    force(graph, side, plies, moves)
    order = np.argsort(plies, kind="stable")[np.count_nonzero(plies == 0) :]
    rows = np.zeros(4 * boards, np.int32)
    rows[order] = np.arange(len(order))
    forced = Forced(plies, moves, rows, np.zeros((len(order), -(-situations // 64)), np.uint64))
    collect(graph, side, forced, order)
    return forced
