"""Dots-and-boxes: solved values compared with the published ones; rules of any size compared with lists and
dictionaries."""

import random

import numpy as np
import pytest
from naive_dots import NaiveDots, gain
from naive_games import assert_goes_as_in_the_twin

from azselfplay.games import get_game
from azselfplay.games.dots_and_boxes import game_of_size
from azselfplay.games.dots_and_boxes.knowledge import GROUPS, PER_GROUP, Truth, solver_of
from azselfplay.games.dots_and_boxes.rules import Board
from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.names import is_game
from azselfplay.games.playouts import legal, replay
from azselfplay.games.spec import Game

GAME = get_game("dots_and_boxes")
SIZES = ((1, 1), (2, 3), (9, 8))
"""The last size has edges in three words and boxes in two."""
VALUES = {
    (1, 1): -1, (1, 2): 0, (1, 3): -1, (1, 4): 0, (1, 5): -1,
    (2, 2): 2, (2, 3): -2, (2, 4): 2, (3, 3): -3,
}  # fmt: skip
"""Published values: boxes of the first player minus those of the second, with best play."""


def moves_of(game: Game, seed: int) -> list[int]:
    """Return a random order of all edges: any order is legal."""
    edges = list(range(game.actions))
    random.Random(seed).shuffle(edges)
    return edges


@pytest.mark.parametrize(("size", "value"), VALUES.items(), ids=str)
def test_boards_have_the_published_values(size: tuple[int, int], value: int) -> None:
    assert solver_of(*size).gain(0) == value


@pytest.mark.parametrize("size", [(1, 3), (2, 2)])
def test_every_set_of_edges_is_solved_as_plain_recursion_solves_it(size: tuple[int, int]) -> None:
    """There are 1,024 sets on 1 x 3 boxes and 4,096 on 2 x 2."""
    edges, solver = NaiveDots(*size).edges(), solver_of(*size)
    for drawn in range(1 << len(edges)):
        there = frozenset(edge for number, edge in enumerate(edges) if drawn >> number & 1)
        assert solver.gain(drawn) == gain(*size, there)


def test_the_truth_counts_the_boxes_that_are_closed_already() -> None:
    """The result, and the actions that keep it, are those of trying all continuations."""
    game = game_of_size(2, 2)
    truth = Truth(game)
    for seed in range(20):
        moves = moves_of(game, seed)
        positions, twin = replay(game, moves), NaiveDots(2, 2)
        for ply, move in enumerate(moves):
            known = truth.probe(positions[ply])
            lead, after = twin.lead(twin.mover), {}
            for action in twin.legal():
                child = NaiveDots(2, 2, [list(twin.drawn[-1])], [dict(twin.owners[-1])], twin.mover)
                child.play(action)
                rest = gain(2, 2, frozenset(child.drawn[-1]))
                total = child.lead(twin.mover) + (rest if child.mover == twin.mover else -rest)
                after[action] = int(np.sign(total))
            assert lead == game.score(positions[ply]) * (1 if twin.mover == 0 else -1)
            assert known.value == max(after.values())
            assert known.keeps == {action for action, value in after.items() if value == known.value}
            assert known.legal == len(after)
            twin.play(move)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (2, 3), (9, 8)], ids=str)
def test_a_search_sees_the_end_as_soon_as_a_side_has_more_than_half_of_the_boxes(
    size: tuple[int, int],
) -> None:
    """It ends no earlier, and its result is that of the game played to its end."""
    game = game_of_size(*size)
    for seed in range(10):
        positions = replay(game, moves_of(game, seed))
        for n, state in enumerate(positions, start=1):
            first, second = (one.bit_count() for one in Truth(game).text.parts(state)[1:3])
            decided = 2 * max(first, second) > game.cells or n == len(positions)
            reason = game.rules.end_reason(positions, n, len(legal(game, positions, n)), n - 1)
            assert bool(reason) == decided
            if decided:
                value, side = game.end_reasons[reason].value, game.rules.side_to_move(state)
                final = np.sign(game.score(positions[-1]))
                assert value == (final if side == 0 else -final)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_rules_of_any_size_are_those_of_the_twin(size: tuple[int, int]) -> None:
    """They agree on boards that fill one word and on a larger one, where texts are read as written too."""
    game = game_of_size(*size)
    moves = moves_of(game, 5)
    assert_goes_as_in_the_twin(game, NaiveDots(*size), moves, 2)
    for state in replay(game, moves):
        assert np.array_equal(game.notation.state_from_text(game.notation.state_to_text(state)), state)


def test_other_sizes_are_games_by_name() -> None:
    assert get_game("dots_and_boxes_2x4") is game_of_size(2, 4)
    assert get_game("dots_and_boxes_2x4").name == "dots_and_boxes_2x4"
    for other in ("dots_and_boxes_3x3", "dots_and_boxes_03x3"):
        with pytest.raises(ValueError, match="is called 'dots_and_boxes'"):
            get_game(other)
    with pytest.raises(ValueError, match="dots_and_boxes_12x1"):
        get_game("dots_and_boxes_40x0")
    for name in ("chess_3x3", "dots_and_boxes_3", "ludo_3x3"):
        with pytest.raises(ValueError, match="known games"):
            get_game(name)
        assert not is_game(name)
    assert is_game("dots_and_boxes_2x4")


def test_known_positions_are_distinct_and_half_of_them_matter() -> None:
    """Each third of the game has the same number; final judgements use other positions."""
    solution = knowledge_of(GAME).solution
    rows, final = solution.rows(1, 0), solution.final_rows()
    for found in (rows, final):
        assert [sum(row.group == group for row in found) for group in GROUPS] == [PER_GROUP] * 3
        for group in GROUPS:
            assert sum(row.matters for row in found if row.group == group) >= PER_GROUP // 2
    states = [{replay(GAME, list(row.moves))[-1].tobytes() for row in found} for found in (rows, final)]
    assert len(states[0]) == len(states[1]) == 3 * PER_GROUP
    assert not states[0] & states[1]
    assert rows == solution.rows(1, 0)


def test_boards_too_large_to_solve_have_no_solution_but_a_heuristic() -> None:
    """4 x 4 boxes have 40 edges."""
    known = knowledge_of(get_game("dots_and_boxes_4x4"))
    assert known.solution is None
    state = get_game("dots_and_boxes_4x4").notation.state_from_text("")
    assert int(known.heuristic.evaluate(state)) == 0


def test_the_heuristic_counts_boxes_and_those_with_three_sides() -> None:
    """It counts for the side to move. Closing edges are noisy and come first; those that give a box away come
    last."""
    game = game_of_size(1, 2)
    heuristic = knowledge_of(game).heuristic
    state = game.notation.state_from_text("10/1o1.0/10 x")
    assert (int(heuristic.material(state)), int(heuristic.evaluate(state))) == (-100, -100)
    three = game.notation.state_from_text("10/1.0.0/10 x")
    assert (int(heuristic.material(three)), int(heuristic.evaluate(three))) == (0, 50)
    closes, gives = (game.notation.action_from_text(three, move) for move in ("b1b2", "b2c2"))
    assert [int(heuristic.order_score(three, action)) for action in (closes, gives)] == [2, 1]
    assert heuristic.is_noisy(three, closes)
    assert not heuristic.is_noisy(three, gives)


def test_a_quarter_turn_makes_sides_of_boxes_other_sides() -> None:
    """A square has seven symmetries, a rectangle three; edges move together with boxes."""
    assert len(Board(3, 3).symmetries()) == 7
    assert [one.name for one in Board(2, 3).symmetries()] == ["mirror_columns", "mirror_rows", "rotate_180"]
    turn = next(one for one in Board(3, 3).symmetries() if one.name == "rotate_90")
    assert sorted(turn.planes[:4].tolist()) == [0, 1, 2, 3]
    assert (turn.planes[:4] != np.arange(4)).all()
