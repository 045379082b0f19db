"""The engine with each selection: its moves are those of the one-leaf search, and limits hold."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from leaf_by_leaf import HashEvaluator

from engine.core.orders import Request
from engine.core.report import Found
from engine.core.thinker import PLANNED_SIMULATIONS, Thinker, Thinking
from engine.nets import LoadedNet
from engine.search_choice import search_for
from games import get_game
from protocol.settings import changed
from search.mcts import search
from search.moves import choose_action
from search.pool import SearchPool
from search.selection import NAMES
from search.settings import resolve
from search.tree import tree_for

GAME = get_game("connect_four")


def engine_with(name: str, leaves: int) -> Thinker:
    net = LoadedNet(GAME, GAME.history, "hash", 0, HashEvaluator(), 1)
    return Thinker(net, 1, leaves, 0, search_for(name, GAME))


def thought(thinker: Thinker, *, seconds_ago: float = 0.0, **request: object) -> tuple[int, int]:
    """Return (best action, simulations made). `seconds_ago`: when the search was requested."""

    async def main() -> Found:
        now = asyncio.get_running_loop().time() - seconds_ago
        return await thinker.think(Thinking(Request("", (), now, **request)), lambda _: None)

    return asyncio.run(main()).action, thinker.tree.simulations


@pytest.mark.parametrize("name", NAMES)
def test_every_selection_makes_the_simulations_asked_for_and_looks_only_at_moves_allowed(name):
    thinker = engine_with(name, 8)
    assert thought(thinker, simulations=90)[1] == 90
    best, simulations = thought(thinker, simulations=40, allowed=(2, 5), new_game=True)
    assert (best in (2, 5), simulations) == (True, 40)
    edges = thinker.tree.edges_of(0)
    assert set(edges["action"][edges["visits"] > 0].tolist()) <= {2, 5}


def test_a_search_to_a_depth_ends_when_its_lines_are_that_long_on_average() -> None:
    made = []
    for depth in (2, 4):
        thinker = engine_with("puct", 1)
        made.append(thought(thinker, depth=depth)[1])
        total, _ = thinker.tree.depths
        assert total >= depth * made[-1]
    assert 0 < made[0] < made[1]


def test_a_clock_search_ends_once_no_other_move_can_become_the_best():
    """`seconds_ago` says how slow the search seems: what is left is worth no simulation."""
    made = [
        thought(
            engine_with("puct", 1), simulations=50, seconds_ago=ago, seconds=ago + 60, may_move_early=early
        )[1]
        for ago, early in ((1e6, True), (1e6, False), (0.0, True))
    ]
    assert 2 < made[0] < 50
    assert made[1:] == [50, 50]


def test_a_temperature_draws_among_the_moves_and_none_always_plays_the_best() -> None:
    thinker = engine_with("puct", 1)
    for temperature, is_drawn in ((0.0, False), (2.0, True)):
        moves = {
            thought(thinker, simulations=60, temperature=temperature, new_game=True)[0] for _ in range(20)
        }
        assert (len(moves) > 1) == is_drawn


def test_the_engine_evaluates_through_all_symmetries_if_asked_to() -> None:
    """Two evaluations a leaf in Connect Four, that of the root included."""
    thinker, once = (
        engine_with(name, 1) for name in ("puct?average_symmetries=true", "puct?average_symmetries=false")
    )
    assert thought(thinker, simulations=20)[1] == thought(once, simulations=20)[1] == 20
    assert thinker.net.evaluator.rows % 2 == 0
    assert thinker.net.evaluator.rows > once.net.evaluator.rows + 1


@pytest.mark.parametrize("name", ["puct", "gumbel"])
def test_with_one_leaf_in_flight_the_engine_plays_what_a_match_player_plays(name):
    settings = resolve(changed(search_for(name, GAME), {"search.simulations": 64}), GAME)
    tree = tree_for(GAME, settings, np.random.default_rng(0))
    tree.reset(GAME.notation.state_from_text(""))
    result = asyncio.run(search(tree, SearchPool(tree.forest, HashEvaluator())))
    best = choose_action(result, 0, settings, np.random.default_rng(0))
    assert thought(engine_with(name, 1), simulations=64) == (best, 64)


def test_sequential_halving_halves_among_the_moves_allowed_and_has_a_length_of_its_own():
    thinker = engine_with("gumbel", 1)
    thought(thinker, simulations=40, allowed=(0, 1, 3, 6))
    visits = np.sort(thinker.tree.edges_of(0)["visits"]).tolist()
    assert visits == [0, 0, 0, 5, 5, 15, 15]
    assert thought(thinker, new_game=True)[1] == PLANNED_SIMULATIONS
