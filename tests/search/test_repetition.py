"""Repetitions in a search: positions of the game before its root count only as the rules say."""

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import HashEvaluator, searched
from test_leaf_parallel import check_counts
from test_search import make_tree, subtree_of_node

from azselfplay.games.chess import GAME as CHESS
from azselfplay.games.spec import NO_ROOT
from azselfplay.search.layout import CUT
from azselfplay.search.tree import SearchTree

QUIET = self_play(simulations=3000, root_noise=0.0, history=1)


@pytest.mark.parametrize(
    ("name", "start", "before", "back"),
    [
        ("chess", "k1r5/8/K1R5/8/8/8/8/8 w - - 0 1", "c6b6 c8b8 b6c6", "b8c8"),
        ("chess", "K1R5/8/k1r5/8/8/8/8/8 b - - 0 1", "c6b6 c8b8 b6c6", "b8c8"),
        ("shogi", "k1r6/9/K1R6/9/9/9/9/9/9 b - 1", "7c8c 7a8a 8c7c", "8a7a"),
    ],
)
def test_a_return_to_a_lost_position_of_the_game_is_not_taken_for_a_draw(
    name: str, start: str, before: str, back: str
) -> None:
    """In the first position the side to move mates by a capture; the return to it is proven to lose, and is
    not played."""
    tree = make_tree(name, varied(QUIET, solver=True, look_ahead=True, simulations=1000), before, start)
    result = searched(tree)
    losing = tree.game.notation.action_from_text(tree.state, back)
    at = tree.edges_of(0)["action"].tolist().index(losing)
    assert tree.edge_proofs(0)[at] < 0
    assert result.actions[result.visits.argmax()] != losing


@pytest.mark.parametrize(
    ("name", "start", "before"),
    [
        ("chess", "", "g1f3 g8f6 f3g1"),
        ("chess", "8/8/8/3k4/8/8/1R6/K7 w - - 0 1", "b2b3 d5e5 b3c3"),
        ("shogi", "", "2h3h 8b7b 3h2h"),
    ],
)
def test_a_search_finds_the_same_with_and_without_a_game_before_its_root(
    name: str, start: str, before: str
) -> None:
    """No line reaches the occurrence that ends the game by its rules, and the network sees no history."""
    settings = varied(QUIET, simulations=400)
    played = make_tree(name, settings, before, start)
    bare = make_tree(name, settings, start=played.game.notation.state_to_text(played.state))
    searched(played), searched(bare)
    assert without_cuts(played) == without_cuts(bare)


def without_cuts(tree: SearchTree) -> object:
    """Return the tree with the same mark on all edges that end the game."""

    def plain(node: list[tuple]) -> list[tuple]:
        return [(*e[:4], plain(e[4]) if isinstance(e[4], list) else max(e[4], -2)) for e in node]

    return plain(subtree_of_node(tree, 0))


@pytest.mark.parametrize(
    ("name", "start"), [("chess", "8/8/8/3k4/8/8/1R6/K7 w - - 0 1"), ("shogi", "7R1/k8/9/9/9/9/9/9/8K b - 1")]
)
@pytest.mark.parametrize("solver", [False, True])
def test_a_kept_tree_forgets_what_it_saw_of_positions_that_are_now_before_its_root(
    name: str, start: str, solver: bool
) -> None:
    """Their visits are taken back from every edge above, and nothing else is."""
    tree = make_tree(name, varied(QUIET, solver=solver, c_init=4.0), start=start)
    forgotten = 0
    for _ in range(6):
        result = searched(tree, HashEvaluator())
        best = int(result.actions[result.visits.argmax()])
        before = int(result.visits.max())
        tree.advance(best)
        if tree.end_reason() or not tree.is_expanded:
            break
        forgotten += before - tree.root_visit_count
        check_counts(tree)
        assert all(CUT - edge["child"] >= tree.ply for edge in cuts(tree))
    assert forgotten > 0


def cuts(tree: SearchTree) -> list[np.void]:
    """Return all edges whose game ends only in this search."""
    edges = np.concatenate([tree.edges_of(node) for node in range(tree.node_count)])
    return list(edges[edges["child"] <= CUT])


def test_a_perpetual_check_of_the_searched_line_is_no_proof() -> None:
    """By the rules of shogi only the fourth occurrence loses."""
    tree = make_tree("shogi", varied(QUIET, solver=True), start="7R1/k8/9/9/9/9/9/9/8K b - 1")
    searched(tree)
    lost = [edge for edge in cuts(tree) if abs(edge["value_sum"]) == edge["visits"]]
    assert lost
    for node in range(tree.node_count):
        proofs = np.array(tree.edge_proofs(node))
        assert not proofs[tree.edges_of(node)["child"] <= CUT].any()


@pytest.mark.parametrize(
    ("clock", "quiet_moves", "ends"),
    [
        (98, 1, False),
        (98, 2, True),
        (100, 1, False),
        (120, 29, False),
        (120, 30, True),
        (150, 1, False),
        (180, 40, False),
    ],
)
def test_from_a_position_past_fifty_moves_only_seventy_five_end_the_game(
    clock: int, quiet_moves: int, ends: bool
) -> None:
    """Otherwise every quiet move would be a draw, and the choice among them arbitrary."""
    positions = np.zeros((quiet_moves + 1, CHESS.state_words), np.uint64)
    for n in range(quiet_moves + 1):
        positions[n] = CHESS.notation.state_from_text("7k/8/8/8/8/8/8/R3K3 w - - 0 90")
        positions[n, 8] |= np.uint64((clock + n) << 16)
        positions[n, 0] = np.uint64(n << 8)  # pawns that differ: no repetition
    reason = CHESS.rules.end_reason(positions, quiet_moves + 1, 1, 0)
    assert (CHESS.reason_name(reason) == "fifty_moves") is ends
    assert CHESS.rules.end_reason(positions, quiet_moves + 1, 1, NO_ROOT) == reason, (
        "so does a game from there"
    )
