"""Players rated on one scale: the networks of a run over training, or one network over simulations per move.

The latter follows AlphaZero's Figure 2, with simulations instead of thinking time.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.search_choice import run_search, search_for, search_name
from evaluation.rating import plots
from evaluation.rating.book import (
    Book,
    Candidate,
    Entrant,
    Gone,
    Rated,
    anchor,
    anchors_of,
    doublings,
    fixed_ratings,
    names_of,
    network,
    networks_at,
    searches_of,
)
from evaluation.rating.commands import LadderConfig, RateConfig, ScalingConfig
from evaluation.rating.matches import Matches
from evaluation.rating.points import Point, points_of, thinned
from evaluation.rating.tournament import Goal, chain_of, play_on
from games import get_game
from games.spec import Game
from net.weights import BadWeights, read_meta
from runtime.aio import Stop
from runtime.exits import Exit, Fatal
from runtime.finding import RUNS, run_named
from runtime.text_table import aligned
from runtime.weights_files import read_weights, short_hash

WATCH_SECONDS = 20.0
"""Between two looks for newer weights."""
HEADINGS = ("player", "step", "games before", "hours", "Elo", "95 %", "games", "score")


class Session:
    """Rates players into one file of results. `matches.close` when done."""

    def __init__(
        self, game: Game, settings: RateConfig, file: Path, fixed: dict[str, float] | None = None
    ) -> None:
        """`fixed`: Elo of the players with fixed ratings; not given: of all that were measured."""
        specs = anchors_of(settings.anchors, game)
        self.anchors = [anchor(spec) for spec in specs]
        self.fixed = fixed_ratings(specs, game) if fixed is None else fixed
        self.book = Book(file, game.name, settings.same_for_all())
        self.matches = Matches(game, settings)
        self._settings = settings

    async def play(self, players: Sequence[Candidate], stop: Stop) -> None:
        """Play the missing games. Raises Gone if a weights file was removed."""
        stop.waits_for = "the pairing that is being played"
        everyone = [*self.anchors, *players]
        self.book.enter(one.entrant for one in everyone)
        self.matches.expect(everyone)
        settings = self._settings
        goal = Goal(settings.games, settings.pairing_openings, len(self.matches.openings))
        names = names_of(self.anchors), names_of(players)
        play, is_over = self.matches.play, stop.finishing.is_set
        await play_on(self.book, [*names[0], *names[1]], chain_of(*names), self.fixed, goal, play, is_over)

    def report(self, networks: Sequence[Entrant]) -> tuple[list[Rated], list[Rated]]:
        """Print a table of all that have a rating. Returns what to draw: the networks in the order given, and
        the fixed players that `--anchors` names, or else those near the networks."""
        ratings = self.book.fit(self.fixed).ratings
        fixed = [player for player in self.book.players.values() if player.version is None]
        found = [
            [Rated(one, ratings[one.name]) for one in players if one.name in ratings]
            for players in (networks, fixed)
        ]
        print(aligned([HEADINGS, *(_row(one) for players in found for one in players)]), flush=True)
        return found[0], found[1] if self._settings.anchors else plots.in_sight(found[1], found[0])

    def drawn(self, files: Sequence[Path]) -> None:
        """Print where the results are."""
        print(f"kept in {self.book.path}, drawn in {files[0]}", file=sys.stderr, flush=True)


def _row(one: Rated) -> list[str]:
    player, rating = one
    return [
        player.label,
        "-" if player.step is None else f"{player.step:,}",
        "-" if player.games_before is None else f"{player.games_before:,}",
        "-" if player.hours is None else f"{player.hours:.2f}",
        f"{rating.elo:.0f}",
        f"± {rating.margin:.0f}" if rating.margin else "fixed",
        f"{rating.games:,}",
        f"{rating.points / rating.games:.1%}" if rating.games else "-",
    ]


class Ladder:
    """One run's ladder: who is on it, and the rounds of rating, printing and drawing."""

    def __init__(self, settings: LadderConfig) -> None:
        self._run = run_named(settings.run, settings.runs)
        self._game = get_game(str(self._run.describe()["game"]))
        self._settings = settings
        self._search = run_search(self._run, settings.search, self._game)
        self._session = Session(self._game, settings, self._run.path / "ratings.json")

    async def run(self, stop: Stop) -> None:
        """Rate once, or with --watch until a signal."""
        try:
            while True:
                players = self.players()
                try:
                    await self._session.play(players, stop)
                except Gone as gone:
                    print(f"{gone}: choosing again", file=sys.stderr)
                    continue
                self._report()
                if not self._settings.watch or await self._nothing_new(players, stop):
                    return
        finally:
            await self._session.matches.close()

    def players(self) -> list[Candidate]:
        """The networks to rate now, in the order of training."""
        how = self._settings.simulations, self._search
        found = points_of(self._run)
        played = {name for score in self._session.book.scores() for name in (score.first, score.second)}
        rated = {point.sha256 for point in found if network(point, *how).entrant.name in played}
        players = [network(point, *how) for point in thinned(found, self._settings.points, rated)]
        print(f"rating {', '.join(names_of(players))}, search {self._search}", file=sys.stderr)
        return players

    async def _nothing_new(self, players: list[Candidate], stop: Stop) -> bool:
        """Wait for newer weights than those of `players`. True when a signal came instead."""
        newest = players[-1].entrant.sha256
        while not stop.finishing.is_set():
            if points_of(self._run)[-1].sha256 != newest:
                return False
            try:
                await asyncio.wait_for(stop.finishing.wait(), WATCH_SECONDS)
            except TimeoutError:
                continue
        return True

    def _report(self) -> None:
        """Print the table and draw the figure of all networks rated at this number of simulations."""
        settings, book = self._settings, self._session.book
        networks = networks_at(book.players.values(), settings.simulations, self._search)
        rated, fixed = self._session.report(networks)
        games = sum(score.games for score in book.scores())
        title = (
            f"{self._run.name}: {self._game.name}, {settings.simulations} simulations a move "
            f"({self._search}), {games:,} rated games"
        )
        folder = Path(settings.out) if settings.out else self._run.path / "plots"
        self._session.drawn(plots.draw_ladder(folder, title, rated, fixed))


class Scaling:
    """One network at many numbers of simulations."""

    def __init__(self, settings: ScalingConfig) -> None:
        point, name, self._folder = find_network(settings.network, settings.runs)
        game = get_game(name)
        self._settings = settings
        self._sha256 = point.sha256
        self._search = search_name(search_for(settings.search, game, point.path))
        self._title = (
            f"{self._folder.name}: {name}, network v{point.version} (step {point.step:,}), {self._search}"
        )
        self._networks = [network(point, count, self._search) for count in doublings(settings.simulations)]
        self._session = Session(game, settings, self._folder / "scaling.json")

    async def run(self, stop: Stop) -> None:
        """Play what is missing, print the table, draw the figure."""
        try:
            await self._session.play(self._networks, stop)
        except Gone as gone:
            raise Fatal(
                f"{gone}; start again to rate the network that is newest now", Exit.TRY_AGAIN
            ) from gone
        finally:
            await self._session.matches.close()
        book = self._session.book
        networks = searches_of(book.players.values(), self._sha256, self._search)
        rated, fixed = self._session.report(networks)
        names = {one.name for one in networks}
        games = sum(score.games for score in book.scores() if names & {score.first, score.second})
        title = f"{self._title}, {games:,} games of {len(rated)} searches"
        folder = Path(self._settings.out) if self._settings.out else self._folder / "plots"
        name = f"scaling-{short_hash(self._sha256)}"
        self._session.drawn(plots.draw_scaling(folder, name, title, rated, fixed))


def find_network(network: str | Path, runs: Path = RUNS) -> tuple[Point, str, Path]:
    """`(network, game, folder for the results)` of a run's newest weights, or of a weights file.

    Raises Fatal(BAD_DATA) if `network` is neither.
    """
    path = Path(network)
    if not path.is_file():
        run = run_named(network, runs)
        return points_of(run)[-1], str(run.describe()["game"]), run.path
    try:
        data = read_weights(path)
        meta = read_meta(data)
    except BadWeights as error:
        raise Fatal(f"{path} is neither a run folder nor a weights file: {error}", Exit.BAD_DATA) from error
    full = path.resolve()
    run_folder = full.parent.parent
    is_of_run = full.parent.name == "weights" and (run_folder / "run.json").exists()
    point = Point(full, meta.version, meta.step, None, 0.0, hashlib.sha256(data).hexdigest())
    return point, meta.game, run_folder if is_of_run else full.parent
