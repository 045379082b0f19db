"""Go's heuristic, compared with breadth-first search, and the order of its moves."""

import random

from naive_go import NaiveGo

from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory, replay
from azselfplay.games.knowledge import knowledge_of


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
