"""`azplay ladder RUN`: the networks of a run and some fixed players on one scale, Elo over training."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.rating.rate_config import RateConfig, check, same_for_all
from runtime import aio, config
from runtime.exits import Exit, Fatal

if TYPE_CHECKING:
    from evaluation.rating.entrants import Candidate
    from evaluation.rating.tournament import Goal

EXAMPLES = (
    "azplay ladder runs/chess-tiny                         # rate, print, draw; again: only what is missing",
    "azplay ladder runs/chess-tiny --points 20 --games 200 --simulations 400 --device cuda:0",
    "azplay ladder runs/chess-tiny --watch                 # beside the trainer, new weights as they come",
)


@dataclass(frozen=True)
class LadderConfig(RateConfig):
    """What is rated, and how well."""

    simulations: int = 100
    """Of each network, per move (AlphaZero's Figure 1: 1 second a move)."""
    points: int = 12
    """Networks of the run to rate: the first, the newest, an even spread between."""
    watch: bool = False
    """Go on with new weights as they come, until Ctrl-C."""
    watch_seconds: float = 20.0
    """Time between two looks into the folder of weights."""


def main() -> int:
    """Entry point of `azplay ladder`."""
    from evaluation.rating.arguments import take_path

    argv = sys.argv[1:]
    path = take_path(argv, "RUN", "azplay ladder RUN: a run folder, for example runs/chess-tiny")
    settings = config.load(
        LadderConfig,
        argv,
        command="azplay ladder RUN",
        examples=EXAMPLES,
        description="Rates networks of a run against each other and against fixed players: Elo with 95 % "
        "intervals over steps, games and hours. Results are kept in RUN/ratings.json; plots go to RUN/plots. "
        "RUN: a run folder.",
    )
    check(settings)
    for name, low, high in (("simulations", 1, 20_000), ("points", 2, 1000), ("watch_seconds", 0.1, 86_400)):
        if not low <= getattr(settings, name) <= high:
            raise Fatal(f"--{name.replace('_', '-')} must lie between {low} and {high}", Exit.CONFIG)
    ladder = Ladder(Path(path), settings)
    aio.run(ladder.run)
    return int(Exit.OK)


class Ladder:
    """One run's ladder: who is on it, and the rounds of rating, printing and drawing."""

    def __init__(self, path: Path, settings: LadderConfig) -> None:
        from engine.search_choice import run_search
        from evaluation.rating.anchors import anchors_of, fixed_ratings
        from evaluation.rating.book import Book
        from evaluation.rating.entrants import anchor
        from evaluation.rating.matches import Matches
        from evaluation.rating.points import open_run
        from games import get_game

        self._run = open_run(path)
        self._game = get_game(str(self._run.describe()["game"]))
        self._settings = settings
        self._search = run_search(self._run, settings.search, self._game)
        specs = anchors_of(settings.anchors, self._game)
        self._anchors = [anchor(spec) for spec in specs]
        self._fixed = fixed_ratings(specs, self._game)
        self._book = Book(self._run.path / "ratings.json", self._game.name, same_for_all(settings))
        self._matches = Matches(self._game, settings)

    async def run(self, stop: aio.Stop) -> None:
        """Rate once, or with --watch until a signal."""
        from evaluation.rating.entrants import Gone

        stop.waits_for = "the pairing that is being played"
        try:
            while True:
                players = self._players()
                try:
                    await self._rate(players, stop)
                except Gone as gone:
                    print(f"{gone}: choosing again", file=sys.stderr)
                    continue
                self._report()
                if not self._settings.watch or await self._nothing_new(players, stop):
                    return
        finally:
            await self._matches.close()

    def _players(self) -> list[Candidate]:
        """The networks to rate now, in the order of training."""
        from evaluation.rating.entrants import names_of, network
        from evaluation.rating.points import points_of, thinned

        found, simulations, search = points_of(self._run), self._settings.simulations, self._search
        played = {name for score in self._book.scores() for name in (score.first, score.second)}
        rated = {
            point.sha256 for point in found if network(point, simulations, search).entrant.name in played
        }
        chosen = thinned(found, self._settings.points, rated)
        players = [network(point, simulations, search) for point in chosen]
        print(f"rating {', '.join(names_of(players))}, search {search}", file=sys.stderr)
        return players

    async def _rate(self, players: list[Candidate], stop: aio.Stop) -> None:
        from evaluation.rating.entrants import names_of
        from evaluation.rating.plan import chain_of
        from evaluation.rating.tournament import play_on

        everyone = [*self._anchors, *players]
        self._book.enter(one.entrant for one in everyone)
        self._matches.expect(everyone)
        chain = chain_of(names_of(self._anchors), names_of(players))
        await play_on(
            self._book,
            names_of(everyone),
            chain,
            self._fixed,
            self._goal(),
            self._matches.play,
            stop.finishing.is_set,
        )

    def _goal(self) -> Goal:
        from evaluation.rating.tournament import Goal

        settings = self._settings
        return Goal(settings.games, settings.pairing_openings, len(self._matches.openings))

    async def _nothing_new(self, players: list[Candidate], stop: aio.Stop) -> bool:
        """Wait for newer weights than those of `players`. True when a signal came instead."""
        from evaluation.rating.points import points_of

        newest = players[-1].entrant.sha256
        while not stop.finishing.is_set():
            if points_of(self._run)[-1].sha256 != newest:
                return False
            try:
                await asyncio.wait_for(stop.finishing.wait(), self._settings.watch_seconds)
            except TimeoutError:
                continue
        return True

    def _report(self) -> None:
        """Print the table and draw the figure of all that is rated at this number of simulations."""
        from evaluation.rating.entrants import networks_at
        from evaluation.rating.plots import draw_ladder
        from evaluation.rating.report import anchor_lines, anchors_in, ladder_points, table

        ratings = self._book.fit(self._fixed).ratings
        networks = networks_at(self._book.players.values(), self._settings.simulations, self._search)
        print(table([*networks, *anchors_in(self._book)], ratings), flush=True)
        folder = Path(self._settings.out) if self._settings.out else self._run.path / "plots"
        games = sum(score.games for score in self._book.scores())
        per_move = f"{self._settings.simulations} simulations a move ({self._search})"
        title = f"{self._run.name}: {self._game.name}, {per_move}, {games:,} rated games"
        drawn = draw_ladder(
            folder, title, ladder_points(networks, ratings), anchor_lines(self._book, ratings)
        )
        print(f"kept in {self._book.path}, drawn in {drawn[0]}", file=sys.stderr, flush=True)
