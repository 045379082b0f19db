"""The slow, obvious twin of `search.solver` and `search.look_ahead` under PUCT.

After each simulation, what is proven is found by walking through the whole tree.
"""

import numpy as np
from naive_mcts import Edge, NaiveSearch, Node


class NaiveSolver(NaiveSearch):
    """PUCT in which a proven result replaces the value of its position."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.corrected: set[int] = set()

    def result(self, node: Node) -> int:
        """Return the plies to the proven win of the side to move, the negated plies to its proven loss, or
        0 if nothing is proven."""
        found = [self.result_of(node, edge) for edge in node.edges]
        if any(one > 0 for one in found):
            return min(one for one in found if one > 0)
        return min(found) if all(one < 0 for one in found) else 0

    def result_of(self, node: Node, edge: Edge) -> int:
        """Return the same for `edge` of `node`, for the side that chooses it."""
        if edge.ends_with is not None:
            return int(edge.ends_with if node.mover == 0 else -edge.ends_with)
        below = self.result(edge.child) if edge.child else 0
        own = below if edge.child and edge.child.mover == node.mover else -below
        return own + int(np.sign(own))

    def choice(self, node: Node, visits: int, value: float) -> Edge:
        wins = [edge for edge in node.edges if self.result_of(node, edge) > 0]
        if wins:  # only at the root: no simulation goes below a proven node
            return min(wins, key=lambda edge: self.result_of(node, edge))
        return super().choice(node, visits, value)

    def is_proven(self, node: Node) -> bool:
        return self.result(node) != 0

    def back_up(self, path: list[tuple[Node, Edge]], value: float) -> None:
        super().back_up(path, value)
        self.correct(path)

    def value_behind(self, edge: Edge, positions: list[np.ndarray]) -> float:
        """Return the value behind `edge` for the first player: proven, the network's, or that of a win at
        once."""
        if edge.child is not None:
            own = float(np.sign(self.result(edge.child)))
            return own if edge.child.mover == 0 else -own
        value = super().value_behind(edge, positions)
        if edge.child is None or not self.settings.search.look_ahead:
            return value
        wins = [one for one in edge.child.edges if self.wins_at_once(positions, one.action)]
        if not wins:
            return value
        for one in wins:
            one.prior, one.visits, one.value_sum = np.float32(1 / len(wins)), 1, np.float32(1)
            one.ends_with = 1.0 if edge.child.mover == 0 else -1.0
        edge.child.edges = wins
        return wins[0].ends_with

    def wins_at_once(self, positions: list[np.ndarray], action: int) -> bool:
        after = np.zeros(self.game.state_words, np.uint64)
        self.game.rules.play(positions[-1], action, after)
        mover = int(self.game.rules.side_to_move(positions[-1]))
        over, _, value = self.look([*positions, after])
        return over and value == (1 if mover == 0 else -1)

    def correct(self, path: list[tuple[Node, Edge]]) -> None:
        """Give all visits of nodes of `path` that are proven now the proven result."""
        for depth in range(len(path) - 1, 0, -1):
            node, (above, edge) = path[depth][0], path[depth - 1]
            if not self.result(node) or id(node) in self.corrected:
                continue
            self.corrected.add(id(node))
            exact = np.float32(edge.visits * np.sign(self.result_of(above, edge)))
            change = exact - edge.value_sum
            edge.value_sum = exact
            for other, higher in path[: depth - 1]:
                higher.value_sum += change if other.mover == above.mover else -change
            self.root_value_sum += change if self.root.mover == above.mover else -change

    def best(self, node: Node, visits: int, value: float, reduction: float) -> Edge:
        every = node.edges
        open_edges = [edge for edge in every if not (edge.visits and self.result_of(node, edge) < 0)]
        visited = sum(float(edge.prior) for edge in open_edges if edge.visits)
        count = 1 + sum(edge.visits for edge in every)
        lost = count - 1 - sum(edge.visits for edge in open_edges)
        if lost:
            value = (value * count + lost) / (count - lost)
        fpu = value - reduction * np.sqrt(visited)

        def score(edge: Edge) -> float:
            q = float(edge.value_sum) / edge.visits if edge.visits else fpu
            return q + self.exploration(edge, visits, edge.visits)

        return max(open_edges, key=score) if open_edges else every[-1]
