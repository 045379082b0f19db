"""A stretch: sums over consecutive finished games, for alerts, figures and reports. `RootSums` measures how
far the searches at the roots differ from the network's own policy and value. It counts only policy targets,
and leaves out figures that clients of other projects do not report.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from azselfplay.games.stubs import Signs
from protocol.records import POLICY_TARGET, SEARCH_DIFFERS, GameRecord

SATURATED = 0.99
"""A root value whose magnitude exceeds this says that the game is decided."""

END_PLIES = 4
"""Number of plies at the end of a game whose values do not count, because a search that sees the mate is
rightly certain."""

OPENINGS = (10, 20)
"""Lengths of openings in plies; a shorter game counts as an opening as a whole."""

PERCENTILES = (10, 50, 90)


FIGURES = ("kl", "entropy", "top_share", "moves", "differs", "value_shift", "mean_depth")
"""Means over policy targets: KL(visits || priors) and entropy of the visits, nats; share of the visits that
the most visited move has; moves with visits (or with a share of the improved policy); whether the most
visited move did not have the largest prior; |value of the search - value of the network|; mean depth of the
simulations, plies."""


class RootSums:
    """Sums over the policy targets of some games."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = dict.fromkeys(FIGURES, 0.0)
        """Sums by the names of FIGURES."""
        self.counts: dict[str, int] = dict.fromkeys(FIGURES, 0)
        """Targets of which each figure is known."""
        self.deepest = 0
        """Depth of the deepest simulation of all, plies (not a sum)."""

    def add(self, record: GameRecord) -> None:
        """Count one more game."""
        targets = np.flatnonzero(record.flags & POLICY_TARGET)
        # Visits are stored one ply after the other: the ply of each, and its share of that ply's visits.
        owner = np.repeat(np.arange(record.plies), record.visited)
        visits = record.visits.astype(np.float64)
        shares = visits / np.bincount(owner, visits, record.plies)[owner]
        entropies = np.bincount(owner, -shares * np.log(shares), record.plies)
        largest = np.zeros(record.plies)
        # `maximum.at`, because many moves belong to one ply.
        np.maximum.at(largest, owner, shares)
        # The KL divergence is NaN if a record does not report it.
        kl = record.prior_kl[targets]
        differs = np.where(np.isnan(kl), np.nan, record.flags[targets] & SEARCH_DIFFERS != 0)
        shifts = np.abs(record.root_values[targets] - record.prior_values[targets].astype(np.float64))
        others = record.visited[targets], differs, shifts, record.mean_depths[targets]
        for name, column in zip(FIGURES, (kl, entropies[targets], largest[targets], *others), strict=True):
            values = np.asarray(column, np.float64)
            self.totals[name] += float(np.nansum(values))
            self.counts[name] += int(np.count_nonzero(~np.isnan(values)))
        self.deepest = max(self.deepest, int(record.max_depths[targets].max(initial=0)))

    def means(self) -> dict[str, float | None]:
        """Return the means by name; None where nothing is known."""
        means = {
            name: self.totals[name] / self.counts[name] if self.counts[name] else None for name in FIGURES
        }
        return {**means, "max_depth": float(self.deepest) if self.counts["mean_depth"] else None}


class Variety:
    """How different games are from each other: their lengths and openings."""

    def __init__(self) -> None:
        self.lengths: Counter[int] = Counter()
        """Games by plies."""
        self._openings: dict[int, set[int]] = {plies: set() for plies in OPENINGS}
        """Hashes of the start position and the first moves, by length."""

    def add(self, record: GameRecord) -> None:
        """Count one more game."""
        self.lengths[record.plies] += 1
        for plies, seen in self._openings.items():
            # Store hashes, because the moves of a stretch of long games would take megabytes.
            seen.add(hash((record.start, record.actions[:plies].tobytes())))

    def percentile(self, percent: int) -> int:
        """Return the shortest length that at least `percent` % of the games do not exceed; 0 without
        games."""
        # Count in hundredths of a game: integers avoid rounding errors.
        left = percent * self.lengths.total()
        for plies, games in sorted(self.lengths.items()):
            left -= 100 * games
            if left <= 0:
                return plies
        return 0

    def unique(self, plies: int) -> float:
        """Return the number of different openings of `plies` plies, as a share of the games."""
        return len(self._openings[plies]) / max(1, self.lengths.total())


@dataclass
class Stretch:
    """Sums over some games."""

    games: int = 0
    draws: int = 0
    """Draws of any kind, including games that reach the ply cap."""
    plies: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Games by how they ended."""
    values: int = 0
    """Root values of searches, without those of the last END_PLIES plies of each game."""
    saturated: int = 0
    """Values beyond SATURATED."""
    saturated_wrong: int = 0
    """Saturated values that named another result than the game's."""
    untrained: int = 0
    """Games that began with untrained weights (version 0)."""
    roots: RootSums = field(default_factory=RootSums)
    variety: Variety = field(default_factory=Variety)

    def add(self, record: GameRecord, movers: Signs) -> None:
        """Count one more game; `movers` int8[plies]: +1 where the first player moves, else -1."""
        self.games += 1
        self.draws += record.outcome == 0
        self.plies += record.plies
        self.reasons[record.reason] += 1
        # The first ply counts, because new weights may come in the middle of a game.
        self.untrained += int(record.versions[0]) == 0
        self.roots.add(record)
        self.variety.add(record)
        # Plies without a search have no value.
        searched = record.visited[: max(0, record.plies - END_PLIES)] > 0
        values = record.root_values[: len(searched)]
        sure = np.flatnonzero(searched & (np.abs(values) > SATURATED))
        self.values += int(np.count_nonzero(searched))
        self.saturated += len(sure)
        if len(sure):
            # Convert the signs to the first player's view, like the outcome.
            said = np.sign(values[sure]) * movers[sure]
            self.saturated_wrong += int(np.count_nonzero(said != record.outcome))

    def share(self, reason: str) -> float:
        """Return the share of the games that ended by `reason`."""
        return self.reasons[reason] / max(1, self.games)

    @property
    def draw_share(self) -> float:
        return self.draws / max(1, self.games)

    @property
    def mean_plies(self) -> float:
        return self.plies / max(1, self.games)

    @property
    def saturated_share(self) -> float:
        return self.saturated / max(1, self.values)

    @property
    def wrong_share(self) -> float:
        """Share of the saturated values that were wrong."""
        return self.saturated_wrong / max(1, self.saturated)

    def figures(self, lag: int | None) -> dict[str, Any]:
        """Return figures by the names of docs/protocol.md; unknown figures are None, and all are None without
        games.

        lag: how many weights versions the newest games are behind.
        """
        # Without games a share would be 0, but it is unknown: None.
        known, variety = self.games > 0, self.variety
        lengths = {f"p{percent}": variety.percentile(percent) if known else None for percent in PERCENTILES}
        openings = {f"ply_{plies}": rounded(variety.unique(plies)) if known else None for plies in OPENINGS}
        return {
            "search": {name: rounded(figure) for name, figure in self.roots.means().items()},
            "root_values": {
                "sure": rounded(self.saturated_share) if known else None,
                "sure_wrong": rounded(self.wrong_share) if known else None,
            },
            "lengths": lengths,
            "unique_openings": openings,
            "weights_age": lag,
        }


def rounded(figure: float | None) -> float | None:
    """Round to five decimals; None stays None."""
    return None if figure is None else round(figure, 5)
