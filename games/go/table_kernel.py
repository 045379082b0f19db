"""Who wins on a small board: what a side can force without ever repeating a position, and exact search.

A node is (board * 2 + side to move) * 2 + passes, where board is a number of `games.go.graph_kernel`. A
situation is what must not recur: the board, or under situational superko board * 2 + side to move.

`force` finds by retrograde analysis the nodes from which one side reaches its result whatever the other does,
and its move in each. It ignores superko. `collect` notes which situations that side's own moves make from a
node on. If these are neither the node's own nor that of a node on the way, superko forbids none of these
moves; other nodes do not count as forced. If none of the situations was on the board before, the past makes
no difference.

`search` is exact: it obeys superko along its path, and stops at nodes that are forced.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from games.bits import ONE, ZERO
from games.jit import jit, signed


class Graph(NamedTuple):
    """A small board under its rules."""

    after: npt.NDArray[np.int32]
    """[boards, 2, points] `games.go.graph_kernel.connect`."""
    leads: npt.NDArray[np.int8]
    """[boards] the first player's points minus the second's."""
    situational: int
    last_ply: int
    at_least: int
    """The lead that the first player needs: the result is whether it has that lead when the game ends."""


class Forced(NamedTuple):
    """What one side can force."""

    plies: npt.NDArray[np.int16]
    """[nodes] most plies to the end; 0: nothing is forced."""
    moves: npt.NDArray[np.int8]
    """[nodes] that side's move: a point, or the number of points for the pass."""
    rows: npt.NDArray[np.int32]
    """[nodes] row of `makes`."""
    makes: npt.NDArray[np.uint64]
    """[forced nodes, words] situations, as bits, that its moves make from here on."""


@jit
def situation_of(graph: Graph, board: int, side: int) -> int:
    """The situation, which must not recur."""
    return 2 * board + side if graph.situational else board


@jit
def is_won(graph: Graph, board: int, side: int) -> bool:
    """Whether `side` has its result if the game ends here."""
    return (graph.leads[board] >= graph.at_least) == (side == 0)


@jit
def is_sure(plies: Any, node: int, turn: int) -> bool:
    """Whether the node was found in an earlier turn than this one."""
    return 0 < plies[node] < turn


@jit
def forcing_move(graph: Graph, winner: int, plies: Any, node: int, turn: int) -> int:
    """A move of `winner` to a sure node, or -1."""
    board, passes, points = node // 4, node % 2, graph.after.shape[2]
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
    """Whether all moves of the other side lead to sure nodes."""
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
            if is_forced:
                plies[node] = turn
                found += 1


@jit
def join(forced: Forced, node: int, following: int) -> None:
    """`following` comes after `node`: include its situations, or give up `node` if `following` was given
    up."""
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
        if makes(forced, node, situation_of(graph, board, side)):
            forced.plies[node] = 0


@jit
def makes(forced: Forced, node: int, situation: int) -> bool:
    """Whether the moves of the forcing side make the situation, from the node on."""
    return (forced.makes[forced.rows[node], situation >> 6] >> np.uint64(situation & 63)) & ONE != ZERO


@jit
def holds(graph: Graph, forced: Forced, node: int, path: Any, n: int) -> bool:
    """Whether the node's result is forced after `path`, before the cap on plies."""
    plies = signed(forced.plies[node])
    if plies == 0 or plies > graph.last_ply - (n - 1):
        return False
    for i in range(n):  # noqa: SIM110 - Numba compiles loops, not generators
        if makes(forced, node, path[i]):
            return False
    return True


@jit
def comes_back(path: Any, n: int, situation: int) -> bool:
    """Whether the situation is among the first `n`."""
    for i in range(n):  # noqa: SIM110
        if path[i] == situation:
            return True
    return False


@jit
def follow(graph: Graph, node: int, move: int, path: Any, n: int) -> int:
    """The node after `move`, with its situation written to `path`; -1 if the move is not legal. Not for the
    second pass."""
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
    """+1 if the first player has its result with best play, -1 if not, 0 if `depth` plies do not show it.

    path: int64[...] situations from the start of the history to this node, `n` of them; room for `depth`
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
