"""Many searches share a forest: each finds what it would find alone, whatever happens to the others."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from changed_settings import self_play
from leaf_by_leaf import Answer, HashEvaluator, Held, Leaf, LeafByLeaf, Scattered, placed

from azselfplay.games import get_game
from azselfplay.search.evaluator import Evaluations, Reply
from azselfplay.search.forest import Forest
from azselfplay.search.mcts import search
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import SearchTree
from protocol.frames import LeafBatch

GAME = get_game("connect_four")
POSITIONS = ("", "4", "4 4", "1 7 2", "3 3 3", "5 2", "4 4 4 4", "7")
SIMULATIONS = 40
ROOTS = ["puct", "gumbel"]


def forest_of(slots: int = 1, root: str = "puct") -> Forest:
    settings = self_play(simulations=SIMULATIONS, root_noise=0.0, selection=root)
    return Forest(GAME, resolve(settings, GAME), slots)


def tree_at(forest: Forest, moves: str) -> SearchTree:
    return placed(SearchTree(forest, np.random.default_rng(0)), moves)


async def visits_of(tree: SearchTree, pool: SearchPool) -> list[int]:
    return (await search(tree, pool)).visits.tolist()


async def alone(moves: str, root: str = "puct") -> list[int]:
    """Return the visits, or shares, of a search that runs alone."""
    forest = forest_of(root=root)
    return await visits_of(tree_at(forest, moves), SearchPool(forest, HashEvaluator()))


async def all_visits(forest: Forest, evaluator: LeafByLeaf) -> list[list[int]]:
    """Return the visits for all POSITIONS, searched at the same time."""
    pool, trees = SearchPool(forest, evaluator), [tree_at(forest, moves) for moves in POSITIONS]
    return list(await asyncio.gather(*(visits_of(tree, pool) for tree in trees)))


def snapshot(tree: SearchTree) -> tuple[bytes, ...]:
    """Return everything that a tree holds."""
    arrays, slot = tree.forest.arrays, tree.slot
    return tuple(part[slot].tobytes() for part in (arrays.states, arrays.nodes, arrays.edges, arrays.pending))


def answer_wrongly(batch: LeafBatch, reply: Reply) -> None:
    """Answer that all leaves are won and that only the first action counts."""
    priors = np.zeros(len(batch.actions), np.float32)
    priors[np.cumsum(batch.counts) - batch.counts] = 1.0
    reply.answered(0, Evaluations(priors, np.tile(np.float32([1, 0, 0]), (batch.rows, 1)), 7))


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


# ---- side by side -------------------------------------------------------------------------------


class Counting(HashEvaluator):
    """Counts batches."""

    batches = 0

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self.batches += 1
        super().submit(batch, reply)


@pytest.mark.parametrize("root", ROOTS)
async def test_searches_side_by_side_find_what_each_finds_alone(root: str) -> None:
    """Their leaves travel together: there is about one batch per simulation."""
    evaluator = Counting()
    found = await all_visits(forest_of(len(POSITIONS), root), evaluator)
    assert found == [await alone(moves, root) for moves in POSITIONS]
    assert evaluator.batches <= SIMULATIONS + 2
    assert evaluator.rows > SIMULATIONS * len(POSITIONS) // 2


@pytest.mark.parametrize("root", ROOTS)
async def test_a_second_answer_to_the_same_leaf_changes_nothing(root: str) -> None:
    """The second answer may be the right one again, a wrong one, or a refusal; it may come at the root or at
    any simulation."""
    forest, evaluator = forest_of(root=root), Held()
    tree, pool = tree_at(forest, "4"), SearchPool(forest, evaluator)
    searching = asyncio.create_task(visits_of(tree, pool))
    while not searching.done():
        waiting = asyncio.create_task(evaluator.next())
        await asyncio.wait([waiting, searching], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            batch, reply = waiting.result()
            evaluator.answer_all(batch, reply)
            before = snapshot(tree)
            evaluator.answer_all(batch, reply)
            answer_wrongly(batch, reply)
            reply.failed(0, batch.rows, RuntimeError("too late"))
            assert snapshot(tree) == before
        waiting.cancel()
    assert searching.result() == await alone("4", root)


# ---- cancelled ----------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("answers", [0, 1, 7])
@pytest.mark.parametrize("closes", [False, True])
async def test_a_cancelled_search_leaves_its_slot_usable_and_late_answers_are_ignored(
    root: str, answers: int, closes: bool
) -> None:
    """It is cancelled at the root, at the first simulation or later. Its slot is used again at once, by the
    same tree or by another; the late answer, which is wrong, comes while a leaf of the new search waits."""
    forest, evaluator = forest_of(2, root), Held()
    pool, other = SearchPool(forest, evaluator), tree_at(forest, "5 2")
    tree = tree_at(forest, "1 7 2")
    first = asyncio.create_task(visits_of(tree, pool))
    await evaluator.answer_next(answers)
    late = await evaluator.next()
    await cancelled(first)
    if closes:
        slot = tree.slot
        tree.close()
        answer_wrongly(*late)
        tree = tree_at(forest, "4 4")
        assert tree.slot == slot
    else:
        placed(tree, "4 4")
    again = asyncio.create_task(visits_of(tree, pool))
    beside = asyncio.create_task(visits_of(other, pool))
    batch, reply = await evaluator.next()
    before = snapshot(tree)
    answer_wrongly(*late)
    late[1].failed(0, 1, RuntimeError("too late"))
    assert snapshot(tree) == before
    evaluator.answer_all(batch, reply)
    answering = asyncio.create_task(evaluator.answer_on())
    found = await asyncio.gather(again, beside)
    await cancelled(answering)
    assert found == [await alone("4 4", root), await alone("5 2", root)]
    assert forest.slots == 2


@pytest.mark.parametrize("answers", [2, 9])
async def test_a_search_that_was_cancelled_can_go_on_as_if_nothing_had_been(answers: int) -> None:
    """The leaf that waited does not count as a simulation."""
    forest, evaluator = forest_of(), Held()
    pool, tree = SearchPool(forest, evaluator), tree_at(forest, "4")
    first = asyncio.create_task(visits_of(tree, pool))
    await evaluator.answer_next(answers)
    late = await evaluator.next()
    await cancelled(first)
    assert tree.remaining == SIMULATIONS - (answers - 1)
    assert tree.edges_of(0)["visits"].sum() == answers - 1
    assert not tree.edges_of(0)["in_flight"].any()
    answer_wrongly(*late)
    answering = asyncio.create_task(evaluator.answer_on())
    await pool.run(tree)
    await cancelled(answering)
    visits = tree.edges_of(0)[np.argsort(tree.edges_of(0)["action"])]["visits"]
    assert visits[visits > 0].tolist() == await alone("4")


async def test_a_search_that_is_cancelled_in_its_first_turn_leaves_no_trace() -> None:
    """At most its root was requested; the same tree is then searched as if nothing had happened."""
    forest, evaluator = forest_of(), HashEvaluator()
    pool, tree = SearchPool(forest, evaluator), tree_at(forest, "4")
    first = asyncio.create_task(visits_of(tree, pool))
    await asyncio.sleep(0)
    await cancelled(first)
    for _ in range(5):
        await asyncio.sleep(0)
    assert evaluator.rows <= 1
    assert not tree.is_expanded
    assert await visits_of(tree, pool) == await alone("4")


# ---- refused ------------------------------------------------------------------------------------


class Refusing(HashEvaluator):
    """Refuses the leaf with a given number, once."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def answer(self, leaf: Leaf) -> Answer:
        if self.rows == self.number:
            raise LookupError("not this one")
        return super().answer(leaf)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("number", [1, 8, 9, 100, 250])
async def test_a_refused_leaf_fails_only_its_own_search(root: str, number: int) -> None:
    forest = forest_of(len(POSITIONS), root)
    pool, trees = SearchPool(forest, Refusing(number)), [tree_at(forest, moves) for moves in POSITIONS]
    tasks = [visits_of(tree, pool) for tree in trees]
    found = await asyncio.gather(*tasks, return_exceptions=True)
    refused = [k for k, one in enumerate(found) if isinstance(one, LookupError)]
    assert len(refused) == 1
    found[refused[0]] = await visits_of(placed(trees[refused[0]], POSITIONS[refused[0]]), pool)
    assert found == [await alone(moves, root) for moves in POSITIONS]


def broken(*_: object) -> None:
    raise RuntimeError("cannot be compiled")


async def test_a_kernel_that_cannot_run_ends_the_searches_that_wait_for_it() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    forest = forest_of(2)
    fresh, begun = tree_at(forest, ""), tree_at(forest, "4")
    begun.expand_root(np.full(7, 1 / 7, np.float32), 0.0)
    forest.kernels = SimpleNamespace(**{**vars(forest.kernels), "expand_backup_select": broken})
    pool = SearchPool(forest, HashEvaluator())
    async with asyncio.timeout(60):
        tasks = (visits_of(tree, pool) for tree in (fresh, begun))
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [RuntimeError, RuntimeError]


# ---- growing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ROOTS)
async def test_the_forest_grows_slots_while_searches_run(root: str) -> None:
    """A tree is added at every answer, from one slot to one for each position."""
    forest, evaluator = forest_of(1, root), Held()
    pool, tasks = SearchPool(forest, evaluator), []
    for moves in POSITIONS:
        tasks.append(asyncio.create_task(visits_of(tree_at(forest, moves), pool)))
        await evaluator.answer_next(2)
    answering = asyncio.create_task(evaluator.answer_on())
    found = await asyncio.gather(*tasks)
    await cancelled(answering)
    assert found == [await alone(moves, root) for moves in POSITIONS]
    assert forest.slots >= len(POSITIONS)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("evaluator", [HashEvaluator, Scattered])
async def test_nodes_grow_while_other_searches_wait_for_answers(root: str, evaluator: type) -> None:
    forest = forest_of(len(POSITIONS), root)
    forest._resize(len(POSITIONS), 3, 22)
    assert await all_visits(forest, evaluator()) == [await alone(moves, root) for moves in POSITIONS]
    assert forest.arrays.nodes.shape[1] > SIMULATIONS // 2


async def test_slots_that_were_given_back_are_used_again() -> None:
    forest = forest_of(2)
    for moves in POSITIONS:
        with tree_at(forest, moves) as tree:
            assert await visits_of(tree, SearchPool(forest, HashEvaluator())) == await alone(moves)
    assert forest.slots == 2


def test_a_closed_tree_is_used_no_more() -> None:
    tree = tree_at(forest_of(), "")
    tree.close()
    with pytest.raises(RuntimeError, match="closed"):
        placed(tree, "4")
