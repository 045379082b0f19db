"""The slow, obvious twin of `search.selection.puct`: a tree of Python objects, with the rules called one at a
time."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np

from azselfplay.games.spec import NO_ROOT, Game, outcome_for_first_player
from protocol.settings import SelfPlaySettings


def hashed_evaluation(features: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, float]:
    """Return priors and value that depend on the whole input and on nothing else."""
    digest = hashlib.sha256(features.tobytes() + actions.tobytes()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    priors = rng.random(len(actions)).astype(np.float32) + np.float32(0.05)
    return (priors / priors.sum()).astype(np.float32), float(np.float32(rng.uniform(-1, 1)))


@dataclass
class Edge:
    action: int
    prior: np.float32
    visits: int = 0
    value_sum: np.float32 = np.float32(0)
    child: Node | None = None
    ends_with: float | None = None
    """If the edge ends the game: the value of the end, for the first player."""


@dataclass
class Node:
    edges: list[Edge] = field(default_factory=list)
    mover: int = 0


def listed(node: Node) -> list[tuple]:
    """Return the tree below `node`: (action, prior, visits, value_sum, child) of each edge. The child is a
    list of its node's edges, or -1 if it was never evaluated, or -2 if the game ends."""
    return [
        (
            edge.action,
            float(edge.prior),
            edge.visits,
            float(edge.value_sum),
            listed(edge.child) if edge.child is not None else (-1 if edge.ends_with is None else -2),
        )
        for edge in node.edges
    ]


class NaiveSearch:
    """PUCT as the paper defines it, for one position and without noise."""

    def __init__(self, game: Game, settings: SelfPlaySettings, positions: list[np.ndarray]) -> None:
        self.game, self.settings, self.positions = game, settings, positions
        self.root_visits, self.root_value_sum = 1, np.float32(0)

    def run(self, simulations: int) -> dict[int, int]:
        _, self.root, value = self.look(self.positions)
        self.root_value_sum = np.float32(value)
        for _ in range(simulations):
            self.simulate()
        return {edge.action: edge.visits for edge in self.root.edges if edge.visits}

    def look(self, positions: list[np.ndarray]) -> tuple[bool, Node | None, float]:
        """Return (game over, new node, value for the side to move, or for the first player if the game is
        over)."""
        array = np.array(positions)
        actions = np.zeros(self.game.max_legal, np.uint16)
        count = self.game.rules.legal_actions(array, len(positions), actions)
        root = len(self.positions) - 1 if len(positions) > len(self.positions) else NO_ROOT
        reason = self.game.rules.end_reason(array, len(positions), count, root)
        mover = int(self.game.rules.side_to_move(positions[-1]))
        if reason:
            return True, None, float(outcome_for_first_player(self.game.end_reasons[reason].value, mover))
        if len(positions) - 1 >= self.settings.max_plies:
            return True, None, 0.0
        packed_features = np.zeros(self.game.feature_words(self.settings.history), np.uint64)
        self.game.rules.encode(array, len(positions), self.settings.history, packed_features)
        priors, value = hashed_evaluation(packed_features, actions[:count])
        return False, Node([Edge(int(a), p) for a, p in zip(actions, priors, strict=False)], mover), value

    def simulate(self) -> None:
        node, positions, path = self.root, list(self.positions), []
        visits, value_sum = self.root_visits, self.root_value_sum
        while True:
            edge = self.choice(node, visits, float(value_sum) / visits)
            path.append((node, edge))
            child = np.zeros(self.game.state_words, np.uint64)
            self.game.rules.play(positions[-1], edge.action, child)
            positions.append(child)
            if edge.child is None or self.is_proven(edge.child):
                break
            visits, value_sum = edge.visits, edge.value_sum
            if edge.child.mover != node.mover:
                value_sum = -value_sum
            node = edge.child
        self.back_up(path, self.value_behind(edge, positions))

    def choice(self, node: Node, visits: int, value: float) -> Edge:
        """Return the edge that a simulation follows from `node`, which has this mean value."""
        reduction = self.settings.search.fpu_reduction
        if node is not self.root or self.settings.noise.root_noise == 0:
            return self.best(node, visits, value, reduction)
        return self.best(node, visits, value, reduction=0.0)

    def is_proven(self, node: Node) -> bool:  # noqa: ARG002
        """Return whether simulations end at this node because its result is known (`NaiveSolver`)."""
        return False

    def value_behind(self, edge: Edge, positions: list[np.ndarray]) -> float:
        """Return the value of the position at the end of `positions`, to which `edge` leads, for the first
        player."""
        if edge.ends_with is not None:
            return edge.ends_with
        over, edge.child, value = self.look(positions)
        if over:
            edge.ends_with = value
            return value
        return value if edge.child.mover == 0 else -value

    def back_up(self, path: list[tuple[Node, Edge]], value: float) -> None:
        """Add `value`, which is for the first player, to the edges of `path`, each from the view of the side
        that chose it."""
        for node, edge in path:
            edge.visits += 1
            own = value if node.mover == 0 else -value
            edge.value_sum = np.float32(edge.value_sum + np.float32(own))
        own = value if self.root.mover == 0 else -value
        self.root_visits += 1
        self.root_value_sum = np.float32(self.root_value_sum + np.float32(own))

    def best(self, node: Node, visits: int, value: float, reduction: float) -> Edge:
        visited = sum(float(edge.prior) for edge in node.edges if edge.visits)
        fpu = value - reduction * math.sqrt(visited)

        def score(edge: Edge) -> float:
            q = float(edge.value_sum) / edge.visits if edge.visits else fpu
            return q + self.exploration(edge, visits, edge.visits)

        return max(node.edges, key=score)

    def exploration(self, edge: Edge, parent_visits: int, visits: int) -> float:
        c_base, c_init = self.settings.search.c_base, self.settings.search.c_init
        c_puct = math.log((1.0 + parent_visits + c_base) / c_base) + c_init
        return c_puct * math.sqrt(parent_visits) * float(edge.prior) / (1 + visits)
