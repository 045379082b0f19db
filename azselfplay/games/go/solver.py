"""Solves small Go boards: finds the result of a position with best play, under the exact rules.

With superko the result depends on the past, so there can be no table of results by position alone. Instead
the table holds what a side can force without ever repeating a position. That settles most positions for
almost any past. For the others, a short exact search that knows the past reaches settled positions.

A board's code is a base-3 number with one digit per point, point 0 the lowest: 0 (empty), 1 (first player) or
2 (second player). A board whose chains all have liberties also has a number. A node is (board * 2 + side to
move) * 2 + passes, where `board` is that number. A situation is what must not recur: the board, or under
situational superko board * 2 + side to move.

`force` ignores superko. By retrograde analysis it finds the nodes from which one side reaches its result
whatever the other side does, and that side's move in each. `collect` notes the situations that this side's
moves create from a node on. If the situation of the node itself, or of a node on the way, is among them,
superko could forbid a move, and the node no longer counts as forced. For the remaining nodes the past makes
no difference unless one of these situations was on the board before. `search` is exact: it obeys superko
along its path, and stops at forced nodes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.bits import ONE, ZERO, has, put, scratch_words
from azselfplay.games.go import board as board_kernels
from azselfplay.games.go import rules as rules_kernels
from azselfplay.games.go.board import (
    KEYS,
    POINTS,
    ROOM,
    SPAN,
    WORDS,
    Board,
    area_lead,
    find_empty,
    list_if_dead,
    list_nothing,
)
from azselfplay.games.go.rules import GoRules, Superko, bindings_of, legal_actions, play
from azselfplay.games.jit import bind, jit, kernel, signed
from azselfplay.games.spec import Positions, State
from azselfplay.games.stubs import Actions

LARGEST: Mapping[Superko, int] = {"positional": 3, "situational": 2, "simple": 0}
"""Largest solved board, in points per side. 4 x 4 has 24 million boards, which is too many. Situational
superko forbids less, so searches on 3 x 3 give no answer. Under simple ko positions recur."""
DEEPEST, STEP = 28, 4
MOST_NODES = 60_000_000
"""Limits of a search in plies and nodes. If they do not suffice, the search gives no answer, after about ten
seconds. Two of 200 games for all points of 3 x 3 reached such a position; there 40 plies and 200 million
nodes were not enough either."""


# ---- What a side can force -----------------------------------------------------------------------


class Graph(NamedTuple):
    """A small board under its rules."""

    after: npt.NDArray[np.int32]
    """[boards, 2, points] `connect`."""
    leads: npt.NDArray[np.int8]
    """[boards] the first player's points minus the second's."""
    situational: int
    last_ply: int
    at_least: int
    """The lead that the first player needs: it wins if it has at least this lead when the game ends."""


class Forced(NamedTuple):
    """The nodes where one side can force its result."""

    plies: npt.NDArray[np.int16]
    """[nodes] most plies to the end; 0: nothing is forced."""
    moves: npt.NDArray[np.int8]
    """[nodes] that side's move: a point, or the number of points for the pass."""
    rows: npt.NDArray[np.int32]
    """[nodes] row of `makes`."""
    makes: npt.NDArray[np.uint64]
    """[forced nodes, words] the situations, as bits, that this side's moves create from here on."""


class Table:
    """Results under one set of rules. Raises ValueError for a board that is too large."""

    def __init__(self, rules: GoRules) -> None:
        if rules.size > LARGEST[rules.superko]:
            raise ValueError(f"{rules.name} has too many positions to solve them all")
        self.rules, self.board = rules, Board(rules.size)
        modules = [board_kernels, rules_kernels, sys.modules[__name__]]
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
        """The questions that decide the result: whether the first player gets more than the komi, and, if a
        draw is possible, whether it gets at least the komi."""
        # With a komi of half points both numbers are equal: there are no draws.
        leads = sorted({math.floor(self.rules.komi) + 1, math.ceil(self.rules.komi)})
        return [Question(self.graph(lead)) for lead in leads]

    def graph(self, at_least: int) -> Graph:
        """Return the board with the lead that the first player has to reach."""
        situational = int(self.rules.superko == "situational")
        return Graph(self._after, self._leads, situational, self.rules.last_ply, at_least)

    def node_of(self, state: State) -> int:
        """Return the node of a position in which the game continues."""
        board = self.numbers[self._kernels.code_of(state)]
        side, passes = self._kernels.side_to_move(state), self._kernels.passes(state)
        return int((board * 2 + side) * 2 + passes)

    def state_of(self, code: int, side: int) -> State:
        """Return the position with this code (`set_board`) and no pass before it."""
        state = np.zeros(self.board.state_words, np.uint64)
        self._kernels.set_board(state, code, side)
        return state

    def results(self, positions: Positions) -> dict[int, int] | None:
        """Return the result of each legal action in the newest of `positions` [n, state_words], where the
        game continues: +1, 0 or -1 for the first player with best play. None if a search gives no answer."""
        nodes = [self.node_of(state) for state in positions]
        answers = [one.answers(nodes) for one in self._questions]
        if any(0 in answer.values() for answer in answers):
            return None
        # If the two answers differ, the first player gets exactly the komi: a draw.
        return {a: answers[0][a] if answers[0][a] == answers[-1][a] else 0 for a in answers[0]}


class Question:
    """The question whether the first player can reach a certain lead."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        boards, situations = len(graph.leads), len(graph.leads) * (1 + graph.situational)
        both = []
        for side in (0, 1):
            plies, moves = np.zeros(4 * boards, np.int16), np.zeros(4 * boards, np.int8)
            force(graph, side, plies, moves)
            # Order forced nodes by plies, so that successors come before their node. Nodes with 0 are not
            # forced.
            order = np.argsort(plies, kind="stable")[np.count_nonzero(plies == 0) :]
            rows = np.zeros(4 * boards, np.int32)
            rows[order] = np.arange(len(order))
            forced = Forced(plies, moves, rows, np.zeros((len(order), -(-situations // 64)), np.uint64))
            collect(graph, side, forced, order)
            both.append(forced)
        self.first, self.second = both

    def answers(self, nodes: Sequence[int]) -> dict[int, int]:
        """Return the answer after each legal action at the last of `nodes`."""
        n, here = len(nodes), nodes[-1]
        # With room for the search, which appends its own line to the game's.
        path = np.zeros(n + DEEPEST + 1, np.int64)
        path[:n] = [situation_of(self.graph, node // 4, node // 2 % 2) for node in nodes]
        found, points = {}, self.graph.after.shape[2]
        for move in range(points + 1):
            if move == points and here % 2 == 1:
                found[move] = 1 if is_won(self.graph, here // 4, 0) else -1
                continue
            following = follow(self.graph, here, move, path, n)
            if following < 0:
                continue
            # Iterative deepening: most positions are decided within a few plies.
            for depth in range(0, DEEPEST + 1, STEP):
                left = np.array([MOST_NODES])
                asked = self.graph, self.first, self.second, following, depth, path, n + 1, left
                found[move] = int(search(*asked))
                # Stop without an answer if the nodes are used up: a deeper search would run out of them too.
                if found[move] != 0 or left[0] < 0:
                    break
        return found


@jit
def situation_of(graph: Graph, board: int, side: int) -> int:
    """Return the situation, which must not recur."""
    return 2 * board + side if graph.situational else board


@jit
def is_won(graph: Graph, board: int, side: int) -> bool:
    """Return whether `side` has its result if the game ends here."""
    return (graph.leads[board] >= graph.at_least) == (side == 0)


@jit
def is_sure(plies: Any, node: int, turn: int) -> bool:
    """Return whether the node was found to be forced in an earlier turn than this one."""
    return 0 < plies[node] < turn


@jit
def forcing_move(graph: Graph, winner: int, plies: Any, node: int, turn: int) -> int:
    """Return a move of `winner` that ends the game well or leads to a sure node; -1 if there is none."""
    board, passes, points = node // 4, node % 2, graph.after.shape[2]
    # A second pass ends the game.
    if passes == 1 and is_won(graph, board, winner):
        return points
    if passes == 0 and is_sure(plies, (board * 2 + 1 - winner) * 2 + 1, turn):
        return points
    for point in range(points):
        board_after = graph.after[board, winner, point]
        if board_after >= 0 and is_sure(plies, (board_after * 2 + 1 - winner) * 2, turn):
            return point
    return -1


@jit
def all_are_sure(graph: Graph, winner: int, plies: Any, node: int, turn: int) -> bool:
    """Return whether all moves of the other side lead to sure nodes, or end the game in the winner's
    favour."""
    board, passes = node // 4, node % 2
    if passes == 1 and not is_won(graph, board, winner):
        return False
    if passes == 0 and not is_sure(plies, (board * 2 + winner) * 2 + 1, turn):
        return False
    for point in range(graph.after.shape[2]):
        board_after = graph.after[board, 1 - winner, point]
        if board_after >= 0 and not is_sure(plies, (board_after * 2 + winner) * 2, turn):
            return False
    return True


@jit
def force(graph: Graph, winner: int, plies: Any, moves: Any) -> None:
    """Fill `plies` int16[nodes] and `moves` int8[nodes], zeros before, for `winner`."""
    turn, before, found = 0, -1, 0
    while found > before:
        turn, before = turn + 1, found
        for node in range(len(plies)):
            if plies[node] > 0:
                continue
            if node // 2 % 2 == winner:
                moves[node] = forcing_move(graph, winner, plies, node, turn)
                is_forced = moves[node] >= 0
            else:
                is_forced = all_are_sure(graph, winner, plies, node, turn)
            # It counts for other nodes only from the next turn on (`is_sure`); otherwise `plies` would depend
            # on the order of the nodes.
            if is_forced:
                plies[node] = turn
                found += 1


@jit
def join(forced: Forced, node: int, following: int) -> None:
    """Include the situations of `following` in those of `node`, which precedes it. If `following` was given
    up, give up `node` too."""
    if forced.plies[following] == 0:
        forced.plies[node] = 0
    for word in range(forced.makes.shape[1]):
        forced.makes[forced.rows[node], word] |= forced.makes[forced.rows[following], word]


@jit
def collect(graph: Graph, winner: int, forced: Forced, order: Any) -> None:
    """Fill `forced.makes`, zeros before. order: int64[forced nodes], each node after those that follow it."""
    points = graph.after.shape[2]
    for k in range(len(order)):
        node = order[k]
        board, side, passes = node // 4, node // 2 % 2, node % 2
        for move in range(points + 1):
            if side == winner and move != forced.moves[node]:
                continue
            if move == points:
                if passes == 0:
                    join(forced, node, (board * 2 + 1 - side) * 2 + 1)
                continue
            board_after = graph.after[board, side, move]
            if board_after >= 0:
                join(forced, node, (board_after * 2 + 1 - side) * 2)
                if side == winner:
                    made = situation_of(graph, board_after, 1 - side)
                    forced.makes[forced.rows[node], made >> 6] |= ONE << np.uint64(made & 63)
        # One of the moves recreates this node's situation, so superko could forbid it: the node is not
        # forced.
        if makes(forced, node, situation_of(graph, board, side)):
            forced.plies[node] = 0


@jit
def makes(forced: Forced, node: int, situation: int) -> bool:
    """Return whether the moves of the forcing side create the situation from the node on."""
    return (forced.makes[forced.rows[node], situation >> 6] >> np.uint64(situation & 63)) & ONE != ZERO


@jit
def holds(graph: Graph, forced: Forced, node: int, path: Any, n: int) -> bool:
    """Return whether the node's result is forced after `path`, and is reached before the cap on plies."""
    plies = signed(forced.plies[node])
    if plies == 0 or plies > graph.last_ply - (n - 1):
        return False
    # All situations that its moves create must be new; otherwise superko could forbid a move.
    for i in range(n):  # noqa: SIM110 - Numba compiles loops, not generators
        if makes(forced, node, path[i]):
            return False
    return True


@jit
def comes_back(path: Any, n: int, situation: int) -> bool:
    """Return whether the situation is among the first `n` of `path`."""
    for i in range(n):  # noqa: SIM110
        if path[i] == situation:
            return True
    return False


# ---- Exact search --------------------------------------------------------------------------------


@jit
def follow(graph: Graph, node: int, move: int, path: Any, n: int) -> int:
    """Return the node after `move`, and write its situation to `path`; -1 if the move is not legal. The move
    must not be the second pass in a row."""
    board, side = node // 4, node // 2 % 2
    if move == graph.after.shape[2]:
        path[n] = situation_of(graph, board, 1 - side)
        return (board * 2 + 1 - side) * 2 + 1
    board_after = signed(graph.after[board, side, move])
    if board_after < 0:
        return -1
    situation = situation_of(graph, board_after, 1 - side)
    if comes_back(path, n, situation):
        return -1
    path[n] = situation
    return (board_after * 2 + 1 - side) * 2


@jit
def search(
    graph: Graph, first: Forced, second: Forced, node: int, depth: int, path: Any, n: int, left: Any
) -> int:
    """Return +1 if the first player has its result with best play, -1 if not, 0 if `depth` plies do not
    decide that.

    path: int64[...] the `n` situations from the start of the history to this node, with room for `depth`
    more. left: int64[1] nodes that may still be searched.
    """
    board, side, passes, points = node // 4, node // 2 % 2, node % 2, graph.after.shape[2]
    if n - 1 >= graph.last_ply:
        return 1 if is_won(graph, board, 0) else -1
    if holds(graph, first, node, path, n):
        return 1
    if holds(graph, second, node, path, n):
        return -1
    left[0] -= 1
    if depth == 0 or left[0] < 0:
        return 0
    wish = 1 - 2 * side
    if passes == 1 and is_won(graph, board, side):
        return wish
    unknown = False
    for move in range(points + 1 - passes):  # a second pass ends the game, and was handled above
        following = follow(graph, node, move, path, n)
        if following >= 0:
            found = search(graph, first, second, following, depth - 1, path, n + 1, left)
            if found == wish:
                return wish
            unknown = unknown or found == 0
    return 0 if unknown else -wish


# ---- Boards and moves ----------------------------------------------------------------------------


NO_BOARD = -1


@kernel
def set_board(state: State, code: int, side: int) -> None:
    """Write the board with this code, with `side` to move and no pass before it."""
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
    """Return the code of a board."""
    code = 0
    for back in range(POINTS):
        point = POINTS - 1 - back  # the highest digit first (Horner)
        code = 3 * code + (1 if has(state, 0, point) else 2 if has(state, WORDS, point) else 0)
    return code


@kernel
def all_have_liberties(state: State) -> bool:
    """Return whether every chain has a liberty."""
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
