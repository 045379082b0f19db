"""The table with one line per player, compared with the others."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping

from diagnostics.players import FIGURES, Compared, PlayerBook, rates
from games.spec import Game
from report.players.again import Judged
from runtime.text_table import aligned
from store.reader import Range, StoreReader

HEADING = ("player", "games", "games/h", "plies", "z", "resigned", "z", "value error", "z")
SEARCHED = ("searched again", "excess", "z")


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


def suspects(book: PlayerBook, judged: Mapping[str, Judged]) -> dict[str, list[str]]:
    """What is suspicious about each player, for players with any suspicion."""
    found: dict[str, list[str]] = {}
    for figure, players in book.who_differs().items():
        for player in players:
            found.setdefault(player, []).append(f"other {figure}")
    for player, one in judged.items():
        if one.is_made_up:
            found.setdefault(player, []).append("visits that no search gives")
    return found


def table(
    book: PlayerBook, rate: Mapping[str, float], judged: Mapping[str, Judged], held: Collection[str]
) -> str:
    """All players, those with most games first. `held`: those in quarantine."""
    wrong = suspects(book, judged)
    rows = [[*HEADING, *(SEARCHED if judged else ()), "remarks"]]
    for player, count in book.players.items():
        compared = book.compared(player)
        cells = [player, str(count), f"{rate[player]:.0f}" if player in rate else "-"]
        for figure in FIGURES:
            cells += _figure(figure, compared[figure])
        if judged:
            cells += _searched(judged.get(player))
        remarks = [*(["in quarantine"] if player in held else []), *wrong.get(player, [])]
        rows.append([*cells, "; ".join(remarks)])
    return aligned(rows)


def as_json(book: PlayerBook, judged: Mapping[str, Judged], held: Collection[str]) -> str:
    """`{"players": {NAME: {...}}}`. Numbers that are not finite are null."""
    wrong = suspects(book, judged)
    players = {
        player: {
            "games": count,
            **{name: _finite(one.mean) for name, one in book.compared(player).items()},
            **_searched_again(judged.get(player)),
            "remarks": wrong.get(player, []),
            "in_quarantine": player in held,
        }
        for player, count in book.players.items()
    }
    return json.dumps({"players": players})


def _searched_again(one: Judged | None) -> dict[str, object]:
    if one is None:
        return {}
    made_up = {"searched": one.positions, "excess": _finite(one.excess), "z": _finite(one.z)}
    return {**made_up, "made_up": one.is_made_up}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _figure(name: str, one: Compared) -> list[str]:
    value = f"{100 * one.mean:.1f}%" if name == "resignations" else f"{one.mean:.2f}"
    return [value if not math.isnan(one.mean) else "-", _z(one.z)]


def _searched(one: Judged | None) -> list[str]:
    return ["-", "-", "-"] if one is None else [str(one.positions), f"{one.excess:+.3f}", _z(one.z)]


def _z(z: float) -> str:
    return "-" if math.isnan(z) else f"{z:+.1f}"
