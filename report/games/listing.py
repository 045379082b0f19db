"""A line a game."""

from __future__ import annotations

from datetime import UTC, datetime

from store.rows import Stored

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}
"""Outcome for the first player, as it is written in chess."""

HEADER = (
    f"{'game':>8}  {'received (UTC)':19}  {'source':8}  {'plies':>5}  {'result':7}  {'weights':>11}  reason"
)


def listed(game: Stored) -> str:
    received = datetime.fromtimestamp(game.received_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"{game.seq:8}  {received}  {game.source:8}  {game.plies:5}  {RESULTS.get(game.outcome, '?'):7}  "
        f"{versions(game):>11}  {game.reason}"
    )


def versions(game: Stored) -> str:
    """The weights versions that played it: "7", or "7-9" when new ones came meanwhile."""
    low, high = game.version_min, game.version_max
    return str(low) if low == high else f"{low}-{high}"
