"""The slow, obvious twin of `search.selection.gumbel`: formulas of the paper on Python objects."""

import math

import numpy as np
from naive_mcts import Edge, NaiveSearch, Node

from azselfplay.search.selection.gumbel import halving_schedule


class NaiveGumbel(NaiveSearch):
    """Sequential halving at the root, the improved policy below it."""

    def run_gumbel(self, simulations: int, noise: np.ndarray) -> dict[int, int]:
        _, self.root, value = self.look(self.positions)
        assert self.root is not None
        self.evaluation = {id(self.root): value}
        considered = min(self.settings.gumbel.considered, len(self.root.edges))
        for wanted in halving_schedule(considered, simulations):
            logits = [math.log(edge.prior) for edge in self.root.edges]
            scores = np.array(logits) + noise + self.sigma(self.root)
            scores[[edge.visits != wanted for edge in self.root.edges]] = -math.inf
            self.simulate_from(self.root.edges[int(np.argmax(scores))])
        return {edge.action: edge.visits for edge in self.root.edges if edge.visits}

    def completed(self, node: Node) -> np.ndarray:
        """Return completed values (appendix D): an unvisited action gets a mixture of the network's value and
        the others'."""
        visited = [edge for edge in node.edges if edge.visits]
        visits = sum(edge.visits for edge in visited)
        mixed = self.evaluation[id(node)]
        if visited:
            mass = sum(float(edge.prior) for edge in visited)
            mean = sum(float(e.prior) * float(e.value_sum) / e.visits for e in visited) / mass
            mixed = (mixed + visits * mean) / (1 + visits)
        return np.array([float(e.value_sum) / e.visits if e.visits else mixed for e in node.edges])

    def sigma(self, node: Node) -> np.ndarray:
        most = max(edge.visits for edge in node.edges)
        return (50.0 + most) * self.settings.gumbel.c_scale * self.completed(node)

    def improved(self, node: Node) -> np.ndarray:
        scores = np.array([math.log(edge.prior) for edge in node.edges]) + self.sigma(node)
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    def next_edge(self, node: Node) -> Edge:
        visits = np.array([edge.visits for edge in node.edges])
        return node.edges[int(np.argmax(self.improved(node) - visits / (1 + visits.sum())))]

    def simulate_from(self, edge: Edge) -> None:
        positions, path = list(self.positions), [(self.root, edge)]
        while True:
            edge = path[-1][1]
            child = np.zeros(self.game.state_words, np.uint64)
            self.game.rules.play(positions[-1], edge.action, child)
            positions.append(child)
            if edge.child is None:
                break
            path.append((edge.child, self.next_edge(edge.child)))
        value = self.value_behind(edge, positions)
        if edge.child is not None:
            self.evaluation[id(edge.child)] = value if edge.child.mover == 0 else -value
        self.back_up(path, value)
