"""Leaves evaluated through all symmetries get the mean of the answers, and each counts as an evaluation."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from changed_settings import self_play
from hypothesis import given
from hypothesis import strategies as st
from leaf_by_leaf import Answer, HashEvaluator, LeafByLeaf, Scattered, leaves_of, wdl_of
from naive_averaging import naive_mean
from symmetric_games import PLAYED

from games import get_game
from games.spec import Game
from search.averaging import AveragingEvaluator
from search.evaluator import Evaluations, evaluate
from search.forest import Forest
from search.leaf_batch import BadEvaluation, Leaf, LeafBatch, Reply, joined
from search.pool import SearchPool
from search.settings import resolve
from search.tree import SearchTree

HISTORY = 2


def by_action(leaf: Leaf) -> Answer:
    """Return priors and a value that follow from the features and each action, whatever the order."""
    seed = zlib.crc32(leaf.features.tobytes())
    weights = np.array([1 + (seed * (int(action) + 3)) % 97 for action in leaf.actions], np.float32)
    return weights / weights.sum(), (seed % 201 - 100) / 100


def leaf_of(game: Game) -> Callable[[list[int]], Leaf]:
    """Return what makes the leaf after some actions."""
    forest = Forest(game, resolve(self_play(history=HISTORY), game))

    def leaf(actions: list[int]) -> Leaf:
        with SearchTree(forest, np.random.default_rng(0)) as tree:
            tree.reset(game.notation.state_from_text(""))
            for action in actions:
                tree.advance(action)
            return tree.root_leaf()

    return leaf


@pytest.mark.parametrize(("name", "actions"), PLAYED)
def test_agrees_with_the_slow_twin(name: str, actions: list[int]) -> None:
    """For several positions of a game in one batch."""
    game = get_game(name)
    leaf_after = leaf_of(game)
    lines = [actions[:count] for count in range(len(actions) + 1)]
    batch = joined([LeafBatch.of(leaf_after(line)) for line in lines])

    async def main() -> Evaluations:
        return await evaluate(AveragingEvaluator(LeafByLeaf(by_action), game, HISTORY), batch)

    found, at = asyncio.run(main()), 0
    for line, count, value in zip(lines, batch.counts.tolist(), found.values.tolist(), strict=True):
        priors, wanted = naive_mean(game, line, leaf_after, by_action)
        said = dict(zip(batch.actions[at : at + count].tolist(), found.priors[at : at + count], strict=True))
        assert said == pytest.approx(priors, abs=1e-6)
        assert value == pytest.approx(wanted, abs=1e-6)
        at += count


def test_a_large_batch_is_asked_for_in_parts_and_answered_in_parts() -> None:
    """16 of 40 leaves with eight views each at a time; rows are answered in any order, some twice."""
    batch = joined([LeafBatch.of(LEAF(list(range(count % 5)))) for count in range(40)])

    async def mean(seed: int) -> Evaluations:
        return await evaluate(AveragingEvaluator(Scattered(seed), GAME, HISTORY), batch)

    async def one_by_one() -> list[Evaluations]:
        averaging, at, found = AveragingEvaluator(HashEvaluator(), GAME, HISTORY), 0, []
        for row, count in enumerate(batch.counts.tolist()):
            leaf = Leaf(batch.features[row], batch.actions[at : at + count])
            found.append(await evaluate(averaging, LeafBatch.of(leaf)))
            at += count
        return found

    for seed in range(5):
        found, wanted = asyncio.run(mean(seed)), asyncio.run(one_by_one())
        np.testing.assert_allclose(found.wdl, np.concatenate([one.wdl for one in wanted]), atol=1e-6)
        np.testing.assert_allclose(found.priors, np.concatenate([one.priors for one in wanted]), atol=1e-6)


def test_a_fault_of_several_rows_fails_each_of_their_leaves_once() -> None:
    """Rows 3 to 5 of four leaves: the last leaf's first view, and the second views of the first two."""
    below, heard = Later(), Heard()
    AveragingEvaluator(below, GAME, HISTORY).submit(LEAVES, heard)
    batch, reply = below.asked
    reply.failed(3, 3, BadEvaluation("lost"))
    views = [by_action(leaf) for leaf in leaves_of(batch)]
    for first, end in ((0, 3), (6, 20), (20, 32)):
        priors = np.concatenate([priors for priors, _ in views[first:end]])
        wdl = np.array([wdl_of(value) for _, value in views[first:end]], np.float32)
        reply.answered(first, Evaluations(priors, wdl, 3))
    assert sorted(heard.faults) == [0, 1, 3]
    assert set(heard.rows) == {2}


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows: dict[int, float] = {}
        self.faults: list[int] = []

    def answered(self, first: int, evaluations: Evaluations) -> None:
        for row, value in enumerate(evaluations.values.tolist(), first):
            assert row not in self.rows
            self.rows[row] = value

    def failed(self, first: int, rows: int, error: Exception) -> None:
        assert rows == 1
        assert isinstance(error, BadEvaluation)
        self.faults.append(first)


class Later(LeafByLeaf):
    """Keeps its request until the test answers it."""

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self.asked = batch, reply


GAME = get_game("tic_tac_toe")
LEAF = leaf_of(GAME)
LEAVES = joined([LeafBatch.of(LEAF(list(range(count)))) for count in range(4)])


@given(order=st.permutations(range(32)), bad=st.sets(st.integers(0, 31), max_size=5), again=st.booleans())
def test_answers_may_come_in_any_order_and_some_may_be_missing(
    order: list[int], bad: set[int], again: bool
) -> None:
    """Each leaf is answered once or fails once: if one of its eight views failed."""
    below, heard = Later(), Heard()
    AveragingEvaluator(below, GAME, HISTORY).submit(LEAVES, heard)
    batch, reply = below.asked
    views = list(leaves_of(batch))
    for row in [*order, *(order if again else [])]:
        priors, value = by_action(views[row])
        if row in bad:
            priors = priors[:-1]
        reply.answered(row, Evaluations(priors, np.array([wdl_of(value)], np.float32), 3))
    failed = {row % 4 for row in bad}
    assert sorted(heard.faults) == sorted(failed)
    assert set(heard.rows) == set(range(4)) - failed


def test_each_symmetry_counts_as_an_evaluation() -> None:
    """A root takes eight of them in tic-tac-toe; chess has no symmetry."""
    for name, views in (("tic_tac_toe", 8), ("chess", 1)):
        game, evaluator = get_game(name), LeafByLeaf(by_action)
        forest = Forest(game, resolve(self_play(simulations=20, average_symmetries=True), game))

        async def main(forest: Forest = forest, evaluator: LeafByLeaf = evaluator) -> int:
            pool = SearchPool(forest, evaluator)
            with SearchTree(forest, np.random.default_rng(0)) as tree:
                tree.reset(forest.game.notation.state_from_text(""))
                await pool.expand(tree)
            return pool.leaves

        assert asyncio.run(main()) == evaluator.rows == views


def test_one_random_symmetry_and_the_mean_of_all_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="choose one"):
        resolve(self_play(evaluation_symmetry=True, average_symmetries=True), GAME)
