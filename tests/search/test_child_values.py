"""A search reports what it found each of its moves to be worth."""

from __future__ import annotations

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import HashEvaluator, searched

from games import get_game
from search.result import SearchResult, child_value_column
from search.settings import resolve
from search.tree import SearchTree, tree_for

GAME = get_game("connect_four")


def fresh_tree(moves: str = "", **changes: object) -> SearchTree:
    settings = varied(self_play(simulations=60), **{"child_values": True, **changes})  # type: ignore[arg-type]
    tree = tree_for(GAME, resolve(settings, GAME), np.random.default_rng(5))
    tree.reset(GAME.notation.state_from_text(""))
    for move in moves:
        tree.advance(int(move) - 1)
    return tree


def naive_values(tree: SearchTree, result: SearchResult) -> list[int]:
    """Return what the edges of the root say about the actions of `result`, one by one."""
    if result.value == 1 and result.stats is not None and result.stats.max_depth == 1:
        return [127] * len(result.actions)  # a move that wins at once
    values, proofs = {}, tree.edge_proofs(0)
    for edge, proof in zip(tree.edges_of(0), proofs, strict=True):
        if tree.settings.search.solver and proof:
            values[int(edge["action"])] = 127 if proof > 0 else -127
        elif edge["visits"]:
            values[int(edge["action"])] = round(127 * float(edge["value_sum"]) / int(edge["visits"]))
        else:
            values[int(edge["action"])] = -128
    return [values[int(action)] for action in result.actions]


@pytest.mark.parametrize("selection", ["puct", "gumbel", "thompson"])
@pytest.mark.parametrize("moves", ["", "434343", "43434"])
@pytest.mark.parametrize("solver", [False, True])
def test_values_are_those_of_the_edges(selection: str, moves: str, solver: bool) -> None:
    """Also in positions with a move that wins at once, and with one that must be prevented."""
    tree = fresh_tree(moves, selection=selection, solver=solver)
    result = searched(tree, HashEvaluator())
    assert result.child_values is not None
    assert result.child_values.tolist() == naive_values(tree, result)
    assert len(result.child_values) == len(result.actions)


def test_a_proven_win_has_the_value_of_a_win() -> None:
    tree = fresh_tree("434343", solver=True)
    result = searched(tree, HashEvaluator())
    assert dict(zip(result.actions.tolist(), result.child_values.tolist(), strict=True)) == {3: 127}  # type: ignore[union-attr]


def test_values_are_only_those_of_moves_with_visits() -> None:
    """Two moves win at once, and one simulation gives a visit to the first of them only."""
    result = searched(fresh_tree("223344", simulations=1), HashEvaluator())
    assert result.child_values is not None
    assert len(result.child_values) == len(result.actions) == len(result.visits) == 1


def test_nothing_is_reported_unless_the_settings_ask_for_it() -> None:
    assert searched(fresh_tree(child_values=False), HashEvaluator()).child_values is None


def test_the_column_of_a_game_has_an_unknown_value_for_each_visit_without_one() -> None:
    """Plies without a search have no visits, and a game without child values has no column."""
    actions, visits = np.array([1, 2], np.uint16), np.array([3, 4], np.int32)
    plain = SearchResult(actions, visits, 0.0, 0)
    nothing = SearchResult(actions[:0], visits[:0], 0.0, 0)
    valued = SearchResult(actions, visits, 0.0, 0, child_values=np.array([5, -6], np.int8))
    assert child_value_column([nothing, valued, plain]).tolist() == [5, -6, -128, -128]
    assert child_value_column([plain, nothing]).tolist() == []
