"""The engine with each selection: its moves are those of the one-leaf search, and limits hold."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from leaf_by_leaf import HashEvaluator, Leaf
from ring_parts import SteppedLoop

from azselfplay.games import get_game
from azselfplay.host.exits import Fatal
from azselfplay.play.driver import prepare
from azselfplay.play.nets import LoadedNet, settings_for_search
from azselfplay.play.orders import Found, Request, Setup
from azselfplay.play.thinker import (
    MEASURED_SHARE,
    MEASURED_SIMULATIONS,
    PLANNED_SIMULATIONS,
    Thinker,
    Thinking,
    best_index,
    lines_of,
    ranked,
)
from azselfplay.search.evaluator import Evaluations, LocalEvaluator, Reply
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import choose_action, search
from azselfplay.search.pool import SearchPool
from azselfplay.search.selection import NAMES
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.frames import LeafBatch
from protocol.settings import changed

GAME = get_game("connect_four")


def engine_with(name: str, leaves: int, evaluator: HashEvaluator | None = None) -> Thinker:
    net = LoadedNet(GAME, GAME.history, "hash", 0, evaluator or HashEvaluator(), 1)
    return Thinker(net, 1, leaves, 0, settings_for_search(name, GAME))


def thought(thinker: Thinker, **request: object) -> tuple[int, int]:
    """Return (best action, simulations made)."""

    async def main() -> Found:
        now = asyncio.get_running_loop().time()
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


class SlowEvaluator(HashEvaluator):
    """Takes 0.01 s of the fake time for each batch."""

    def answer_all(self, batch: LeafBatch, reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        loop.now += 0.01
        super().answer_all(batch, reply)


def test_a_kept_tree_does_not_answer_without_a_search() -> None:
    """Its best move is ahead from the start, and 1,000 simulations of 0.01 s fit into the time of a move. The
    expected replies are played."""
    thinker = engine_with("puct", 1, SlowEvaluator())

    async def search_thrice() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        played: tuple[int, ...] = ()
        for _ in range(3):
            began = loop.now
            request = Request("", played, began, may_move_early=True, seconds=10.0, simulations=2000)
            found = await thinker.think(Thinking(request), lambda _: None)
            assert thinker.tree.simulations >= MEASURED_SIMULATIONS
            assert loop.now - began >= MEASURED_SHARE * 10.0
            played += tuple(int(move) - 1 for move in found.moves[:2])

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(search_thrice())


def test_an_only_move_is_played_at_once_when_pondering_ends() -> None:
    game = get_game("tic_tac_toe")
    net = LoadedNet(game, game.history, "hash", 0, HashEvaluator(), 1)
    thinker, one_cell_free = Thinker(net, 1, 1, 0, settings_for_search("", game)), (0, 1, 2, 4, 3, 5, 7, 6)
    request = Request("", one_cell_free, 0.0, may_move_early=True, seconds=10.0, simulations=2000)

    async def hit() -> int:
        now = asyncio.get_running_loop().time()
        thinking = Thinking(replace(request, began=now, is_pondering=True))
        thinking.set_deadline(now + 10.0)
        return (await thinker.think(thinking, lambda _: None)).action

    assert asyncio.run(hit()) == 8
    assert thinker.tree.simulations < 10


class LateEvaluator(HashEvaluator):
    """Answers each leaf after a second of the fake time: the last move is the best."""

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        asyncio.get_running_loop().call_later(1.0, self.answer_all, batch, reply)

    def answer(self, leaf: Leaf) -> tuple[Any, float]:
        return np.arange(len(leaf.actions)) == len(leaf.actions) - 1, 0.0


@pytest.mark.parametrize(
    ("stops", "seconds", "best", "took"), [(True, None, 6, 1.0), (True, 5.0, 6, 1.0), (False, 0.1, 0, 0.13)]
)
def test_a_stop_waits_for_the_networks_first_answer_and_a_clock_does_not(stops, seconds, best, took):
    async def stopped() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        thinking, notes, began = Thinking(Request("", (), loop.now, seconds=seconds)), list[str](), loop.now
        if stops:
            thinking.stop()
        thinker = engine_with("puct", 1, LateEvaluator())
        task = asyncio.create_task(thinker.think(thinking, lambda report: notes.append(report.note)))
        while not task.done():
            loop.now += 0.001
            await asyncio.sleep(0)
        assert (await task).action == best
        assert any(notes) == (best == 0)
        assert loop.now - began == pytest.approx(took, abs=0.01)

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(stopped())


def test_moves_are_ranked_by_proofs_then_visits_then_values_then_priors() -> None:
    thinker, rng = engine_with("puct", 1), np.random.default_rng(0)
    thought(thinker, simulations=50)
    edges, last = thinker.tree.edges_of(0), len(thinker.tree.edges_of(0)) - 1

    def key(index: int) -> tuple[float, ...]:
        visits, value_sum, prior = (float(edges[index][name]) for name in ("visits", "value_sum", "prior"))
        proof = proofs[index]
        return np.sign(proof), -proof or visits, value_sum / visits if visits else -1.0, prior

    for _ in range(50):
        edges["visits"], edges["value_sum"] = rng.integers(0, 4, last + 1), rng.integers(-2, 3, last + 1)
        edges["prior"], proofs = rng.integers(0, 3, last + 1), rng.integers(-2, 3, last + 1).tolist()
        thinker.tree.edge_proofs = lambda _, known=proofs: known  # type: ignore[method-assign]
        assert ranked(thinker.tree, 0) == sorted(range(last + 1), key=key, reverse=True)
        assert set(ranked(thinker.tree, 0, (last, 1))) == {1, last}


def test_a_move_that_loses_does_not_count_as_the_leader() -> None:
    """Column 3 has by far the most visits, but is proven to lose."""
    thinker = engine_with("puct", 1)
    thought(thinker, simulations=50)
    edges = thinker.tree.edges_of(0)
    edges["visits"] = [10, 10, 10, 900, 20, 10, 10]
    proofs = [0, 0, 0, -4, 0, 0, 0]
    thinker.tree.edge_proofs = lambda _: proofs  # type: ignore[method-assign]
    assert thinker.contenders((0, 3, 4)) == [10, 20]
    rng = np.random.default_rng(0)
    assert 3 not in {best_index(thinker.tree, (), 5.0, rng) for _ in range(50)}


@pytest.mark.parametrize(("rule", "best"), [("visits", 1), ("secure", 2)])
def test_the_final_move_is_chosen_as_in_matches(rule: str, best: int) -> None:
    """And is the first line that is reported. Column 4, the best by value, is proven to lose."""
    thinker = engine_with(f"puct?final_move={rule}", 1)
    thought(thinker, simulations=50)
    edges = thinker.tree.edges_of(0)
    edges["visits"] = visits = np.array([0, 90, 60, 1, 5, 2, 2])
    edges["value_sum"] = visits * np.array([0.0, 0.1, 0.6, 0.7, 0.9, 0.0, 0.0])
    thinker.tree.edge_proofs = lambda _: [0, 0, 0, 0, -4, 0, 0]  # type: ignore[method-assign]
    assert best_index(thinker.tree, (), 0.0, np.random.default_rng(0)) == best
    shown = [line.visits for line in lines_of(thinker.tree, GAME, 2)]
    assert shown == [visits[best], 60 if best == 1 else 90]


def test_a_temperature_draws_among_the_moves_and_none_always_plays_the_best() -> None:
    thinker = engine_with("puct", 1)
    for temperature, is_drawn in ((0.0, False), (2.0, True)):
        moves = {
            thought(thinker, simulations=60, temperature=temperature, new_game=True)[0] for _ in range(20)
        }
        assert (len(moves) > 1) == is_drawn


@pytest.mark.parametrize("name", ["puct", "gumbel"])
def test_with_one_leaf_in_flight_the_engine_plays_what_a_match_player_plays(name):
    settings = resolve(changed(settings_for_search(name, GAME), {"search.simulations": 64}), GAME)
    tree = SearchTree(Forest(GAME, settings), np.random.default_rng(0))
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


def test_before_a_clock_runs_the_network_has_answered_once() -> None:
    """Compiling or loading at the first answer takes longer than the 50 ms of a move; without an answer, only
    the first legal move is known."""
    asked: list[int] = []

    def infer(batch: LeafBatch) -> Evaluations:
        asked.append(batch.rows)
        return Evaluations(np.full(len(batch.actions), 1 / 7, np.float16), np.full((batch.rows, 3), 1 / 3), 0)

    net = LoadedNet(GAME, GAME.history, "counts", 0, LocalEvaluator(infer, 1), 1)
    thinker = Thinker(net, 1, 1, 0, settings_for_search("puct", GAME))
    thinker.warm_up()
    thinker.close()
    assert asked == [1]


def test_a_hash_that_the_system_refuses_is_a_setting_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine then keeps what it had, and does not end."""

    def refused(*_: Any) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("azselfplay.search.forest.mmap.mmap", refused)
    with pytest.raises(Fatal, match="not enough memory for Hash 65536 MiB"):
        prepare(Setup(game="tic_tac_toe", hash_mib=65536), 0)


def test_a_network_that_the_gui_names_is_looked_for_among_the_runs_of_the_engine(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match=str(tmp_path)):
        prepare(Setup(weights="strong"), 0, tmp_path)
