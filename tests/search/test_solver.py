"""Proven results in the search: `search.solver` and `search.look_ahead`."""

import numpy as np
import pytest
from changed_settings import self_play, varied
from every_game import EVERY_GAME
from leaf_by_leaf import HashEvaluator, LeafByLeaf, placed, played
from naive_mcts import Edge, NaiveSearch, Node, listed
from test_leaf_parallel import search_it
from test_search import QUIET, make_tree, run, subtree_of_node

from azselfplay.games import get_game
from azselfplay.search.layout import TERMINAL
from azselfplay.search.leaf_parallel import ParallelTree
from azselfplay.search.mcts import choose_action
from azselfplay.search.settings import resolve
from protocol.records import PRUNED_TARGET
from trainer.verify import Verifier


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


SOLVER = varied(QUIET, solver=True)
AHEAD = varied(SOLVER, look_ahead=True)
MATE_IN_TWO = "7k/8/8/8/8/8/R7/1R5K w - - 0 1"
THREE_OPEN = "4 4 3 3"
"""Connect Four: the first player has two stones in the lowest row with both sides open, and wins by a third
beside them."""


class NeverAsked:
    """An evaluator for searches that need none."""

    version = 0

    def submit(self, *_):
        raise AssertionError("it was asked")


NEAR_THE_END = ("1 2 3 5", "1 5 9 2", "1 2 5", "1 9 3", "5 2 4 6 9", "1 5 2 3 7 4")


@pytest.mark.parametrize("settings", [SOLVER, AHEAD], ids=["solver", "look ahead"])
@pytest.mark.parametrize(
    ("name", "moves"), [*((name, "") for name in EVERY_GAME), *(("tic_tac_toe", one) for one in NEAR_THE_END)]
)
def test_trees_equal_those_of_the_slow_twin_node_by_node(name, moves, settings):
    tree = make_tree(name, varied(settings, simulations=150), moves)
    twin = NaiveSolver(tree.game, tree.settings, [tree.state.copy()])
    assert not len(tree.view_and_wins()[1])  # otherwise there would be no search
    run(tree, HashEvaluator())
    twin.run(150)
    assert subtree_of_node(tree, 0) == listed(twin.root)
    assert float(tree.state_of_search["root_value_sum"]) == float(twin.root_value_sum)
    assert tree.proof == twin.result(twin.root)


def test_a_proven_win_is_the_whole_target():
    tree = make_tree("connect_four", AHEAD, THREE_OPEN)
    result = run(tree, HashEvaluator())
    wins = {tree.game.notation.action_from_text(tree.state, move) for move in ("2", "5")}
    assert tree.proof == 3
    assert wins >= set(result.actions.tolist())
    assert (result.visits.sum(), result.value, result.is_pruned) == (80, 1.0, True)


def test_it_stays_proven_for_the_next_moves_which_need_no_evaluation():
    tree = make_tree("connect_four", AHEAD, THREE_OPEN)
    first = run(tree, HashEvaluator())
    tree.advance(int(first.actions[0]))
    assert (tree.proof, tree.root_value()) == (-2, -1.0)
    assert run(tree, NeverAsked()).value == -1.0


def test_moves_that_are_proven_to_lose_are_left_out_of_the_target():
    tree = make_tree("tic_tac_toe", SOLVER, "1 5 2")  # 1 and 2 threaten 3: every other reply loses
    result = run(tree, HashEvaluator())
    lost = {int(e["action"]) for e, p in zip(tree.edges_of(0), tree.edge_proofs(0), strict=True) if p < 0}
    assert lost
    assert not lost & set(result.actions.tolist())
    assert result.visits.sum() < 80
    # The root's own evaluation is what is left after the visits of all edges.
    edges = tree.edges_of(0)
    own = float(tree.state_of_search["root_value_sum"]) - edges["value_sum"].sum()
    open_sum = sum(float(edge["value_sum"]) for edge in edges if int(edge["action"]) not in lost)
    assert result.value == pytest.approx((own + open_sum) / (1 + result.visits.sum()), abs=1e-6)
    assert result.value > tree.root_value()


def test_a_refuted_favourite_does_not_keep_the_search_from_moves_it_has_not_tried():
    """It had most visits. Now each counts as -1, which says nothing about the other moves."""
    tree = make_tree("connect_four", varied(AHEAD, fpu_reduction=0.2))
    tree.expand_root(np.array([0.6, 0.2, 0.04, 0.04, 0.04, 0.04, 0.04], np.float32), 0.3)
    edges = tree.edges_of(0)
    edges["visits"][:2], edges["value_sum"][:2], edges["child"][0] = (40, 9), (-40, -5.4), TERMINAL
    value = float(np.float32(0.3) - 40 - 5.4) / 50
    assert tree.forest.kernels.best_edge(tree.arrays, 0, 50, value, 0.2) == 2


@pytest.mark.parametrize("final_move", ["visits", "secure"])
@pytest.mark.parametrize("selection", ["puct", "thompson"])
def test_if_all_moves_that_were_tried_lose_the_likeliest_other_one_is_played_and_taught(
    selection, final_move
):
    settings = varied(AHEAD, simulations=2, selection=selection, final_move=final_move)
    tree = make_tree("connect_four", settings, "4 1 4 1 4")
    tree.expand_root(np.array([0.3, 0.3, 0.04, 0.06, 0.1, 0.1, 0.1], np.float32), 0.25)
    result = run(tree, HashEvaluator())
    priors = {edge["action"]: edge["prior"] for edge in tree.edges_of(0) if not edge["visits"]}
    assert (result.actions.tolist(), result.visits.tolist()) == ([max(priors, key=priors.get)], [1])
    assert (result.value, result.is_pruned) == (0.25, True)
    assert choose_action(result, 99, settings, np.random.default_rng(0)) == result.actions[0]


def lost_tree(settings):
    """Return a position of tic-tac-toe with four moves; after each, the opponent wins by 4 or 9."""
    return make_tree("tic_tac_toe", settings, "1 2 5 3 7")


@pytest.mark.parametrize("selection", ["puct", "thompson"])
@pytest.mark.parametrize("first", [True, False], ids=["found", "known before"])
def test_the_moves_of_a_lost_position_share_its_visits(selection, first):
    """No move is better than another, so none of them may be taught alone, such as the last one in the order
    of the rules."""
    tree = lost_tree(varied(SOLVER, selection=selection))
    result = run(tree, HashEvaluator())
    if not first:
        result = run(tree, NeverAsked())
    assert (tree.proof, result.value, result.is_pruned) == (-2, -1.0, True)
    assert dict(zip(result.actions.tolist(), result.visits.tolist(), strict=True)) == dict.fromkeys(
        tree.legal_actions().tolist(), 20
    )


def test_what_the_network_said_of_a_root_that_an_earlier_search_proved_is_unknown():
    """A proof replaces evaluations, so neither the record nor an engine may show what is left as a value."""
    tree = lost_tree(varied(SOLVER, selection="gumbel"))
    assert run(tree, HashEvaluator()).stats is not None
    assert run(tree, HashEvaluator()).stats is None
    tree.begin()
    assert abs(tree.root_value()) <= 1


def test_gumbels_target_in_a_lost_position_follows_the_network():
    """Its shares come from priors and values, and the values are all alike."""
    tree = lost_tree(varied(SOLVER, selection="gumbel"))
    result = run(tree, LeafByLeaf())  # all priors alike
    assert (tree.proof, result.value, result.is_improved) == (-2, -1.0, True)
    assert result.visits.max() - result.visits.min() <= 1


def test_of_all_losses_the_slowest_are_taught():
    """The games of Connect Four have random moves; in some positions the loser can delay the end."""
    rng, delayed = np.random.default_rng(0), 0
    for _ in range(12):
        tree = make_tree("connect_four", varied(AHEAD, simulations=200))
        while tree.end_reason() is None:
            result = run(tree, HashEvaluator())
            if tree.proof < 0:
                proofs = np.array(tree.edge_proofs(0))
                slowest = tree.edges_of(0)["action"][proofs == proofs.min()]
                assert result.actions.tolist() == sorted(slowest.tolist())
                assert result.visits.max() - result.visits.min() <= 1
                delayed += len(slowest) < len(proofs)
            tree.advance(int(rng.choice(tree.legal_actions())))
    assert delayed


@pytest.mark.parametrize("selection", ["puct", "gumbel", "thompson"])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_the_trainer_takes_its_games(name, selection):
    game = get_game(name)
    asked = self_play(selection=selection, simulations=24, solver=True, look_ahead=True)
    settings = resolve(asked, game)
    flags = 0
    for seed in range(12):
        record = played(game, settings, LeafByLeaf(), np.random.default_rng(seed))
        assert Verifier(game, settings).check(record, 5) is None
        flags |= int(np.bitwise_or.reduce(record.flags))
    assert bool(flags & PRUNED_TARGET) == (selection != "gumbel")


@pytest.mark.parametrize("selection", ["puct", "gumbel", "thompson"])
def test_with_many_leaves_in_flight_a_proven_edge_is_worth_exactly_its_result(selection):
    game = get_game("chess")
    settings = resolve(varied(AHEAD, simulations=600, selection=selection), game)
    tree = ParallelTree(game, settings, np.random.default_rng(0), max_nodes=4000, max_leaves=16)
    placed(tree, start=MATE_IN_TWO)
    search_it(tree, simulations=600)
    proofs, edges = tree.edge_proofs(0), tree.edges_of(0)
    assert tree.proof == 3
    for edge, proof in zip(edges, proofs, strict=True):
        if proof:
            assert float(edge["value_sum"]) == np.sign(proof) * edge["visits"]


def test_where_dots_and_boxes_is_won_already_the_policy_chooses_the_edge():
    """All edges win, so a proof says nothing of the boxes that are left."""
    tree = make_tree("dots_and_boxes_2x2", AHEAD, start="11/1o1o1/11/1o1.0/10 o")
    last = run(tree, LeafByLeaf(lambda leaf: (np.arange(len(leaf.actions)), 0.0))).actions
    assert last.tolist() == [8]
