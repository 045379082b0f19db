"""Go on boards up to 3 x 3: the table, compared with published values and with playing everything out."""

import random
from dataclasses import replace

import pytest
from naive_go import NaiveGo

from azselfplay.games import get_game
from azselfplay.games.dots_and_boxes.knowledge import GROUPS as GROUPS_OF_DOTS
from azselfplay.games.dots_and_boxes.knowledge import PER_GROUP
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.go import GoRules, game_of
from azselfplay.games.go.knowledge import GROUPS
from azselfplay.games.go.solver import Question, Table
from azselfplay.games.knowledge import Row, Solution, knowledge_of
from azselfplay.games.spec import Game


def solution_of(game: Game) -> Solution:
    return knowledge_of(game).solution


def after(game: NaiveGo, action: int) -> NaiveGo:
    """Return the game after an action; `game` itself stays as it is."""
    child = replace(game, boards=[*game.boards], movers=[*game.movers])
    child.play(action)
    return child


def naive_outcome(game: NaiveGo) -> int:
    """Return +1, 0 or -1 for the first player with best play, by trying all continuations to the end."""
    end = game.end()
    if end is not None:
        return end[1]
    wish, best = 1 - 2 * game.mover, -2
    for action in reversed(game.legal()):
        best = max(best, wish * naive_outcome(after(game, action)))
        if best == 1:
            break
    return wish * best


@pytest.mark.parametrize("rules", [GoRules(2), GoRules(2, superko="situational"), GoRules(3)], ids=str)
def test_the_first_player_wins_by_the_published_number_of_points(rules: GoRules) -> None:
    """The game begins on the empty board, with exact superko."""
    table, lead = Table(rules), {2: 1, 3: 9}[rules.size]
    assert max(Question(table.graph(lead)).answers([0]).values()) == 1
    assert max(Question(table.graph(lead + 1)).answers([0]).values()) == -1


@pytest.mark.parametrize(
    "rules",
    [
        GoRules(2, komi=0.5),
        GoRules(2, komi=1),
        GoRules(2, 0.5, "situational"),
        GoRules(2, -0.5, suicide=False),
    ],
    ids=lambda rules: rules.name,
)
def test_positions_of_games_have_the_result_of_playing_everything_out(rules: GoRules) -> None:
    """On 2 x 2, earlier positions count for the value and for the moves that keep it."""
    game, rng = game_of(rules), random.Random(rules.name)
    for _ in range(20):
        game_history, plies = GameHistory(game), rng.randrange(6, 16)
        twin = NaiveGo(2, rules.komi, rules.superko, rules.suicide)
        while game_history.ply < plies and game_history.end_reason() is None:
            action = int(rng.choice(game_history.legal_actions()))
            game_history.play(action)
            twin.play(action)
        if game_history.end_reason() is not None:
            continue
        sign = 1 - 2 * twin.mover
        values = {action: sign * naive_outcome(after(twin, action)) for action in twin.legal()}
        known = solution_of(game).known(game_history.states)
        assert known.value == max(values.values())
        assert known.keeps == {action for action, value in values.items() if value == known.value}
        assert known.legal == len(values)


def test_what_came_before_can_change_what_a_position_is_worth() -> None:
    """Some positions of 2 x 2 have other values when read from their text. Otherwise earlier positions would
    test nothing."""
    game, rng, changed = get_game("go_2x2_komi0.5"), random.Random(1), 0
    solution = solution_of(game)
    for _ in range(300):
        game_history = GameHistory(game)
        while game_history.end_reason() is None:
            known, fresh = solution.known(game_history.states), solution.probe(game_history.state)
            changed += known.value != fresh.value
            game_history.play(int(rng.choice(game_history.legal_actions())))
    assert changed > 0


def test_who_plays_by_the_table_wins_every_game_that_is_won() -> None:
    """Black on 3 x 3 needs 8 points, and gets them against random replies."""
    game, rng = get_game("go_3x3"), random.Random(3)
    solution = solution_of(game)
    for _ in range(30):
        game_history = GameHistory(game)
        while game_history.end_reason() is None:
            known = solution.known(game_history.states)
            assert known.value == (1 if game_history.side_to_move == 0 else -1)
            choices = sorted(known.keeps) if game_history.side_to_move == 0 else game_history.legal_actions()
            game_history.play(int(rng.choice(choices)))
        assert game_history.outcome() == 1


@pytest.mark.nightly
def test_a_long_past_that_gets_in_the_way_is_searched_to_the_end() -> None:
    """In a match for all nine points, a search of 24 plies from this position did not find the value of
    move 6."""
    moves = (
        "C2 B2 A2 C1 B1 B3 A1 pass C1 C3 A3 B3 B2 pass C3 B3 B2 C2 A1 pass A2 pass B1 C3 C1 A3 B1 A2 B2 pass "
        "A1 C1 B1 B2 A1 B2 C2"
    )
    table = Table(GoRules(3))
    nodes = [table.node_of(state) for state in replay(get_game("go_3x3"), "", moves.split()).states]
    assert Question(table.graph(9)).answers(nodes) == {3: -1, 6: -1, 7: -1, 8: 1, 9: 1}


def states_of(game: Game, rows: list[Row]) -> set[bytes]:
    """Return the positions of `rows`."""
    states = set()
    for row in rows:
        game_history = GameHistory(game, row.start)
        for action in row.moves:
            game_history.play(action)
        states.add(game_history.state.tobytes())
    return states


@pytest.mark.parametrize(
    ("name", "groups", "each"), [("go_3x3", GROUPS, 300), ("dots_and_boxes", GROUPS_OF_DOTS, PER_GROUP)]
)
def test_known_positions_are_distinct_and_half_of_them_matter(
    name: str, groups: list[str], each: int
) -> None:
    """Each group has the same number; final judgements use other positions."""
    game = get_game(name)
    rows, final = solution_of(game).rows(1, 0), solution_of(game).final_rows()
    for found in (rows, final):
        assert [sum(row.group == group for row in found) for group in groups] == [each] * 3
        assert sum(row.matters for row in found) >= 3 * each // 2
        assert len(states_of(game, found)) == 3 * each
    assert states_of(game, rows).isdisjoint(states_of(game, final))
    assert rows == solution_of(game).rows(1, 0)


def test_larger_boards_are_not_solved() -> None:
    assert knowledge_of(get_game("go_4x4")).solution is None
    with pytest.raises(ValueError, match="go_4x4 has too many positions"):
        Table(GoRules(4))


def test_near_points_count_for_the_side_whose_stones_are_nearer() -> None:
    """This is compared with breadth-first search at all positions of a random game; a point that both sides
    reach at once belongs to nobody."""
    game, rng = get_game("go_9x9"), random.Random(9)
    heuristic = knowledge_of(game).heuristic
    game_history, twin = GameHistory(game), NaiveGo(9)
    for _ in range(60):
        action = int(rng.choice(game_history.legal_actions()))
        game_history.play(action)
        twin.play(action)
        lead = near_lead(twin) * (1 - 2 * twin.mover)
        assert int(heuristic.material(game_history.state)) == 100 * lead
        assert int(heuristic.evaluate(game_history.state)) == 100 * lead - 750 * (1 - 2 * twin.mover)


def near_lead(twin: NaiveGo) -> int:
    """Return the first player's near points minus the second's."""
    owners: dict[tuple[int, int], int | None] = dict(twin.boards[-1])
    while True:
        touched = {
            point: {owners[near] for near in twin.beside(point) if owners.get(near) is not None}
            for point in twin.points()
            if point not in owners
        }
        new = {point: min(sides) if len(sides) == 1 else None for point, sides in touched.items() if sides}
        if not new:
            return list(owners.values()).count(0) - list(owners.values()).count(1)
        owners |= new


def test_captures_come_first_and_the_pass_last() -> None:
    game = get_game("go_5x5")
    heuristic = knowledge_of(game).heuristic
    state = replay(game, "", ["B1", "A1", "C5", "pass"]).state
    named = {text: game.notation.action_from_text(state, text) for text in ("A2", "C3", "pass")}
    scores = [int(heuristic.order_score(state, action)) for action in named.values()]
    assert scores == [1, 0, -1]
    assert [bool(heuristic.is_noisy(state, action)) for action in named.values()] == [True, False, False]
