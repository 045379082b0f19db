"""`azplay ladder` and `azplay scaling`: players rated on one scale.

`Ladder` rates the networks of a run over training. `Scaling` rates one network over simulations per move
(AlphaZero's Figure 2, with simulations instead of thinking time). Both record their games in a book
(`Session`) and print a table; `azplay report` and `azplay web` draw the ladder. `python -m
azselfplay.play.ladder GAME` measures the fixed players of a game against each other; its ratings are copied
to `games/GAME/knowledge.py`, so that all ladders of a game share one scale and need no games between fixed
players.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from tyro.conf import Positional

from azselfplay.host import aio
from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.runs import RunFolder, RunLock
from azselfplay.host.view import aligned
from azselfplay.link.finding import RUNS, run_named, weights_named
from azselfplay.link.weights_files import read_weights
from protocol.settings import Count, Plies, Seed, Simulations

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.play.book import Candidate, Entrant, Point
    from azselfplay.play.bradley_terry import Rating

LADDER_EXAMPLES = (
    "azplay ladder runs/chess-tiny                         # rate and print; again: only what is missing",
    "azplay ladder runs/chess-tiny --points 20 --games 200 --simulations 400 --device cuda:0",
    "azplay ladder runs/chess-tiny --watch                 # beside the trainer, new weights as they come",
)

SCALING_EXAMPLES = (
    "azplay scaling runs/chess-tiny                        # the newest network at 1, 2, 4 ... 256",
    "azplay scaling runs/chess-tiny --simulations 1600 --games 200 --device cuda:0",
    "azplay scaling runs/chess-tiny/weights/000045-1a2b3c4d.safetensors",
)


PAIRING_OPENINGS = 10
"""Number of openings that a pairing plays before the next pairing is chosen. Each opening is played from both
sides, all games at once."""


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """How games are played for ratings, and how many."""

    games: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    """Games of each rated player, on average; 100 give intervals of about 75 Elo either way."""
    search: str = ""
    """Search of networks: puct, gumbel, thompson, or such as gumbel?gumbel_c_scale=0.1; empty: the one that
    plays best, with `solver` and `look_ahead` if the file is in a run that has them. A network with another
    search counts as another player."""
    openings: str = "auto"
    """auto (built-in book, then random moves), book, random:PLIES or a file. The same for all games of a
    run's ratings, as are max_plies and seed."""
    max_plies: Plies = 0
    """Length at which a game is a draw; 0: the game's own cap."""
    seed: Seed = 0
    """Seed of the openings and of players that choose at random."""
    anchors: str = ""
    """Players to compare with, weak to strong, separated by commas, `random` first; empty: the game's own."""
    device: str = "cpu"
    """cpu or cuda:N."""
    threads: Count = 0
    """CPU threads of a network; 0: as many as cores."""
    runs: Path = RUNS
    """Folder of all runs."""


@dataclass(frozen=True, kw_only=True)
class LadderConfig(RateConfig):
    """Rates networks of a run against each other and against fixed players: Elo with 95 % intervals over
    steps, games and hours. Results are kept in RUN/ratings.json."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    simulations: Simulations = 100
    """Simulations per move of each network (AlphaZero's Figure 1: 1 second per move)."""
    points: Annotated[int, Meta(ge=2, le=1000)] = 12
    """How many networks of the run to rate: the first, the newest, and others spread evenly between."""
    watch: bool = False
    """Keep rating new weights as they come, until Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class ScalingConfig(RateConfig):
    """Rates one network at 1, 2, 4 ... simulations per move against itself and fixed players. The results are
    kept in scaling.json, in the run's folder or beside the weights file."""

    network: Positional[str]
    """A run, by its folder or its name in --runs (its newest network is taken), or a weights file."""
    simulations: Simulations = 256
    """Most simulations per move; the network is rated at 1, 2, 4, ... and this number. With 1 it plays the
    first choice of its policy."""


def ladder() -> int:
    """Entry point of `azplay ladder`."""
    settings = load(LadderConfig, command="azplay ladder", examples=LADDER_EXAMPLES)
    aio.run(Ladder(settings).run)
    return int(Exit.OK)


def scaling() -> int:
    """Entry point of `azplay scaling`."""
    settings = load(ScalingConfig, command="azplay scaling", examples=SCALING_EXAMPLES)
    aio.run(Scaling(settings).run)
    return int(Exit.OK)


WATCH_SECONDS = 20.0
"""Seconds between two looks for newer weights."""

HEADINGS = ("player", "step", "games before", "hours", "Elo", "95 %", "games", "score")


class Ladder:
    """One run's ladder: the players on it, and the rounds of rating and printing."""

    def __init__(self, settings: LadderConfig) -> None:
        from azselfplay.games import get_game
        from azselfplay.play.nets import search_name, settings_for_search

        self._run = run_named(settings.run, settings.runs)
        self._game = get_game(str(self._run.describe()["game"]))
        self._settings = settings
        # All networks of a run have the same search.
        any_network = self._run.weights / "any"
        self._search = search_name(settings_for_search(settings.search, self._game, any_network))
        self._session = Session(self._game, settings, self._run.path / "ratings.json")

    async def run(self, stop: aio.Stop) -> None:
        """Rate once, or with --watch until a signal."""
        from azselfplay.play.book import Gone, networks_at, points_of

        settings, book = self._settings, self._session.book
        async with contextlib.aclosing(self._session):
            while True:
                players = self.players()
                try:
                    await self._session.play(players, stop)
                except Gone as gone:
                    # The server removes old weights while we rate; games of the other networks are kept.
                    print(f"{gone}: choosing again", file=sys.stderr)
                    continue
                networks = networks_at(book.players.values(), settings.simulations, self._search)
                self._session.report(networks)
                newest = players[-1].entrant.sha256
                watches = settings.watch and not stop.finishing.is_set()
                while watches and points_of(self._run)[-1].sha256 == newest:
                    await aio.first_of(stop.finishing, seconds=WATCH_SECONDS)
                    watches = not stop.finishing.is_set()
                if not watches:
                    return

    def players(self) -> list[Candidate]:
        """Return the networks to rate now, in the order of training."""
        from azselfplay.play.book import names_of, network, points_of, thinned

        how = self._settings.simulations, self._search
        found = points_of(self._run)
        played = {name for score in self._session.book.scores() for name in (score.first, score.second)}
        # Networks that have games are preferred, so that a longer ladder extends a shorter one.
        rated = {point.sha256 for point in found if network(point, *how).entrant.name in played}
        players = [network(point, *how) for point in thinned(found, self._settings.points, rated)]
        print(f"rating {', '.join(names_of(players))}, search {self._search}", file=sys.stderr)
        return players


class Scaling:
    """Rates one network at many numbers of simulations."""

    def __init__(self, settings: ScalingConfig) -> None:
        from azselfplay.games import get_game
        from azselfplay.play.book import network
        from azselfplay.play.nets import search_name, settings_for_search
        from azselfplay.play.strength import SCALING

        # The network is chosen once, because an ongoing run has a newer one an hour later.
        point, name, folder = find_network(settings.network, settings.runs)
        game = get_game(name)
        self._sha256 = point.sha256
        self._search = search_name(settings_for_search(settings.search, game, point.path))
        most = settings.simulations
        counts = sorted({1 << power for power in range(most.bit_length())} | {most})
        self._networks = [network(point, count, self._search) for count in counts]
        self._session = Session(game, settings, folder / SCALING)

    async def run(self, stop: aio.Stop) -> None:
        """Play the missing games and print the table."""
        from azselfplay.play.book import Gone, searches_of

        try:
            async with contextlib.aclosing(self._session):
                await self._session.play(self._networks, stop)
        except Gone as gone:
            raise Fatal(
                f"{gone}; start again to rate the network that is newest now", Exit.TRY_AGAIN
            ) from gone
        # The file may also hold games of other networks.
        self._session.report(searches_of(self._session.book.players.values(), self._sha256, self._search))


def find_network(network: str | Path, runs: Path = RUNS) -> tuple[Point, str, Path]:
    """Return `(network, game, folder for the results)` for the network that a run plays, or for a weights
    file.

    Raises Fatal(BAD_DATA) if `network` is neither.
    """
    from azselfplay.play.book import Point, points_of
    from azselfplay.play.nets import meta_of

    path = weights_named(network, runs)
    meta = meta_of(path)
    # Links are resolved, because the real folder says to which run the file belongs.
    full = path.resolve()
    run_folder = full.parent.parent
    # If the file belongs to a run, its results go into the run's folder, beside those of other networks.
    is_of_run = full.parent.name == "weights" and (run_folder / "run.json").exists()
    points = points_of(RunFolder(run_folder.parent, run_folder.name)) if is_of_run else []
    known = [(point.games_before, point.hours) for point in points if point.path.name == full.name]
    before, hours = known[0] if known else (None, None)
    sha256 = hashlib.sha256(read_weights(path)).hexdigest()
    point = Point(full, meta.version, meta.step, before, hours, sha256)
    return point, meta.game, run_folder if is_of_run else full.parent


class Session:
    """Rates players into one file of results. `aclose` when done."""

    def __init__(
        self, game: Game, settings: RateConfig, file: Path, fixed: dict[str, float] | None = None
    ) -> None:
        """`fixed`: Elo of the players with fixed ratings; if not given, all measured players are fixed.

        Raises Fatal(TRY_AGAIN) if another process rates into the file: it would overwrite these games.
        """
        from azselfplay.play.book import Book, anchor, anchors_of, fixed_ratings
        from azselfplay.play.runner import MatchSettings
        from azselfplay.play.tournament import Matches

        specs = anchors_of(settings.anchors, game)
        self.anchors = [anchor(spec) for spec in specs]
        self.fixed = fixed_ratings(specs, game) if fixed is None else fixed
        # All games must share these settings to be on the same scale.
        shared = {"openings": settings.openings, "max_plies": settings.max_plies, "seed": settings.seed}
        self._lock: RunLock | None = None
        try:
            self._lock = RunLock(file.with_suffix(".lock"))
        except BlockingIOError as error:
            raise Fatal(f"another process rates into {file} at this moment", Exit.TRY_AGAIN) from error
        except OSError:
            pass  # nothing can be written there, but ratings can be shown
        self.book = Book(file, game.name, shared)
        how = MatchSettings(2 * PAIRING_OPENINGS, settings.max_plies, seed=settings.seed)
        self.matches = Matches(
            game, settings.openings, how, device=settings.device, threads=settings.threads, runs=settings.runs
        )
        self._settings = settings

    async def aclose(self) -> None:
        await self.matches.close()
        if self._lock is not None:
            self._lock.close()

    async def play(self, players: Sequence[Candidate], stop: aio.Stop) -> None:
        """Play the missing games. Raises Gone if a weights file was removed."""
        from azselfplay.play.book import names_of
        from azselfplay.play.bradley_terry import chain_of
        from azselfplay.play.tournament import Goal, play_on

        stop.waits_for = "the pairing that is being played"
        everyone = [*self.anchors, *players]
        # Enter the players before any game, because results in the book refer to them.
        self.book.enter(one.entrant for one in everyone)
        self.matches.candidates = {one.entrant.name: one for one in everyone}
        settings = self._settings
        goal = Goal(settings.games, PAIRING_OPENINGS, len(self.matches.openings))
        names = names_of(self.anchors), names_of(players)
        play, is_over = self.matches.play, stop.finishing.is_set
        await play_on(self.book, [*names[0], *names[1]], chain_of(*names), self.fixed, goal, play, is_over)

    def report(self, networks: Sequence[Entrant]) -> dict[str, Rating]:
        """Print a table of all rated players: `networks` in the given order, and the fixed players. Returns
        all ratings."""
        ratings = self.book.fit(self.fixed).ratings
        fixed = [player for player in self.book.players.values() if player.version is None]
        rows: list[Sequence[str]] = [HEADINGS]
        for player in (one for one in (*networks, *fixed) if one.name in ratings):
            rating = ratings[player.name]
            rows.append(
                [
                    player.label,
                    "-" if player.step is None else f"{player.step:,}",
                    "-" if player.games_before is None else f"{player.games_before:,}",
                    "-" if player.hours is None else f"{player.hours:.2f}",
                    f"{rating.elo:.0f}",
                    f"± {rating.margin:.0f}" if rating.margin else "fixed",
                    f"{rating.games:,}",
                    f"{rating.points / rating.games:.1%}" if rating.games else "-",
                ]
            )
        print(aligned(rows), flush=True)
        print(f"kept in {self.book.path}", file=sys.stderr, flush=True)
        return ratings


CALIBRATE_EXAMPLES = (
    "python -m azselfplay.play.ladder connect_four --games 2000",
    "python -m azselfplay.play.ladder chess --games 1000 --folder /tmp/calibration",
    "python -m azselfplay.play.ladder tic_tac_toe --anchors random,greedy,alphabeta:2",
)


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig(RateConfig):
    """Measures the fixed players of a game against each other; `random` is 0."""

    game: Positional[str]
    """Name of the game, as listed above."""
    games: int = 2000
    """Games of each player, on average."""
    folder: str = "."
    """Folder of GAME-anchors.json, which keeps the games."""


def main() -> int:
    """Entry point of `python -m azselfplay.play.ladder`."""
    settings = load(CalibrateConfig, command="calibrate", examples=CALIBRATE_EXAMPLES)
    aio.run(lambda stop: calibrate(settings, stop))
    return int(Exit.OK)


async def calibrate(settings: CalibrateConfig, stop: aio.Stop) -> None:
    """Play until every player has its games, then print the ratings in the form of the table in
    `games/GAME/knowledge.py`."""
    from azselfplay.play.book import ZERO
    from azselfplay.play.nets import game_for

    file = Path(settings.folder) / f"{settings.game}-anchors.json"
    # Only `random` is fixed here, because all other players are measured.
    session = Session(game_for(settings.game), settings, file, {ZERO: 0.0})
    async with contextlib.aclosing(session):
        await session.play([], stop)
    ratings = session.report([])
    print({name: round(ratings[name].elo) for name in session.book.players if name in ratings})


if __name__ == "__main__":
    raise SystemExit(guarded(main))
