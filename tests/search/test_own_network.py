"""A forest with a network of its own finds what it would find if the leaves were evaluated elsewhere."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from changed_settings import self_play
from sparse_positions import saved, sparse_network

from azselfplay.games import get_game
from azselfplay.search.evaluator import Evaluations, Evaluator, LocalEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import search
from azselfplay.search.pool import SIMULATIONS_A_TURN, SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from net.sparse import SparseInference
from protocol.frames import LeafBatch

GAME = get_game("chess")
MOVES = ("e2e4", "e7e5", "g1f3")


@pytest.fixture
def player(tmp_path: Path) -> SparseInference:
    player = SparseInference(GAME, 1)
    player.load(saved(tmp_path / "net", "chess", sparse_network("chess")))
    return player


def elsewhere(player: SparseInference) -> LocalEvaluator:
    """Return an evaluator that answers with the same network."""

    def infer(batch: LeafBatch) -> Evaluations:
        return Evaluations(*player.answers(batch), player.version)

    return LocalEvaluator(infer, 64)


async def searches(forest: Forest, evaluator: Evaluator) -> list[tuple[list[int], list[int], float]]:
    """Return actions, visits and value of the searches of a short game."""
    pool, found = SearchPool(forest, evaluator), []
    with SearchTree(forest, np.random.default_rng(0)) as tree:
        tree.reset(GAME.notation.state_from_text(""))
        for move in MOVES:
            result = await search(tree, pool)
            found.append((result.actions.tolist(), result.visits.tolist(), result.value))
            tree.advance(GAME.notation.action_from_text(tree.state, move))
    return found


@pytest.mark.parametrize("selection", ["puct", "gumbel"])
@pytest.mark.parametrize("cache", [0, 1000])
async def test_a_search_finds_the_same_wherever_its_leaves_are_evaluated(
    player: SparseInference, selection: str, cache: int
) -> None:
    settings = resolve(self_play(history=1, simulations=40, selection=selection, root_noise=0.0), GAME)
    own = Forest(GAME, settings, cache=cache, network=player)
    assert await searches(own, player) == await searches(
        Forest(GAME, settings, cache=cache), elsewhere(player)
    )
    assert own.evaluated > 2 * 40


async def test_a_game_plays_some_moves_in_a_row_before_the_others_have_their_turn(player) -> None:
    settings = resolve(self_play(history=1, simulations=SIMULATIONS_A_TURN // 2), GAME)
    forest = Forest(GAME, settings, slots=2, network=player)
    pool, order = SearchPool(forest, player), list[int]()

    async def play(number: int) -> None:
        with SearchTree(forest, np.random.default_rng(0)) as tree:
            tree.reset(GAME.notation.state_from_text(""))
            for move in MOVES:
                order.append(number)
                await search(tree, pool)
                tree.advance(GAME.notation.action_from_text(tree.state, move))

    await asyncio.gather(play(0), play(1))
    assert order == [0, 0, 1, 1, 0, 1]


async def test_other_weights_answer_from_the_next_step_on(player: SparseInference, tmp_path: Path) -> None:
    """This holds for positions in the cache, too."""
    settings = resolve(self_play(history=1, simulations=40, root_noise=0.0), GAME)
    forest = Forest(GAME, settings, cache=1000, network=player)
    first = await searches(forest, player)
    player.load(saved(tmp_path / "other", "chess", sparse_network("chess", seed=1)))
    second = await searches(forest, player)
    assert second != first
    assert second == await searches(Forest(GAME, settings, network=player), player)
