"""Evaluators for tests, which answer leaf by leaf, and searches and games with them."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from naive_mcts import hashed_evaluation

from azselfplay.games.spec import Game
from azselfplay.search.evaluator import Evaluations, Reply
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult
from azselfplay.search.tree import SearchTree
from client.self_play import play_game
from protocol.frames import LeafBatch
from protocol.records import GameRecord
from protocol.settings import SelfPlaySettings

Answer = tuple[Any, float]


class Leaf(NamedTuple):
    """One position to evaluate: a row of a LeafBatch."""

    features: Any
    actions: Any


def uniform(leaf: Leaf) -> Answer:
    """Return equal priors for all legal actions, and the value 0."""
    count = len(leaf.actions)
    return np.full(count, 1 / count, np.float32), 0.0


def wdl_of(value: float) -> list[float]:
    """Return probabilities of win, draw and loss with exactly this value."""
    return [max(value, 0.0), 1.0 - abs(value), max(-value, 0.0)]


def leaves_of(batch: LeafBatch) -> Iterator[Leaf]:
    """Yield the rows of a batch, one after the other."""
    begin = 0
    for row, count in enumerate(batch.counts.tolist()):
        yield Leaf(batch.features[row], batch.actions[begin : begin + count])
        begin += count


class LeafByLeaf:
    """An `Evaluator` that answers in the next turn of the loop; subclasses implement `answer`."""

    def __init__(self, answer: Callable[[Leaf], Answer] | None = None, version: int = 0) -> None:
        self.version, self.rows = version, 0
        if answer is not None:
            self.answer = answer  # type: ignore[method-assign]

    def answer(self, leaf: Leaf) -> Answer:
        """Return (priors over the legal actions, value for the side to move)."""
        return uniform(leaf)

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        asyncio.get_running_loop().call_soon(self.answer_all, batch, reply)

    def answer_all(self, batch: LeafBatch, reply: Reply) -> None:
        for row, leaf in enumerate(leaves_of(batch)):
            self.rows += 1
            try:
                priors, value = self.answer(leaf)
            except Exception as error:
                reply.failed(row, 1, error)
            else:
                wdl = np.array([wdl_of(value)], np.float32)
                reply.answered(row, Evaluations(np.asarray(priors, np.float32), wdl, self.version))


class HashEvaluator(LeafByLeaf):
    """Answers each leaf by a hash of its input."""

    def __init__(self) -> None:
        super().__init__(version=7)

    def answer(self, leaf: Leaf) -> Answer:
        return hashed_evaluation(leaf.features, leaf.actions)


class Held(HashEvaluator):
    """Keeps its requests until the test answers them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[LeafBatch, Reply]] = []
        self._came = asyncio.Event()

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self.asked.append((batch, reply))
        self._came.set()

    async def next(self) -> tuple[LeafBatch, Reply]:
        """Return the oldest batch without an answer, and forget it."""
        while not self.asked:
            self._came.clear()
            await self._came.wait()
        return self.asked.pop(0)

    async def answer_next(self, batches: int = 1) -> None:
        for _ in range(batches):
            self.answer_all(*await self.next())

    async def answer_on(self) -> None:
        """Answer all batches, without end."""
        while True:
            await self.answer_next()


class Scattered(HashEvaluator):
    """Answers each batch in parts, in any order, over several turns of the loop; some parts come twice."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._rng = np.random.default_rng(seed)

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        cuts = np.flatnonzero(self._rng.random(batch.rows - 1) < 0.3) + 1
        parts = list(zip([0, *cuts.tolist()], [*cuts.tolist(), batch.rows], strict=True))
        answers = [self.answer(leaf) for leaf in leaves_of(batch)]
        self.rows += batch.rows
        for k in self._rng.permutation(len(parts)).tolist():
            first, end = parts[k]
            priors = np.concatenate([priors for priors, _ in answers[first:end]])
            wdl = np.array([wdl_of(value) for _, value in answers[first:end]], np.float32)
            again = bool(self._rng.random() < 0.3)
            for _ in range(1 + again):
                turns = int(self._rng.integers(1, 5))
                self._later(turns, reply, first, Evaluations(priors, wdl, self.version))

    def _later(self, turns: int, reply: Reply, first: int, evaluations: Evaluations) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, turns - 1, reply, first, evaluations)
        else:
            reply.answered(first, evaluations)


def placed(tree: Any, moves: str = "", start: str = "") -> Any:
    """Begin a game at `start`, play `moves`, and return the tree."""
    notation = tree.game.notation
    tree.reset(notation.state_from_text(start))
    for move in moves.split():
        tree.advance(notation.action_from_text(tree.state, move))
    return tree


def searched(tree: SearchTree, evaluator: Any = None) -> SearchResult:
    """Return the result of one search from the root of `tree`."""
    return asyncio.run(search(tree, SearchPool(tree.forest, evaluator or LeafByLeaf())))


async def playing(
    game: Game, settings: SelfPlaySettings, evaluator: Any, rng: np.random.Generator, **more: Any
) -> GameRecord:
    """Play one game of self-play in a forest of its own."""
    return await play_game(SearchPool(Forest(game, settings), evaluator), rng, **more)


def played(*what: Any, **more: Any) -> GameRecord:
    """Run `playing` to its end; the arguments are the same."""
    return asyncio.run(playing(*what, **more))
