"""`azplay openings RUN`: how often common human openings are played in self-play, over training.

The game names its openings (`games.knowledge`). A game of self-play counts for an opening if it begins with
the same moves in the same order. Where a game names none, each first move is an opening.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.view import aligned
from azselfplay.link.finding import RUNS, run_named
from azselfplay.play.elo import wilson

if TYPE_CHECKING:
    from azselfplay.games.spec import Game
    from azselfplay.store.reader import StoreReader

EXAMPLES = (
    "azplay openings runs/chess-tiny               # table, and runs/chess-tiny/plots/openings.png",
    "azplay openings runs/chess-tiny --bins 40",
    "azplay openings runs/chess-tiny --out /tmp/plots",
)

COLUMNS = 4
"""Panels in a row of the figure."""

HEADINGS = ("opening", "games", "share", "95 %")


@dataclass(frozen=True)
class OpeningsConfig:
    """Share of the self-play games that begin with each of a game's common openings (chess: AlphaZero's
    Table 2), by the weights that played them; in games without named openings, with each first move."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    runs: Path = RUNS
    """Folder of all runs."""
    bins: Annotated[int, Meta(ge=1, le=1000)] = 20
    """Ranges of weights versions, of about as many games each."""
    out: str = ""
    """Folder of the plots; empty: RUN/plots."""


def main() -> int:
    """Entry point of `azplay openings`."""
    return report(load(OpeningsConfig, command="azplay openings", examples=EXAMPLES))


def report(settings: OpeningsConfig) -> int:
    """Print the table and draw the figure. Fatal(BAD_DATA) if there are no games."""
    from azselfplay.games import get_game
    from azselfplay.store.reader import Range, StoreReader

    run = run_named(settings.run, settings.runs)
    game = get_game(str(run.describe()["game"]))
    openings = openings_of(game)
    if not run.games.exists():
        raise Fatal(f"the run {run.path} has no games yet; wait for the first ones", Exit.BAD_DATA)
    reader = StoreReader(run.games)
    bins = binned(_played(reader, game, openings), settings.bins)
    if not bins:
        what = f"{run.games} has no games from the usual start yet whose first moves were searched"
        raise Fatal(f"{what}; wait for some", Exit.BAD_DATA)
    print(table(bins, list(openings)))
    games = sum(one.games for one in bins)
    simulations = next(record.simulations for _, record in reader.sound(game, Range()))
    title = f"{run.name}: {game.name}, {games:,} self-play games, {simulations} simulations a move"
    folder = Path(settings.out) if settings.out else run.path / "plots"
    for written in draw_openings(folder, title, bins, list(openings)):
        print(f"wrote {written}", file=sys.stderr)
    return int(Exit.OK)


def _played(
    reader: StoreReader, game: Game, openings: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[int, str | None]]:
    """`(version at the first move, opening)` of every game from the usual start whose first moves were all
    searched: moves drawn at random, or from the bare policy, are not the search's choice."""
    from azselfplay.store.reader import Range

    longest = max(len(moves) for moves in openings.values())
    for number, (_, record) in enumerate(reader.sound(game, Range()), 1):
        if number % 20_000 == 0:
            print(f"{number:,} games read", file=sys.stderr)
        if not record.start and record.visited[:longest].all():
            yield int(record.versions[0]), opening_in(record.actions[:longest].tolist(), openings)


@dataclass(frozen=True)
class Bin:
    """Games begun by a range of weights versions."""

    first_version: int
    last_version: int
    games: int
    counts: dict[str, int]
    """Games by opening."""

    @property
    def middle(self) -> float:
        return (self.first_version + self.last_version) / 2


def openings_of(game: Game) -> dict[str, tuple[int, ...]]:
    """Names and actions of the openings that are counted in a game."""
    from azselfplay.games.game_history import GameHistory, replay
    from azselfplay.games.knowledge import knowledge_of

    named = knowledge_of(game).counted_openings
    if named:
        return {name: tuple(replay(game, "", moves.split()).actions) for name, moves in named.items()}
    game_history = GameHistory(game)
    texts = [
        (game.notation.action_to_text(game_history.state, int(a)), int(a))
        for a in game_history.legal_actions()
    ]
    return {f"first move {text}": (action,) for text, action in texts}


def opening_in(actions: Sequence[int], openings: Mapping[str, tuple[int, ...]]) -> str | None:
    """Name of the opening that a game begins with; of several the longest."""
    fitting = [name for name, moves in openings.items() if tuple(actions[: len(moves)]) == moves]
    return max(fitting, key=lambda name: len(openings[name]), default=None)


def binned(games: Iterable[tuple[int, str | None]], bins: int) -> list[Bin]:
    """`(weights version, opening)` of all games -> at most `bins` ranges with about equally many games.

    A version is never split, so early versions, which play many games, have bins of their own.
    """
    versions: dict[int, dict[str | None, int]] = {}
    for version, name in games:
        counts = versions.setdefault(version, {})
        counts[name] = counts.get(name, 0) + 1
    total = sum(sum(counts.values()) for counts in versions.values())
    found: list[list[int]] = []
    seen = 0
    for version in sorted(versions):
        if not found or seen * bins >= total * len(found):
            found.append([])
        found[-1].append(version)
        seen += sum(versions[version].values())
    ranges = []
    for group in found:
        named = Counter[str]()
        for version in group:
            named.update({name: number for name, number in versions[version].items() if name is not None})
        total = sum(sum(versions[version].values()) for version in group)
        ranges.append(Bin(group[0], group[-1], total, dict(named)))
    return ranges


def table(bins: Sequence[Bin], names: Sequence[str]) -> str:
    """Shares over the whole run, in its first and in its last bin, and the largest of any bin."""
    total = sum(one.games for one in bins)
    ends = [f"v{one.first_version}-{one.last_version}" for one in (bins[0], bins[-1])]
    rows = [[*HEADINGS, *ends, "most"]]
    for name in names:
        count = sum(one.counts.get(name, 0) for one in bins)
        low, high = wilson(count, total)
        shares = [one.counts.get(name, 0) / one.games for one in bins]
        cells = [f"{count:,}", f"{count / total:.2%}", f"{low:.2%} - {high:.2%}"]
        rows.append([name, *cells, *(f"{share:.2%}" for share in (shares[0], shares[-1], max(shares)))])
    named = sum(sum(one.counts.values()) for one in bins)
    rows.append(["any other", f"{total - named:,}", f"{1 - named / total:.2%}", "", "", "", ""])
    return aligned(rows)


def draw_openings(folder: Path, title: str, bins: Sequence[Bin], names: Sequence[str]) -> list[Path]:
    """One panel per opening: its share of the games over training, with 95 % intervals.

    Each panel has its own scale from 0, because shares differ by factors of a hundred.
    """
    from azselfplay.play.plots import BLUE, new_figure, save

    rows = -(-len(names) // COLUMNS)
    figure, panels = new_figure(rows, COLUMNS, (14, 1.2 + 2.5 * rows))
    figure.suptitle(title)
    middles = [one.middle for one in bins]
    for index, panel in enumerate(panels.flat):
        if index >= len(names):
            panel.set_visible(False)
            continue
        counts = [one.counts.get(names[index], 0) for one in bins]
        shares = [100 * count / one.games for count, one in zip(counts, bins, strict=True)]
        limits = [wilson(count, one.games) for count, one in zip(counts, bins, strict=True)]
        low, high = [100 * one[0] for one in limits], [100 * one[1] for one in limits]
        panel.fill_between(middles, low, high, color=BLUE, alpha=0.2, linewidth=0, label="95 % interval")
        panel.plot(middles, shares, color=BLUE, marker="o", markersize=3, label="share of the games")
        panel.set_title(names[index], fontsize=10)
        panel.grid(visible=True, color="#dddddd", linewidth=0.6)
        panel.set_ylim(0, max(1.0, 1.05 * max(high)))
        if index % COLUMNS == 0:
            panel.set_ylabel("share of games [%]")
        if index + COLUMNS >= len(names):
            panel.set_xlabel("weights version at the first move")
    panels[0][0].legend(loc="best", fontsize=8)
    return save(figure, folder, "openings")
