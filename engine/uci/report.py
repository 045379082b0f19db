"""The result of a search in UCI's terms: the order of the moves, `info` lines and the best move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from games.spec import Game, State
from search.layout import UNEXPANDED
from search.leaf_parallel import ParallelTree

LONGEST_LINE = 64
"""Moves of a principal variation that are sent."""

CENTIPAWN_SCALE, CENTIPAWN_BEND = 90.0, 1.5637541897
"""lc0's formula of versions 0.20 to 0.29: 90 tan(1.5637541897 value); a value of 0.5 is 89 centipawns."""


@dataclass(frozen=True)
class Progress:
    """Figures of one search."""

    seconds: float
    simulations: int
    depth: int
    """Mean depth of its simulations, plies."""
    deepest: int


def centipawns(value: float) -> int:
    """A value in [-1, 1] in centipawns; +-12,780 at the ends."""
    return round(CENTIPAWN_SCALE * math.tan(CENTIPAWN_BEND * max(-1.0, min(1.0, value))))


def score_text(value: float, proof: int) -> str:
    """`cp N`, or `mate N` in moves when `proof` (plies to the win, or minus plies to the loss) is known."""
    if proof:
        return f"mate {(proof + 1) // 2 if proof > 0 else -(-proof // 2)}"
    return f"cp {centipawns(value)}"


def wdl_text(value: float, draw: float, proof: int = 0) -> str:
    """Per mille of win, draw and loss, for a searched `value`.

    A tree holds values, not three probabilities. So the share of draws is the network's at the root, or less
    where the value leaves less room.
    """
    if proof:
        return "1000 0 0" if proof > 0 else "0 0 1000"
    drawn = max(0.0, min(draw, 1.0 - abs(value)))
    win = round(1000 * (1.0 - drawn + value) / 2)
    loss = round(1000 * (1.0 - drawn - value) / 2)
    return f"{win} {1000 - win - loss} {loss}"


def ranked(tree: ParallelTree, node: int, allowed: Sequence[int] = ()) -> list[int]:
    """Indices of a node's edges, best first: quickest wins, then by visits, slowest losses last."""
    edges, proofs = tree.edges_of(node), tree.edge_proofs(node)
    is_planned = node == 0 and not tree.forest.selection.KEEPS_SUBTREE
    # Sequential halving leaves several moves with the same visits; its score decides between them.
    scores = tree.forest.selection.root_scores(tree).scores if is_planned else [_mean(edge) for edge in edges]

    def key(index: int) -> tuple[int, int, float, float]:
        proof, edge = proofs[index], edges[index]
        standing = 1 if proof > 0 else (-1 if proof < 0 else 0)
        best = -proof if proof else int(edge["visits"])
        return standing, best, float(scores[index]), float(edge["prior"])

    chosen = [index for index, edge in enumerate(edges) if not allowed or int(edge["action"]) in allowed]
    return sorted(chosen, key=key, reverse=True)


def _mean(edge: np.void) -> float:
    return float(edge["value_sum"]) / int(edge["visits"]) if edge["visits"] else -1.0


def line_of_play(tree: ParallelTree, game: Game, index: int) -> list[str]:
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
    return moves


def _after(game: Game, state: State, action: int) -> State:
    child: State = np.zeros_like(state)
    game.rules.play(state, action, child)
    return child


def info_lines(
    tree: ParallelTree,
    game: Game,
    progress: Progress,
    *,
    multi_pv: int = 1,
    allowed: Sequence[int] = (),
    draw: float | None = None,
) -> list[str]:
    """One `info` line for each of the `multi_pv` best visited moves. `draw`, the share of draws, adds wdl."""
    edges, proofs = tree.edges_of(0), tree.edge_proofs(0)
    order = ranked(tree, 0, allowed)
    shown = [index for index in order[:multi_pv] if edges[index]["visits"]] or order[:1]
    speed = round(progress.simulations / progress.seconds) if progress.seconds > 0 else 0
    full = min(1000, 1000 * tree.node_count // tree.max_nodes) if not tree.is_full else 1000
    lines = []
    for number, index in enumerate(shown, 1):
        value = _mean(edges[index]) if edges[index]["visits"] else tree.root_value()
        score = score_text(value, proofs[index])
        if draw is not None:
            score += f" wdl {wdl_text(value, draw, proofs[index])}"
        lines.append(
            f"info depth {max(1, progress.depth)} seldepth {max(1, progress.deepest)} multipv {number} "
            f"score {score} nodes {progress.simulations} nps {speed} hashfull {full} tbhits 0 "
            f"time {round(1000 * progress.seconds)} pv {' '.join(line_of_play(tree, game, index))}"
        )
    return lines


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
