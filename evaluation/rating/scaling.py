"""`azplay scaling RUN|WEIGHTS`: what search is worth, Elo over simulations per move.

The idea of AlphaZero's Figure 2, with simulations in the place of thinking time.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.rating.rate_config import RateConfig, check, same_for_all
from runtime import aio, config
from runtime.exits import Exit, Fatal
from runtime.weights_files import short_hash

if TYPE_CHECKING:
    from evaluation.rating.points import Point

EXAMPLES = (
    "azplay scaling runs/chess-tiny                        # the newest network at 1, 2, 4 ... 256",
    "azplay scaling runs/chess-tiny --simulations 1600 --games 200 --device cuda:0",
    "azplay scaling runs/chess-tiny/weights/000045-1a2b3c4d.safetensors --out /tmp/plots",
)


@dataclass(frozen=True)
class ScalingConfig(RateConfig):
    """How far the search goes, and how well it is measured."""

    simulations: int = 256
    """Most simulations a move; rated at 1, 2, 4, ... and this. With 1 the first choice of the policy is
    played."""


def main() -> int:
    """Entry point of `azplay scaling`."""
    from evaluation.rating.arguments import take_path

    argv = sys.argv[1:]
    usage = "azplay scaling RUN or WEIGHTS: a run folder (its newest network) or a .safetensors file"
    path = take_path(argv, "RUN or WEIGHTS", usage)
    settings = config.load(
        ScalingConfig,
        argv,
        command="azplay scaling RUN|WEIGHTS",
        examples=EXAMPLES,
        description="Rates one network at 1, 2, 4 ... simulations a move against itself and fixed players. "
        "Results are kept in scaling.json in the run (or beside the file), plots in plots/ there. "
        "RUN|WEIGHTS: a run folder, whose newest network is taken, or a weights file.",
    )
    check(settings)
    if not 1 <= settings.simulations <= 20_000:
        raise Fatal("--simulations must lie between 1 and 20000", Exit.CONFIG)
    scaling = Scaling(Path(path), settings)
    aio.run(scaling.run)
    return int(Exit.OK)


class Scaling:
    """One network at many numbers of simulations."""

    def __init__(self, path: Path, settings: ScalingConfig) -> None:
        from engine.search_choice import search_for, search_name
        from evaluation.rating.anchors import anchors_of, fixed_ratings
        from evaluation.rating.book import Book
        from evaluation.rating.entrants import anchor, doublings, network
        from evaluation.rating.matches import Matches
        from games import get_game

        self._settings = settings
        point, game, self._folder = find_network(path)
        self._game = get_game(game)
        self._sha256 = point.sha256
        self._search = search_name(search_for(settings.search, self._game, point.path))
        self._title = (
            f"{self._folder.name}: {game}, network v{point.version} (step {point.step:,}), {self._search}"
        )
        specs = anchors_of(settings.anchors, self._game)
        self._fixed = fixed_ratings(specs, self._game)
        self._anchors = [anchor(spec) for spec in specs]
        self._networks = [network(point, count, self._search) for count in doublings(settings.simulations)]
        self._book = Book(self._folder / "scaling.json", game, same_for_all(settings))
        self._matches = Matches(self._game, settings)

    async def run(self, stop: aio.Stop) -> None:
        """Play what is missing, print the table, draw the figure."""
        from evaluation.rating.entrants import Gone, names_of
        from evaluation.rating.plan import chain_of
        from evaluation.rating.tournament import Goal, play_on

        stop.waits_for = "the pairing that is being played"
        everyone = [*self._anchors, *self._networks]
        self._book.enter(one.entrant for one in everyone)
        self._matches.expect(everyone)
        settings = self._settings
        goal = Goal(settings.games, settings.pairing_openings, len(self._matches.openings))
        chain = chain_of(names_of(self._anchors), names_of(self._networks))
        play, over = self._matches.play, stop.finishing.is_set
        try:
            await play_on(self._book, names_of(everyone), chain, self._fixed, goal, play, over)
        except Gone as gone:
            raise Fatal(
                f"{gone}; start again to rate the network that is newest now", Exit.TRY_AGAIN
            ) from gone
        finally:
            await self._matches.close()
        self._report()

    def _report(self) -> None:
        from evaluation.rating.entrants import searches_of
        from evaluation.rating.plots import draw_scaling
        from evaluation.rating.report import anchor_lines, anchors_in, search_points, table

        ratings = self._book.fit(self._fixed).ratings
        networks = searches_of(self._book.players.values(), self._sha256, self._search)
        print(table([*networks, *anchors_in(self._book)], ratings), flush=True)
        folder = Path(self._settings.out) if self._settings.out else self._folder / "plots"
        points = search_points(networks, ratings)
        names = {one.name for one in networks}
        games = sum(score.games for score in self._book.scores() if names & {score.first, score.second})
        title = f"{self._title}, {games:,} games of {len(points)} searches"
        drawn = draw_scaling(
            folder, f"scaling-{short_hash(self._sha256)}", title, points, anchor_lines(self._book, ratings)
        )
        print(f"kept in {self._book.path}, drawn in {drawn[0]}", file=sys.stderr, flush=True)


def find_network(path: Path) -> tuple[Point, str, Path]:
    """`(network, game, folder for the results)` of a run's newest weights, or of a weights file.

    Raises Fatal(BAD_DATA) if `path` is neither.
    """
    from evaluation.rating.points import Point, head, open_run, points_of

    if path.is_dir():
        run = open_run(path)
        return points_of(run)[-1], str(run.describe()["game"]), run.path
    from net.weights import BadWeights, read_meta

    try:
        meta = read_meta(head(path))
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except (BadWeights, OSError) as error:
        raise Fatal(f"{path} is neither a run folder nor a weights file: {error}", Exit.BAD_DATA) from error
    full = path.resolve()
    run_folder = full.parent.parent
    inside = full.parent.name == "weights" and (run_folder / "run.json").exists()
    point = Point(full, meta.version, meta.step, None, 0.0, sha256)
    return point, meta.game, run_folder if inside else full.parent
