"""`azplay players RUN`: lists the players of a run and those whose games differ from the others', and manages
quarantine."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.view import aligned
from azselfplay.link.finding import RUNS
from protocol.settings import Positive

if TYPE_CHECKING:
    from azselfplay.diagnostics.players import PlayerBook
    from azselfplay.games.spec import Game
    from azselfplay.store.reader import StoreReader

EXAMPLES = (
    "azplay players chess-tiny",
    "azplay players chess-tiny --quarantine keys/lab-7",
    "azplay players chess-tiny --release keys/lab-7",
)

HEADING = ("player", "games", "games/h", "plies", "z", "resigned", "z", "value error", "z")


@dataclass(frozen=True)
class PlayersConfig:
    """Lists who plays for a run, and whose games differ from the others'. Exit status 3 if anybody's do."""

    run: Positional[str]
    """Folder of a run, or its name in --runs; on the trainer's machine, which has the games."""
    runs: Path = RUNS
    """Folder of all runs."""
    newest: Positive = 20_000
    """How many of the newest games are compared."""
    json: bool = False
    """Print JSON, for scripts."""
    quarantine: str = ""
    """Stop training on the games of this player. They stay stored, and the player is not told."""
    release: str = ""
    """Train on the games of this player again."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(PlayersConfig, command="azplay players", examples=EXAMPLES)
    from azselfplay.store.reader import open_games

    if config.quarantine or config.release:
        from azselfplay.store.players import set_quarantine

        for player, is_quarantined in ((config.quarantine, True), (config.release, False)):
            if not player:
                continue
            with closing(open_games(config.run, config.runs)) as games:
                # The store is closed again before it is written to.
                known = games.games_of(player, games.span()[1])
            # Quarantine for an unknown name is a mistake; releasing an unknown name does no harm.
            if is_quarantined and not known:
                what = f"no game in {games.path} is by {player!r}"
                raise Fatal(f"{what}: `azplay players {config.run}` lists the players", Exit.BAD_DATA)
            changed = set_quarantine(games.path, player, quarantined=is_quarantined)
            what = "in quarantine" if is_quarantined else "released"
            print(f"{player}: {what}{'' if changed else ' already'}, {len(known)} games")
        return int(Exit.OK)
    with closing(open_games(config.run, config.runs)) as games:
        from azselfplay.games import get_game

        game = get_game(games.game)
        book, rate = read_book(games, game, config.newest)
        if not games.span()[1]:
            raise Fatal(
                f"{games.path} has no games yet; try again when the first are finished", Exit.BAD_DATA
            )
        if not book.players:
            raise Fatal(
                f"{games.path} does not say who played its games: they are imported, or an older version "
                "stored them",
                Exit.BAD_DATA,
            )
        quarantined = games.quarantined()
        print(as_json(book, quarantined) if config.json else table(book, rate, quarantined))
        # A player in quarantine needs no further alarm.
        found = [player for player in suspects(book) if player not in quarantined]
        return int(Exit.FOUND if found else Exit.OK)


def read_book(games: StoreReader, game: Game, newest: int) -> tuple[PlayerBook, dict[str, float]]:
    """Read the `newest` games by player: their figures, and games per hour."""
    from azselfplay.diagnostics.players import PlayerBook, rates
    from azselfplay.store.reader import Range

    book, times = PlayerBook(game), []
    first, last = games.bounds(Range(newest=newest))
    players = games.players_between(first, last)
    for stored, record in games.records(game, Range(first, last)):
        # Old games do not record their player.
        if (player := players.get(stored.seq)) is not None:
            times.append((player, stored.received_at))
            book.on_game(record, player)
    return book, rates(times)


def suspects(book: PlayerBook) -> dict[str, list[str]]:
    """Return what is suspicious about each player, for all players under suspicion."""
    found: dict[str, list[str]] = {}
    for figure, players in book.who_differs().items():
        for player in players:
            found.setdefault(player, []).append(f"other {figure}")
    return found


def table(book: PlayerBook, rate: Mapping[str, float], quarantined: Collection[str]) -> str:
    """Return a table of all players, those with most games first. `quarantined`: players in quarantine."""
    wrong = suspects(book)
    rows = [[*HEADING, "remarks"]]
    for player, count in book.players.items():
        cells = [player, str(count), f"{rate[player]:.0f}" if player in rate else "-"]
        for figure, one in book.compared(player).items():
            value = f"{100 * one.mean:.1f}%" if figure == "resignations" else f"{one.mean:.2f}"
            cells += ["-" if math.isnan(one.mean) else value, "-" if math.isnan(one.z) else f"{one.z:+.1f}"]
        remarks = [*(["in quarantine"] if player in quarantined else []), *wrong.get(player, [])]
        rows.append([*cells, "; ".join(remarks)])
    return aligned(rows)


def as_json(book: PlayerBook, quarantined: Collection[str]) -> str:
    """Return `{"players": {NAME: {...}}}`. Numbers that are not finite are null."""
    wrong = suspects(book)
    players = {
        player: {
            "games": count,
            **{
                name: one.mean if math.isfinite(one.mean) else None
                for name, one in book.compared(player).items()
            },
            "remarks": wrong.get(player, []),
            "in_quarantine": player in quarantined,
        }
        for player, count in book.players.items()
    }
    return json.dumps({"players": players})
