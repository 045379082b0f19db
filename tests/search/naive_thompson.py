"""The slow, obvious twin of `search.selection.thompson`, with the same random numbers from plain integers."""

import math

from naive_mcts import Edge, NaiveSearch, Node

from azselfplay.search.selection.thompson import PRIOR_SCALE, PRIOR_VISITS, VALUE_SPREAD

WORD = (1 << 64) - 1


class SplitMix:
    """The random number generator as published, on Python integers."""

    def __init__(self, state: int = 0) -> None:
        self.state = state

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
        return x ^ (x >> 31)

    def unit(self) -> float:
        return ((self.word() >> 11) + 1) / (1 << 53)

    def normal(self) -> float:
        return math.sqrt(-2 * math.log(self.unit())) * math.cos(2 * math.pi * self.unit())


class NaiveThompson(NaiveSearch):
    """Every edge has a normal posterior; the largest sample is chosen, at the root and below it."""

    def run_thompson(self, simulations: int, seed: int = 0) -> dict[int, int]:
        self.random = SplitMix(seed)
        return self.run(simulations)

    def look(self, positions):
        over, node, value = super().look(positions)
        if node is not None:
            node.own = value
        return over, node, value

    def best(self, node: Node, visits: int, value: float, reduction: float) -> Edge:  # noqa: ARG002
        priors = [float(edge.prior) for edge in node.edges]
        mean_log = sum(prior * math.log(prior) for prior in priors)
        samples = []
        for edge, prior in zip(node.edges, priors, strict=True):
            before = min(1.0, max(-1.0, node.own + PRIOR_SCALE * (math.log(prior) - mean_log)))
            seen = PRIOR_VISITS + edge.visits
            mean = (PRIOR_VISITS * before + float(edge.value_sum)) / seen
            samples.append(mean + self.random.normal() * VALUE_SPREAD / math.sqrt(seen))
        return node.edges[samples.index(max(samples))]
