"""Which opening a game of self-play has, and the share of each opening over training: table and figure.

The game names its openings (`games.knowledge`). A game of self-play counts for an opening if it begins with
the same moves in the same order. Where a game names none, each first move is an opening.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.match.elo import wilson
from evaluation.rating.plots import BLUE, new_figure, save
from games.game_history import GameHistory, replay
from games.knowledge import knowledge_of
from games.spec import Game
from runtime.text_table import aligned

COLUMNS = 4
"""Panels in a row of the figure."""
HEADINGS = ("opening", "games", "share", "95 %")


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
    return [_bin(group, versions) for group in found]


def _bin(group: list[int], versions: Mapping[int, Mapping[str | None, int]]) -> Bin:
    counts: dict[str, int] = {}
    for version in group:
        for name, games in versions[version].items():
            if name is not None:
                counts[name] = counts.get(name, 0) + games
    total = sum(sum(versions[version].values()) for version in group)
    return Bin(group[0], group[-1], total, counts)


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
