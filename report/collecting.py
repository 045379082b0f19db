"""Reads everything that a report needs. It only reads, so the run may continue meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diagnostics.alerts import Alert, Signs, find_alerts
from games import get_game
from report.bins import Binned, read_bins
from report.boards import Shown, sample_games
from report.history import History, read_history
from report.ratings import Rated, read_ratings
from report.sampling import Sample, take_sample
from runtime.reading import read_json
from runtime.runs import RunFolder, shown_settings
from store.reader import Range, StoreReader

MOMENTS = 100
"""Moments between which games per hour are counted."""
NEWEST_GAMES = 100
"""Newest games, whose weights are compared with the current ones."""


@dataclass(frozen=True)
class Report:
    """A run at the time of reading."""

    run: RunFolder
    about: Mapping[str, Any]
    """run.json"""
    settings: Mapping[str, Any]
    """config.toml"""
    figures: Mapping[str, Any]
    """figures.json of the trainer."""
    history: History
    binned: Binned
    sample: Sample
    times: list[tuple[int, float]]
    """(game, time of arrival in seconds since 1970) of some games, oldest first."""
    rated: Rated | None
    games: list[Shown]
    alerts: list[Alert]


def collect(run: RunFolder, games: StoreReader, per_bin: int) -> Report:
    """Read everything, with at most `per_bin` whole records from each bin of versions."""
    history = read_history(run)
    binned = read_bins(games)
    sample = take_sample(games, binned, per_bin)
    figures = run.read_figures()
    reuse = history.rows[-1].get("trainer/samples_per_position") if history.rows else None
    stretches = [sums.stretch for sums in sample.bins]
    signs = Signs(get_game(games.game), stretches, history.lessons(), _lag(run, games, history), reuse)
    return Report(
        run, _about(run, games), shown_settings(run.config), figures, history, binned, sample, _times(games),
        read_ratings(run.path / "ratings.json"), sample_games(games), find_alerts(signs),
    )  # fmt: skip


def _about(run: RunFolder, games: StoreReader) -> dict[str, Any]:
    """run.json, or what the store knows if there is none, because a report is also for runs that went wrong.

    Raises Fatal(BAD_DATA) if run.json is damaged.
    """
    return run.describe() if run.about.is_file() else {"game": games.game}


def _lag(run: RunFolder, games: StoreReader, history: History) -> float | None:
    """How many weights versions the newest games are behind, as last reported by the trainer, so that all
    tools agree.

    If the trainer never reported it, it is counted from the files; None without weights or games.
    """
    said = history.rows[-1].get("trainer/weights_age") if history.rows else None
    if said is not None:
        return said
    try:
        newest = int(read_json(run.weights / "current.json")["version"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    played = [one.version_max for one in games.rows(Range(newest=NEWEST_GAMES), with_data=False)]
    return max(0, newest - statistics.median_low(played)) if len(played) == NEWEST_GAMES else None


def _times(games: StoreReader) -> list[tuple[int, float]]:
    low, high = games.span()
    numbers = sorted({low + (high - low) * at // MOMENTS for at in range(MOMENTS + 1)})
    places = ",".join("?" * len(numbers))
    sql = f"SELECT seq, received_at FROM games WHERE seq IN ({places}) ORDER BY seq"
    return [(int(seq), float(when)) for seq, when in games.query(sql, *numbers)]
