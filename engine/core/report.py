"""The result of a search: the order of the moves, lines of play, and the move to play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from games.spec import Game, State
from search.layout import UNEXPANDED
from search.leaf_parallel import ParallelTree

LONGEST_LINE = 64
"""Most moves of a principal variation that are reported."""


@dataclass(frozen=True)
class Progress:
    """Figures of one search."""

    seconds: float
    simulations: int
    depth: int
    """Mean depth of its simulations, in plies."""
    deepest: int
    hashfull: int = 0
    """Used share of the tree's memory, per mille."""


@dataclass(frozen=True)
class Line:
    """A legal move and what is known about it. All values are for the side to move at the root."""

    moves: tuple[str, ...]
    """The principal variation, this move first, in the game's notation."""
    visits: int
    value: float
    """Value in [-1, 1]; the root's if the move was not visited."""
    prior: float
    proof: int = 0
    """Plies to a proven win, minus plies to a proven loss, or 0."""


@dataclass(frozen=True)
class Report:
    """What a search has found so far."""

    lines: tuple[Line, ...] = ()
    """Lines, the best first."""
    progress: Progress = Progress(0.0, 0, 0, 0)
    draw: float | None = None
    """The network's draw probability at the root, if requested."""
    outcome: int | None = None
    """+1, 0 or -1 for the side to move, if the game is over; then there are no lines."""
    note: str = ""
    """A sentence for people."""


@dataclass(frozen=True)
class Found:
    """The end of a search."""

    moves: tuple[str, ...]
    """The move to play and the expected continuation, in the game's notation; () if the game is over."""
    action: int = -1
    """The move to play."""
    value: float = 0.0
    """Value of that move for the side to move; or the result, if the game is over."""
    claim: str = ""
    """The end reason by which the side to move has won, if a claim was requested."""


def ranked(tree: ParallelTree, node: int, allowed: Sequence[int] = ()) -> list[int]:
    """Indices of a node's edges, best first: quickest wins, then by visits, slowest losses last."""
    edges, proofs = tree.edges_of(node), tree.edge_proofs(node)
    is_planned = node == 0 and not tree.forest.selection.KEEPS_SUBTREE
    # Sequential halving leaves several moves with the same visits; then its score decides.
    scores = (
        tree.forest.selection.root_scores(tree)[0].scores if is_planned else [_mean(edge) for edge in edges]
    )

    def key(index: int) -> tuple[int, int, float, float]:
        proof, edge = proofs[index], edges[index]
        standing = 1 if proof > 0 else (-1 if proof < 0 else 0)
        best = -proof if proof else int(edge["visits"])
        return standing, best, float(scores[index]), float(edge["prior"])

    chosen = [index for index, edge in enumerate(edges) if not allowed or int(edge["action"]) in allowed]
    return sorted(chosen, key=key, reverse=True)


def _mean(edge: np.void) -> float:
    return float(edge["value_sum"]) / int(edge["visits"]) if edge["visits"] else -1.0


def line_of_play(tree: ParallelTree, game: Game, index: int) -> tuple[str, ...]:
    """The principal variation that begins with root edge `index`."""
    state, node = tree.state.copy(), 0
    moves: list[str] = []
    while len(moves) < LONGEST_LINE:
        edge = tree.edges_of(node)[index]
        moves.append(game.notation.action_to_text(state, int(edge["action"])))
        state, node = _after(game, state, int(edge["action"])), int(edge["child"])
        if node <= UNEXPANDED:
            break
        index = ranked(tree, node)[0]
        if not tree.edges_of(node)[index]["visits"]:
            break
    return tuple(moves)


def _after(game: Game, state: State, action: int) -> State:
    child: State = np.zeros_like(state)
    game.rules.play(state, action, child)
    return child


def lines_of(tree: ParallelTree, game: Game, count: int = 1, allowed: Sequence[int] = ()) -> tuple[Line, ...]:
    """The `count` best visited moves, or the best one if none is visited."""
    edges, proofs = tree.edges_of(0), tree.edge_proofs(0)
    order = ranked(tree, 0, allowed)
    shown = [index for index in order[:count] if edges[index]["visits"]] or order[:1]
    return tuple(
        Line(
            line_of_play(tree, game, index),
            int(edges[index]["visits"]),
            value_of(tree, index),
            float(edges[index]["prior"]),
            proofs[index],
        )
        for index in shown
    )


def value_of(tree: ParallelTree, index: int) -> float:
    """The value of root edge `index` for the side to move; the root's if it was not visited."""
    edge = tree.edges_of(0)[index]
    return _mean(edge) if edge["visits"] else tree.root_value()


def hashfull(tree: ParallelTree) -> int:
    """Per mille of the tree's memory that is in use."""
    return 1000 if tree.is_full else min(1000, 1000 * tree.node_count // tree.max_nodes)


def best_index(
    tree: ParallelTree, allowed: Sequence[int], temperature: float, rng: np.random.Generator
) -> int:
    """The root edge to play: the best of `ranked`, or drawn from visits ** (1 / temperature)."""
    order = ranked(tree, 0, allowed)
    visits = tree.edges_of(0)["visits"][order].astype(np.float64)
    if temperature <= 0 or tree.edge_proofs(0)[order[0]] or visits.max() <= 0:
        return order[0]
    weights = (visits / visits.max()) ** (1.0 / temperature)
    return int(rng.choice(order, p=weights / weights.sum()))
