"""Results by weights version. A game in which several versions played counts for the newest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from store.reader import StoreReader


@dataclass
class Results:
    """Results of the games of one weights version."""

    outcomes: Counter[int] = field(default_factory=Counter)
    """Games by outcome for the first player."""
    reasons: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    plies: int = 0

    @property
    def games(self) -> int:
        return self.outcomes.total()

    def add(self, source: str, outcome: int, reason: str, plies: int, games: int) -> None:
        self.outcomes[outcome] += games
        self.reasons[reason] += games
        self.sources[source] += games
        self.plies += plies


def count(games: StoreReader) -> dict[int, Results]:
    """Results by weights version, oldest first."""
    found: defaultdict[int, Results] = defaultdict(Results)
    rows = games.query(
        "SELECT version_max, source, outcome, reason, sum(plies), count(*) FROM games "
        "GROUP BY version_max, source, outcome, reason"
    )
    for version, source, outcome, reason, plies, number in rows:
        found[version].add(source, outcome, reason, plies, number)
    return dict(sorted(found.items()))


def table(by_version: Mapping[int, Results]) -> Iterator[str]:
    """Lines of text; the last one is for all versions together."""
    yield (
        f"{'weights':>8} {'games':>8} {'first':>7} {'draw':>7} {'second':>7} {'plies':>7} "
        f"{'workers':>8} {'clients':>8}  ends"
    )
    together = Results()
    for version, results in by_version.items():
        yield _row(str(version), results)
        together.outcomes += results.outcomes
        together.reasons += results.reasons
        together.sources += results.sources
        together.plies += results.plies
    yield _row("all", together)


def _row(name: str, results: Results) -> str:
    games = max(1, results.games)
    first, draw, second = (f"{100 * results.outcomes[outcome] / games:.1f}%" for outcome in (1, 0, -1))
    ends = ", ".join(f"{reason} {number}" for reason, number in results.reasons.most_common())
    return (
        f"{name:>8} {results.games:8} {first:>7} {draw:>7} {second:>7} {results.plies / games:7.1f} "
        f"{results.sources['workers']:8} {results.sources['clients']:8}  {ends}"
    )
