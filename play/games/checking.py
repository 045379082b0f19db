"""Is a stored game whole, and is it a game under the rules? By plain replay, not by the trainer's kernel."""

from __future__ import annotations

from games.spec import RESIGNATION, Game, outcome_for_first_player
from play.games.reading import Stored
from play.lines import GameLine
from protocol.records import BadRecord, GameRecord


def fault_of(game: Game, stored: Stored) -> str | None:
    """What is wrong with a stored game, None if nothing is."""
    try:
        record = stored.record()
    except BadRecord as error:
        return f"damaged: {error}"
    return _unlike_the_row(game, stored, record) or _against_the_rules(game, record)


def _unlike_the_row(game: Game, stored: Stored, record: GameRecord) -> str | None:
    low, high = int(record.versions.min()), int(record.versions.max())
    pairs = (
        ("game", game.name, record.game),
        ("uid", stored.uid.hex(), record.uid.hex()),
        ("plies", stored.plies, record.plies),
        ("outcome", stored.outcome, record.outcome),
        ("reason", stored.reason, record.reason),
        ("weights versions", (stored.version_min, stored.version_max), (low, high)),
    )
    for name, noted, found in pairs:
        if noted != found:
            return f"{name} is {found!r} in the record, but {noted!r} in the table"
    return None


def _against_the_rules(game: Game, record: GameRecord) -> str | None:
    try:
        line = GameLine(game, record.start, record.max_plies)
    except ValueError as error:
        return f"start position {record.start!r}: {error}"
    for ply, action in enumerate(record.actions.tolist()):
        try:
            line.play(action)
        except ValueError as error:
            return f"ply {ply}: {error}"
    reason, outcome = line.end_reason(), line.outcome()
    if reason is None and record.reason == RESIGNATION:
        reason, outcome = RESIGNATION, outcome_for_first_player(1, line.side_to_move)
    if reason != record.reason:
        return (
            f"it ends by {record.reason!r}, but after its last move the rules say {reason or 'it goes on'!r}"
        )
    if outcome != record.outcome:
        return f"its outcome is {record.outcome:+d}, but by {reason} it is {outcome:+d}"
    return None
