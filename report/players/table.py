"""The table with one line per player, compared with the others."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping

from diagnostics.players import FIGURES, Compared, PlayerBook, rates
from games.spec import Game
from runtime.text_table import aligned
from store.reader import Range, StoreReader

HEADING = ("player", "games", "games/h", "plies", "z", "resigned", "z", "value error", "z")


def read_book(
    games: StoreReader, game: Game, newest: int
) -> tuple[PlayerBook, dict[int, str], dict[str, float]]:
    """The `newest` games by player: their figures, the player of each game, and games per hour."""
    book, of_player, times = PlayerBook(game, newest), {}, []
    first, last = games.bounds(Range(newest=newest))
    players = games.players_between(first, last)
    for stored, record in games.sound(game, Range(first, last)):
        player = players.get(stored.seq)
        if player is None:
            continue
        of_player[stored.seq] = player
        times.append((player, stored.received_at))
        book.on_games([(record, player)])
    return book, of_player, rates(times)


def suspects(book: PlayerBook) -> dict[str, list[str]]:
    """What is suspicious about each player, for players with any suspicion."""
    found: dict[str, list[str]] = {}
    for figure, players in book.who_differs().items():
        for player in players:
            found.setdefault(player, []).append(f"other {figure}")
    return found


def table(book: PlayerBook, rate: Mapping[str, float], held: Collection[str]) -> str:
    """All players, those with most games first. `held`: those in quarantine."""
    wrong = suspects(book)
    rows = [[*HEADING, "remarks"]]
    for player, count in book.players.items():
        compared = book.compared(player)
        cells = [player, str(count), f"{rate[player]:.0f}" if player in rate else "-"]
        for figure in FIGURES:
            cells += _figure(figure, compared[figure])
        remarks = [*(["in quarantine"] if player in held else []), *wrong.get(player, [])]
        rows.append([*cells, "; ".join(remarks)])
    return aligned(rows)


def as_json(book: PlayerBook, held: Collection[str]) -> str:
    """`{"players": {NAME: {...}}}`. Numbers that are not finite are null."""
    wrong = suspects(book)
    players = {
        player: {
            "games": count,
            **{name: _finite(one.mean) for name, one in book.compared(player).items()},
            "remarks": wrong.get(player, []),
            "in_quarantine": player in held,
        }
        for player, count in book.players.items()
    }
    return json.dumps({"players": players})


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _figure(name: str, one: Compared) -> list[str]:
    value = f"{100 * one.mean:.1f}%" if name == "resignations" else f"{one.mean:.2f}"
    return [value if not math.isnan(one.mean) else "-", _z(one.z)]


def _z(z: float) -> str:
    return "-" if math.isnan(z) else f"{z:+.1f}"
