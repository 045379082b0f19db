"""A slow, plain replay of a record: it calls the rules of the game one by one and uses nothing of the
search."""

from __future__ import annotations

import numpy as np

from azselfplay.games import get_game
from azselfplay.games.spec import NO_ROOT
from protocol.records import IMPROVED_POLICY, POLICY_TARGET, PRUNED_TARGET, SEARCH_DIFFERS, GameRecord


def visits_of(record: GameRecord) -> list[dict[int, int]]:
    """Return action -> visits for each ply."""
    ends = np.cumsum(record.visited).tolist()
    begins = [0, *ends[:-1]]
    return [
        dict(zip(record.visit_actions[a:b].tolist(), record.visits[a:b].tolist(), strict=True))
        for a, b in zip(begins, ends, strict=True)
    ]


def verify(record: GameRecord) -> None:
    """Replay a record and check everything that it claims. Raises AssertionError where it is wrong."""
    game = get_game(record.game)
    positions = np.zeros((record.plies + 1, game.state_words), np.uint64)
    positions[0] = game.notation.state_from_text(record.start)
    legal = np.zeros(game.max_legal, np.uint16)
    kept, after_pruned = 0, False
    for ply, (action, visits) in enumerate(zip(record.actions.tolist(), visits_of(record), strict=True)):
        count = game.rules.legal_actions(positions, ply + 1, legal)
        assert game.rules.end_reason(positions, ply + 1, count, NO_ROOT) == 0, "played on after the end"
        actions = legal[:count].tolist()
        assert set(visits) <= set(actions)
        total, most = sum(visits.values()), record.simulations + (kept or 1) - 1
        flags = record.flags[ply] & ~np.uint8(SEARCH_DIFFERS)
        if flags == POLICY_TARGET:
            assert action in visits
            assert total in (record.simulations, most) or (
                after_pruned and record.simulations <= total <= most
            )
        elif flags == POLICY_TARGET | IMPROVED_POLICY:
            assert total == 10_000
        else:
            assert flags in (0, POLICY_TARGET | PRUNED_TARGET)
            assert total <= most
            assert flags == 0 or action in visits
        after_pruned = bool(flags & PRUNED_TARGET)
        kept = 0 if flags & IMPROVED_POLICY else most if after_pruned else visits.get(action, 0)
        game.rules.play(positions[ply], action, positions[ply + 1])
    _verify_end(record, positions)
    assert (np.abs(record.root_values) <= 1).all()


def _verify_end(record: GameRecord, positions: np.ndarray) -> None:
    game = get_game(record.game)
    count = game.rules.legal_actions(positions, record.plies + 1, np.zeros(game.max_legal, np.uint16))
    reason = game.end_reasons[game.rules.end_reason(positions, record.plies + 1, count, NO_ROOT)]
    first_player_moves_next = record.plies % 2 == 0
    assert record.reason == (reason.name if reason.name != "ongoing" else "ply_cap")
    assert record.outcome == (reason.value if first_player_moves_next else -reason.value)
