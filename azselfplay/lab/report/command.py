"""`azplay report RUN`: one page on how a run is going."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.finding import RUNS

EXAMPLES = (
    "azplay report runs/chess-tiny                         # writes runs/chess-tiny/report.html",
    "azplay report chess-tiny --out /tmp/chess.html",
    "azplay report chess-tiny --runs /data/runs            # the run /data/runs/chess-tiny",
)


@dataclass(frozen=True)
class ReportConfig:
    """Writes one HTML page about a run, also while it goes on: curves, results, values, sample games,
    alerts."""

    run: Positional[str]
    """Folder of a run, or its name in --runs."""
    runs: Path = RUNS
    """Folder of all runs."""
    out: Path | None = None
    """File to write. Not given: report.html in the run's folder."""


def main() -> int:
    """Entry point. Returns the exit status."""
    config = load(ReportConfig, command="azplay report", examples=EXAMPLES)
    from azselfplay.diagnostics.advice import with_advice
    from azselfplay.host.runs import RunFolder, write_atomically
    from azselfplay.store.reader import open_games

    with closing(open_games(config.run, config.runs)) as games:
        from azselfplay.lab.report.page import alerts_of, page  # slow to import, so only once there is a run

        folder = games.path.resolve().parent
        run = RunFolder(folder.parent, folder.name)
        alerts = alerts_of(run)
        text = page(run, games, alerts)
    out = config.out or folder / "report.html"
    try:
        # A browser may be reloading the file at this moment.
        write_atomically(out, text.encode())
    except OSError as error:
        raise Fatal(f"cannot write {out}: {error.strerror}; choose another --out", Exit.DISK) from error
    # Print alerts for scripts, which do not read the page.
    for alert in alerts or ():
        print(f"ALERT {with_advice(alert)}", file=sys.stderr)
    print(out)
    return int(Exit.OK)
