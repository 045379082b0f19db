"""`azplay report RUN`: one page on how a run is going."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from runtime.config import load
from runtime.exits import Exit, Fatal

EXAMPLES = (
    "azplay report runs/chess-tiny                         # writes runs/chess-tiny/report.html",
    "azplay report chess-tiny --out /tmp/chess.html",
    "azplay report chess-tiny --games 1000                 # more games a bin: slower, less noise",
)
MOST_GAMES = 100_000


@dataclass(frozen=True)
class ReportConfig:
    """One HTML page on a run, also while it goes on: curves, results, values, sample games, alerts."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    runs: Path = Path("runs")
    """Folder of all runs."""
    out: Path | None = None
    """File to write; not given: report.html in the run's folder."""
    games: int = 200
    """Games read whole in each of about 24 bins of weights versions."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(
        ReportConfig, command="azplay report", examples=EXAMPLES, description=ReportConfig.__doc__ or ""
    )
    if not 1 <= config.games <= MOST_GAMES:
        raise Fatal(f"--games must lie between 1 and {MOST_GAMES}", Exit.CONFIG)
    from report.collecting import collect
    from report.page import page
    from runtime.runs import RunFolder
    from store.reader import open_games

    with closing(open_games(config.run, config.runs)) as games:
        folder = games.path.resolve().parent
        report = collect(RunFolder(folder.parent, folder.name), games, config.games)
    out = config.out or folder / "report.html"
    _write(out, page(report))
    for alert in report.alerts:
        print(f"ALERT {alert}", file=sys.stderr)
    print(out)
    return int(Exit.OK)


def _write(path: Path, text: str) -> None:
    from runtime.runs import write_atomically

    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise Fatal(f"cannot write {path}: {error.strerror}; choose another --out", Exit.DISK) from error
