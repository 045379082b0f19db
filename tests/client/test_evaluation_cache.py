"""What the cache of evaluations answers, and that games do not notice it."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import replace

import numpy as np
import pytest

from client.evaluation_cache import CachedEvaluator
from client.self_play import play_game
from games import get_game
from protocol.records import to_bytes
from protocol.settings import SelfPlaySettings
from search.leaf_batch import Evaluation, Leaf
from search.settings import resolve
from search.tree import SearchTree


class HashNet:
    """Priors and values that are a function of the input, as a network's are."""

    def __init__(self) -> None:
        self.version = 1
        self.asked = 0

    async def evaluate(self, leaf: Leaf) -> Evaluation:
        self.asked += 1
        await asyncio.sleep(0)
        rng = np.random.default_rng(zlib.crc32(leaf.features.tobytes()) + self.version)
        priors = rng.random(len(leaf.actions), np.float32)
        return Evaluation(priors / priors.sum(), float(rng.uniform(-1, 1)))


def leaf(number: int, words: int = 2) -> Leaf:
    return Leaf(np.full(words, number, np.uint64), np.arange(3, dtype=np.uint16))


async def ask(evaluator: CachedEvaluator, *leaves: Leaf) -> list[Evaluation]:
    return [await evaluator.evaluate(one) for one in leaves]


@pytest.mark.parametrize("words", [2, 119])
def test_a_position_is_asked_for_once_and_others_are_told_apart(words: int) -> None:
    net = HashNet()
    cache = CachedEvaluator(net, 100)
    first, other, again = asyncio.run(ask(cache, leaf(1, words), leaf(2, words), leaf(1, words)))
    assert (net.asked, cache.hits) == (2, 1)
    assert again.value == first.value != other.value
    assert np.array_equal(again.priors, first.priors)


def test_other_weights_are_asked_again() -> None:
    net = HashNet()
    cache = CachedEvaluator(net, 100)
    before = asyncio.run(ask(cache, leaf(1)))[0]
    net.version = 2
    after = asyncio.run(ask(cache, leaf(1)))[0]
    assert net.asked == 2
    assert before.value != after.value


def test_it_holds_no_more_than_it_may_and_the_newest() -> None:
    cache = CachedEvaluator(HashNet(), 10)
    asyncio.run(ask(cache, *(leaf(number) for number in range(100))))
    assert cache.positions <= 10
    asyncio.run(ask(cache, *(leaf(number) for number in range(95, 100))))
    assert cache.hits == 5


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_games_are_the_same_with_it_and_cost_fewer_evaluations(root: str) -> None:
    game = get_game("connect_four")
    settings = resolve(SelfPlaySettings(simulations=24, root=root), game)
    plain, behind = HashNet(), HashNet()
    records = []
    for evaluator in (plain, CachedEvaluator(behind, 10_000)):
        rng = np.random.default_rng(5)
        record = asyncio.run(play_game(game, settings, evaluator, rng, uid=bytes(16)))
        records.append(to_bytes(replace(record, seconds=0.0)))
    assert records[0] == records[1]
    assert behind.asked < (0.8 if root == "gumbel" else 1.0) * plain.asked


def test_positions_that_look_alike_but_have_other_moves_do_not_share_an_answer() -> None:
    """With one position of history two orders of moves give the same features; one of them lets a pawn be
    taken en passant."""
    cache = CachedEvaluator(HashNet(), 100)
    one = after("b2b3 d7d5 e2e3 d5d4 c1b2 g8f6 e3e4")
    other = after("b2b3 d7d5 c1a3 d5d4 a3b2 g8f6 e2e4")
    leaves = [tree.root_leaf() for tree in (one, other)]
    assert np.array_equal(leaves[0].features, leaves[1].features)
    answers = asyncio.run(ask(cache, *leaves))
    assert [len(answer.priors) for answer in answers] == [len(leaf.actions) for leaf in leaves] == [32, 33]
    other.expand_root(*answers[1])
    assert other.view_of_net().priors.sum() == pytest.approx(1.0)


def after(moves: str) -> SearchTree:
    game = get_game("chess")
    tree = SearchTree(game, resolve(SelfPlaySettings(history=1), game), np.random.default_rng(0))
    tree.reset(game.notation.state_from_text(""))
    for move in moves.split():
        tree.advance(game.notation.action_from_text(tree.state, move))
    return tree
