"""The slow, obvious twin of `trainer.verify`: lists, dictionaries and one rule after another."""

import numpy as np

from azselfplay.games.spec import NO_ROOT, Game, State, outcome_for_first_player
from protocol.records import GameRecord


def positions_of(game: Game, record: GameRecord) -> list[State]:
    """Return all positions of a game, the final one included."""
    positions = np.zeros((record.plies + 1, game.state_words), dtype=np.uint64)
    positions[0] = game.notation.state_from_text(record.start)
    for ply, action in enumerate(record.actions):
        game.rules.play(positions[ply], action, positions[ply + 1])
    return list(positions)


def legal_and_end(game: Game, states: list[State]) -> tuple[list[int], int]:
    legal = np.zeros(game.max_legal, dtype=np.uint16)
    positions = np.array(states)
    count = game.rules.legal_actions(positions, len(positions), legal)
    return [int(a) for a in legal[:count]], int(
        game.rules.end_reason(positions, len(positions), count, NO_ROOT)
    )


def decided(game: Game, states: list[State]) -> int:
    """Return the end reason that nothing can change any more; 0 if there is none."""
    count = len(legal_and_end(game, states)[0])
    return int(game.rules.end_reason(np.array(states), len(states), count, len(states) - 1))


def visits_by_ply(record: GameRecord) -> list[list[tuple[int, int]]]:
    """Return the `(action, visits)` pairs of each ply."""
    pairs = iter(zip(record.visit_actions.tolist(), record.visits.tolist(), strict=True))
    return [[next(pairs) for _ in range(count)] for count in record.visited]


def naive_verdict(game: Game, record: GameRecord) -> str | None:
    """Return the code of the first fault in moves, visits or end; None for an honest game."""
    states = [game.notation.state_from_text(record.start)]
    kept = 0
    if not record.visits.size:
        return "bad_visits"
    for ply, visits in enumerate(visits_by_ply(record)):
        legal, ended = legal_and_end(game, states)
        action = int(record.actions[ply])
        if ended:
            return "played_on"
        if action not in legal:
            return "illegal_action"
        visited = [a for a, _ in visits]
        if visited != sorted(set(visited)) or not set(visited) <= set(legal):
            return "bad_visits"
        total = sum(n for _, n in visits)
        allowed = set(range(record.simulations, record.simulations + kept + 1))
        flag = int(record.flags[ply]) & 7
        if flag in (0, 5):
            allowed = set(range(record.simulations + kept + 1))
        if flag == 3:
            allowed = {10_000}
        if total not in allowed or any(n == 0 for _, n in visits):
            return "bad_visits"
        if flag in (1, 5) and action not in visited:
            return "bad_visits"
        if flag == 5:
            kept = min(record.simulations + kept - 1, 65535)
        else:
            kept = 0 if flag == 3 else max(dict(visits).get(action, 0) - 1, 0)
        child = np.zeros_like(states[0])
        game.rules.play(states[-1], action, child)
        states.append(child)
    return _naive_end(game, record, states)


def _naive_end(game: Game, record: GameRecord, states: list[State]) -> str | None:
    _, ended = legal_and_end(game, states)
    if ended:
        reason = game.end_reasons[ended]
        outcome = outcome_for_first_player(reason.value, int(game.rules.side_to_move(states[-1])))
        name = reason.name
    elif record.plies == record.max_plies:
        name, outcome = "ply_cap", 0
    else:
        return "unfinished"
    if record.reason != name:
        return "wrong_reason"
    return None if record.outcome == outcome else "wrong_outcome"
