"""Checks that a stored game is intact and follows the rules, by plain replay, not by the trainer's kernel."""

from __future__ import annotations

from games.game_history import GameHistory
from games.spec import RESIGNATION, Game, outcome_for_first_player
from protocol.records import BadRecord, GameRecord
from store.rows import Stored


def fault_of(game: Game, stored: Stored) -> str | None:
    """The fault of a stored game; None if it has none."""
    try:
        record = stored.record(game)
    except BadRecord as error:
        return f"damaged: {error}"
    return _against_the_rules(game, record)


def _against_the_rules(game: Game, record: GameRecord) -> str | None:
    try:
        game_history = GameHistory(game, record.start, record.max_plies)
    except ValueError as error:
        return f"start position {record.start!r}: {error}"
    side = game_history.side_to_move
    for ply, action in enumerate(record.actions.tolist()):
        try:
            side = game_history.side_to_move
            game_history.play(action)
        except ValueError as error:
            return f"ply {ply}: {error}"
    reason, outcome = game_history.end_reason(), game_history.outcome()
    if reason is None and record.reason == RESIGNATION:
        reason, outcome = RESIGNATION, outcome_for_first_player(-1, side)
    if reason != record.reason:
        return (
            f"it ends by {record.reason!r}, but after its last move the rules say {reason or 'it goes on'!r}"
        )
    if outcome != record.outcome:
        return f"its outcome is {record.outcome:+d}, but by {reason} it is {outcome:+d}"
    return None
