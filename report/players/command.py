"""`azplay players RUN`: who plays for a run, whose games are unlike the others', and quarantine."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from protocol.settings import Positive
from runtime.config import load
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS

if TYPE_CHECKING:
    from store.reader import StoreReader

EXAMPLES = (
    "azplay players chess-tiny",
    "azplay players chess-tiny --quarantine keys/lab-7",
    "azplay players chess-tiny --release keys/lab-7",
)


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
    if config.quarantine or config.release:
        return _hold(config)
    from store.reader import open_games

    with closing(open_games(config.run, config.runs)) as games:
        return _show(games, config)


def _hold(config: PlayersConfig) -> int:
    from store.players import set_quarantine
    from store.reader import open_games

    for player, held in ((config.quarantine, True), (config.release, False)):
        if not player:
            continue
        with closing(open_games(config.run, config.runs)) as games:
            known = games.games_of(player, games.span()[1])
        if held and not known:
            raise Fatal(
                f"no game in {games.path} is by {player!r}: `azplay players {config.run}` lists the players",
                Exit.BAD_DATA,
            )
        changed = set_quarantine(games.path, player, held=held)
        what = "in quarantine" if held else "released"
        print(f"{player}: {what}{'' if changed else ' already'}, {len(known)} games")
    return int(Exit.OK)


def _show(games: StoreReader, config: PlayersConfig) -> int:
    from games import get_game
    from report.players.table import as_json, read_book, suspects, table

    game = get_game(games.game)
    book, players, rate = read_book(games, game, config.newest)
    if not games.span()[1]:
        raise Fatal(f"{games.path} has no games yet; try again when the first are finished", Exit.BAD_DATA)
    if not players:
        raise Fatal(
            f"{games.path} does not say who played its games: an older version stored them",
            Exit.BAD_DATA,
        )
    held = games.quarantined()
    print(as_json(book, held) if config.json else table(book, rate, held))
    found = [player for player in suspects(book) if player not in held]
    return int(Exit.FOUND if found else Exit.OK)
