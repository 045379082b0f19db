"""`azplay players RUN`: who plays for a run, whose games are unlike the others', and quarantine."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from protocol.settings import Count, Positive, Seed
from runtime.config import load
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS
from runtime.reading import read_toml

if TYPE_CHECKING:
    from games.spec import Game
    from protocol.settings import SelfPlaySettings
    from report.players.again import Judged
    from store.reader import StoreReader

EXAMPLES = (
    "azplay players chess-tiny",
    "azplay players chess-tiny --check 2000               # search 2000 positions again, compare the visits",
    "azplay players chess-tiny --quarantine keys/lab-7",
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
    check: Count = 0
    """Positions of these games to search again with the weights that played them, spread evenly over the
    players; fewer than 10 per player say nothing. 0: none."""
    server_folder: Path | None = None
    """--check: folder of the run on azserver's machine, with config.toml and weights/; default: the same."""
    seed: Seed = 0
    """--check: seed of the choice of positions."""
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
    judged = _judged(games, game, players, config) if config.check else {}
    held = games.quarantined()
    print(as_json(book, judged, held) if config.json else table(book, rate, judged, held))
    found = [player for player in suspects(book, judged) if player not in held]
    return int(Exit.FOUND if found else Exit.OK)


def _judged(
    games: StoreReader, game: Game, players: dict[int, str], config: PlayersConfig
) -> dict[str, Judged]:
    import numpy as np

    from report.players.again import draw, judge, versions_in

    folder = config.server_folder or games.path.parent
    weights = versions_in(folder / "weights")
    rng = np.random.default_rng(config.seed)
    positions = draw(games, game, players, config.check, weights, rng)
    print(f"azplay players: {len(positions)} positions are searched again, twice each", file=sys.stderr)
    if not positions:
        raise Fatal(f"{folder / 'weights'} has none of the weights that played these games", Exit.BAD_DATA)
    return judge(game, _self_play(folder, game), positions, weights)


def _self_play(folder: Path, game: Game) -> SelfPlaySettings:
    """How games of the run are played, as azserver has left it in its folder; not how they begin."""
    import msgspec

    from protocol.settings import SelfPlaySettings, changed
    from search.settings import resolve

    path = folder / "config.toml"
    try:
        found = read_toml(path).get("self_play", {})
        settings = msgspec.convert(found, SelfPlaySettings)
        return resolve(
            changed(settings, {"start.share": 0.0, "start.positions": "", "start.generator": ""}), game
        )
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise Fatal(
            f"{path} does not say how games are played ({error}): name azserver's folder of the run with "
            "--server-folder",
            Exit.BAD_DATA,
        ) from error
