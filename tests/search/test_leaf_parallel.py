"""The search with several leaves in flight equals the one-leaf search for K = 1 and keeps its invariants."""

import asyncio

import numpy as np
import pytest
from changed_settings import varied
from every_game import EVERY_GAME
from leaf_by_leaf import HashEvaluator, placed
from naive_truth import minimax
from test_search import QUIET, make_tree, run, subtree_of_node

from azselfplay.games import get_game
from azselfplay.search.evaluator import Reply, evaluate
from azselfplay.search.leaf_parallel import Interrupt, Limits, ParallelTree, search_parallel
from azselfplay.search.settings import resolve
from protocol.frames import LeafBatch


def make_parallel(
    name: str, moves: str = "", start: str = "", nodes: int = 4000, leaves: int = 16
) -> ParallelTree:
    game = get_game(name)
    settings = resolve(varied(QUIET, simulations=1), game)
    tree = ParallelTree(game, settings, np.random.default_rng(0), max_nodes=nodes, max_leaves=leaves)
    return placed(tree, moves, start)


def search_it(tree: ParallelTree, evaluator: object = None, **limits: object) -> None:
    evaluator = evaluator or HashEvaluator()

    async def main() -> None:
        if not tree.is_expanded:
            await expand(tree, evaluator)
        await search_parallel(tree, evaluator, Limits(**limits))

    asyncio.run(main())


async def expand(tree: ParallelTree, evaluator: object) -> None:
    answer = await evaluate(evaluator, tree.root_leaf())
    tree.expand_root(answer.priors, float(answer.values[0]))


def check_counts(tree: ParallelTree) -> None:
    """Check that every expanded edge has one visit for itself and one for each visit below, and that nothing
    is in flight."""
    assert tree.root_visit_count == 1 + tree.edges_of(0)["visits"].sum()
    nodes = [tree.edges_of(node) for node in range(tree.node_count)]
    below = np.array([edges["visits"].sum() for edges in nodes])
    edges = np.concatenate(nodes)
    assert not edges["in_flight"].any()
    visits, child = edges["visits"], edges["child"]
    assert (visits[child >= 0] == 1 + below[child[child >= 0]]).all()
    assert not visits[child == -1].any()


def test_a_tree_has_no_more_edges_than_its_nodes_can_number(monkeypatch) -> None:
    monkeypatch.setattr("azselfplay.search.forest.MOST_EDGES", 100_000)
    assert 90_000 < make_parallel("go_9x9", nodes=10**6).arrays.edges.shape[0] <= 100_000


@pytest.mark.parametrize("name", EVERY_GAME)
def test_one_leaf_at_a_time_is_the_one_leaf_search_exactly(name):
    parallel, plain = make_parallel(name, leaves=1), make_tree(name, varied(QUIET, simulations=700))
    search_it(parallel, simulations=700)
    result = run(plain, HashEvaluator())
    assert parallel.simulations == 700
    assert subtree_of_node(parallel, 0) == subtree_of_node(plain, 0)
    assert parallel.root_value() == result.value


@pytest.mark.parametrize("name", [*EVERY_GAME, pytest.param("go", marks=pytest.mark.nightly)])
def test_visits_add_up_with_many_leaves_in_flight_and_over_moves(name):
    tree = make_parallel(name)
    for _ in range(3):
        before = max(0, tree.root_visit_count - 1)
        search_it(tree, simulations=600)
        assert tree.edges_of(0)["visits"].sum() == 600 + before
        check_counts(tree)
        tree.advance(int(tree.edges_of(0)["action"][np.argmax(tree.edges_of(0)["visits"])]))
    check_counts(tree)


def gathered(tree: ParallelTree) -> LeafBatch:
    """Return the first leaves of another search."""
    tree.start_search(100)
    leaves = tree.gather()
    tree.give_up()
    return leaves


@pytest.mark.parametrize(("simulations", "rows"), [(1, 1), (30, 1), (63, 2), (95, 3), (500, 4)])
def test_a_small_tree_has_few_leaves_in_flight_and_no_tree_more_than_it_may(simulations, rows):
    """There is one for every 32 visits of the root."""
    tree = make_parallel("chess", leaves=4)
    search_it(tree, simulations=simulations)
    assert gathered(tree).rows == rows


def test_leaves_in_flight_are_all_different():
    tree = make_parallel("chess")
    search_it(tree, simulations=500)
    tree.start_search(100)
    leaves = tree.gather()
    assert len({packed_features.tobytes() for packed_features in leaves.features}) == leaves.rows > 4
    assert len(leaves.actions) == leaves.counts.sum()
    tree.give_up()
    assert (tree.remaining, tree.simulations) == (100, 0)
    check_counts(tree)


def test_a_leaf_that_is_in_flight_already_is_not_taken_again():
    tree = make_parallel("tic_tac_toe", "1 2 3 5 4 6 8")  # two moves are left
    search_it(tree, simulations=1)
    assert gathered(tree).rows <= 1
    search_it(tree, simulations=100)
    assert gathered(tree).rows <= 1


class DeadEvaluator(HashEvaluator):
    """Answers at most `answers` leaves, and then none."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.answers = answers
        self.silent = asyncio.Event()

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self.answers -= batch.rows
        if self.answers < 0:
            self.silent.set()
        else:
            super().submit(batch, reply)


async def test_an_interrupt_and_a_deadline_end_a_search_whose_evaluator_hangs():
    tree, evaluator, interrupt = make_parallel("chess"), DeadEvaluator(100), Interrupt()
    await expand(tree, evaluator)
    searching = asyncio.ensure_future(search_parallel(tree, evaluator, Limits(), interrupt))
    await evaluator.silent.wait()
    interrupt.stop()
    await searching
    assert 0 < tree.simulations < 100
    check_counts(tree)
    await search_parallel(tree, evaluator, Limits(until=asyncio.get_running_loop().time() + 0.01))
    check_counts(tree)


def test_only_allowed_root_moves_are_looked_at_and_all_again_afterwards():
    tree = make_parallel("chess")
    game = tree.game
    allowed = tuple(game.notation.action_from_text(tree.state, move) for move in ("a2a3", "g1f3"))
    search_it(tree, simulations=200, allowed=allowed)
    actions, visits = tree.edges_of(0)["action"], tree.edges_of(0)["visits"]
    assert visits[np.isin(actions, allowed)].sum() == 200 == visits.sum()
    search_it(tree, simulations=400)
    assert (tree.edges_of(0)["visits"] > 0).sum() > 2
    with pytest.raises(ValueError, match="legal"):
        tree.start_search(1, (4671,))


def test_a_win_by_a_move_that_is_not_allowed_ends_no_search_of_the_others():
    """Here cell 3 wins at once; without it the search goes on, and each allowed move is looked at."""
    tree = make_parallel("tic_tac_toe", "1 4 2 5")
    search_it(tree, simulations=50, stop_when_proven=True)
    assert (tree.proof > 0, tree.proof_of((2,)) > 0) == (True, True)
    assert (tree.proof_of((6, 7)) > 0, tree.proof_of(())) == (False, tree.proof)
    before = tree.edges_of(0)["visits"].copy()
    search_it(tree, simulations=40, allowed=(6, 7), stop_when_proven=True)
    more = tree.edges_of(0)["visits"] - before
    assert (more[np.isin(tree.edges_of(0)["action"], (6, 7))] > 0).all()


def test_of_two_wins_at_once_the_one_that_is_allowed_is_visited_first():
    """Cells 3 and 7 win; the evaluator prefers 9 to 7."""
    tree = make_parallel("tic_tac_toe", "1 5 2 6 4 8")
    search_it(tree, simulations=1, allowed=(6, 8))
    assert tree.proof_of((6, 8)) > 0


def test_a_full_tree_stops_growing_and_says_so():
    tree = make_parallel("chess", nodes=50)
    search_it(tree)
    assert tree.is_full
    assert tree.node_count == 50
    check_counts(tree)


@pytest.mark.parametrize("moves", ["1 2 3 5", "1 5 9 2", "1 2 5", "1 9 3 2", "5 2 4 6", "1 5 2 3 7 4"])
def test_what_is_proven_is_what_looking_at_everything_finds(moves):
    tree = make_parallel("tic_tac_toe", moves)
    search_it(tree, simulations=20_000)
    value, plies = minimax(tree.game, tree.state.copy(), {})
    assert (np.sign(tree.proof), abs(tree.proof)) == (value, plies if value else 0)


def test_a_proof_survives_the_move_that_was_played_and_ends_a_search_that_asks_for_it():
    tree = make_parallel("tic_tac_toe", "1 2 3 5")  # the first player must stop 2-5-8, and then wins or draws
    search_it(tree, simulations=20_000)
    before = {int(e["action"]): p for e, p in zip(tree.edges_of(0), tree.edge_proofs(0), strict=True)}
    action = next(a for a, proof in before.items() if proof < 0)
    tree.advance(action)
    assert tree.proof == -before[action] - 1
    search_it(tree, simulations=50, stop_when_proven=True)
    assert tree.simulations == 0


@pytest.mark.parametrize("start", ["6k1/5ppp/8/8/8/8/8/R6K w - - 0 1", "r6k/8/8/8/8/8/5PPP/6K1 b - - 0 1"])
def test_a_mate_in_one_is_known_at_once(start):
    tree = make_parallel("chess", start=start)
    search_it(tree, simulations=100, stop_when_proven=True)
    assert (tree.proof, tree.simulations) == (1, 0)
    assert tree.edges_of(0)["visits"][np.argmax(tree.edge_proofs(0))] == 1
