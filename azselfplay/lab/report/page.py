"""The page of `azplay report`: one HTML file with everything in it, readable offline and without scripts.

`collect` reads all that the page needs, and only reads, so the run may go on meanwhile; `page` writes it
down. A report is also for runs that went wrong: what is missing or damaged is left out, and the notes at the
end count it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from azselfplay.diagnostics.advice import link_to
from azselfplay.diagnostics.alerts import NEWEST_GAMES, SMALLEST_STRETCH, Alert, Signs, find_alerts, is_judged
from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.knowledge import knowledge_of
from azselfplay.games.spec import Game, State
from azselfplay.host.reading import read_json
from azselfplay.host.runs import RunFolder, shown_settings
from azselfplay.lab.report.charts import (
    Chart,
    Rated,
    rating_charts,
    read_ratings,
    result_charts,
    sample_charts,
    speed_chart,
    svg_uri,
    training_charts,
)
from azselfplay.lab.report.curves import History, read_history
from azselfplay.lab.report.figures import Binned, Sample, read_bins, take_sample
from azselfplay.lab.report.stored_games import RESULTS, plies, versions
from azselfplay.store.reader import Range, StoreReader
from protocol.records import BadRecord

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:1280px;margin:1.5rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid #ddd}
h3{font-size:1rem;margin:.2rem 0}.when{color:#666;margin:.2rem 0 1rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:1rem}
figure{margin:0;padding:.6rem;border:1px solid #e2e2e2;border-radius:6px}figure img{width:100%}
figcaption,.caption{color:#555;font-size:.85rem}
table{border-collapse:collapse;font-size:.9rem}td,th{padding:.15rem .8rem .15rem 0}
td,th{text-align:left;vertical-align:top}
td+td{overflow-wrap:anywhere}td+td,th+th{font-variant-numeric:tabular-nums}
.facts{columns:3 340px}.facts>div{break-inside:avoid;margin-bottom:1rem}
.alert{border-left:5px solid #b2452f;background:#fbeeea;padding:.5rem .8rem;margin:.5rem 0}
.well{border-left:5px solid #3a9d5d;background:#eef7f0;padding:.5rem .8rem}
.boards{display:flex;flex-wrap:wrap;gap:1rem}.boards>div{max-width:240px}.board{width:230px}
.moves{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}pre{font-size:14px;line-height:1.2}
"""

UNJUDGED = (
    f"The games were not judged: alerts need {SMALLEST_STRETCH} games in one bin, most of them by trained "
    "weights. Read this page again when there are more games, and give --games at least that number."
)

NAMES = {"versions": "weights versions that played", "weights_age": "versions that games are behind"}
"""Names for figures whose own name is unclear."""

MOMENTS = 100
"""Moments between which games per hour are counted."""

PICTURES = 3
"""Boards per game, evenly spread, the last one after the last move."""

MOVES = 400
"""Most moves printed."""


# ---- What is read -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A game for the page."""

    title: str
    moves: str
    boards: list[tuple[str, str]]
    """(caption, HTML)"""


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
    rated: Rated
    games: list[Shown]
    alerts: list[Alert]


def collect(run: RunFolder, games: StoreReader, per_bin: int) -> Report:
    """Read everything, with at most `per_bin` whole records from each bin of versions. Raises Fatal(BAD_DATA)
    if run.json is damaged."""
    history = read_history(run)
    binned = read_bins(games)
    sample = take_sample(games, binned, per_bin)
    figures = run.read_figures()
    reuse = history.rows[-1].get("trainer/samples_per_position") if history.rows else None
    stretches = [sums.stretch for sums in sample.bins]
    # As the trainer last reported it, so that all tools agree; if it never did, counted from the files.
    lag = history.rows[-1].get("trainer/weights_age") if history.rows else None
    if lag is None:
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
            newest = int(read_json(run.weights / "current.json")["version"])
            played = [one.version_max for one in games.rows(Range(newest=NEWEST_GAMES), with_data=False)]
            if len(played) == NEWEST_GAMES:
                lag = max(0, newest - statistics.median_low(played))
    signs = Signs(get_game(games.game), stretches, history.lessons(), lag, reuse)
    # A report is also for runs that went wrong: without a run.json, what the store knows must do.
    about = run.describe() if run.about.is_file() else {"game": games.game}
    low, high = games.span()
    numbers = sorted({low + (high - low) * at // MOMENTS for at in range(MOMENTS + 1)})
    sql = f"SELECT seq, received_at FROM games WHERE seq IN ({','.join('?' * len(numbers))}) ORDER BY seq"
    times = [(int(seq), float(when)) for seq, when in games.query(sql, *numbers)]
    return Report(
        run, about, shown_settings(run.config), figures, history, binned, sample, times,
        read_ratings(run.path / "ratings.json"), sample_games(games), find_alerts(signs),
    )  # fmt: skip


def sample_games(games: StoreReader) -> list[Shown]:
    """The first, the middle and the newest game, skipping damaged ones."""
    low, high = games.span()
    wanted = sorted({low, (low + high) // 2, high}) if high else []
    names = {low: "first", high: "newest"}
    game, found = get_game(games.game), []
    for stored in games.numbered(wanted):
        moves, boards = [], []
        try:
            record = stored.record(game)
            game_history = GameHistory(game, record.start, record.max_plies)
            after = {-(-record.plies * (at + 1) // PICTURES) for at in range(PICTURES)}  # rounded up, from 1
            for number, ply in enumerate(plies(game, record, game_history), 1):
                moves.append(ply.move)
                if number in after:
                    caption = f"after ply {number}, {ply.move}; the mover's root value was {ply.value:+.2f}"
                    boards.append((caption, picture(game, game_history.state, ply.move)))
        except (BadRecord, ValueError):  # `azplay games verify` says what is wrong with it
            continue
        title = (
            f"Game {stored.seq} ({names.get(stored.seq, 'middle')}): {RESULTS.get(stored.outcome, '?')} by "
            f"{stored.reason.replace('_', ' ')}, {stored.plies} plies, weights {versions(stored)}"
        )
        text = " ".join(moves[:MOVES]) + (" ..." if len(moves) > MOVES else "")
        found.append(Shown(title, text, boards))
    return found


def picture(game: Game, state: State, move: str) -> str:
    """HTML of a board: an image if the game has one, else text. state  [state_words]"""
    svg = knowledge_of(game).svg
    if svg is None:
        return f"<pre>{escape(game.notation.render(state))}</pre>"
    alt = escape(game.notation.state_to_text(state))
    return f'<img class="board" alt="{alt}" src="{svg_uri(svg(state, move))}">'


# ---- What is shown ------------------------------------------------------------------------------


def page(report: Report) -> str:
    """The whole page as HTML."""
    name, read = escape(report.run.name), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    bins = report.binned.bins
    of_games = ["<h2>Games</h2>", "<p>No game is finished yet.</p>"]
    if bins:
        by_bin = [*result_charts(bins), *sample_charts(report.binned, report.sample)]
        of_games = _section("Games", [*by_bin, *speed_chart(report.times)])
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="when">{escape(str(report.about["game"]))}, read {read}</p>',
        "<h2>Alerts</h2>",
        _alerts(report),
        "<h2>The run</h2>",
        _facts(report),
        *_section("Strength", rating_charts(report.rated)),
        *_section("Training", training_charts(report.history)),
        *of_games,
        "<h2>Sample games</h2>" if report.games else "",
    ]
    for game in report.games:
        boards = [
            f'<div>{board}<div class="caption">{escape(text)}</div></div>' for text, board in game.boards
        ]
        parts.append(
            f'<h3>{escape(game.title)}</h3><div class="boards">{"".join(boards)}</div>'
            f'<p class="moves">{escape(game.moves)}</p>'
        )
    sampled = sum(one.games for one in report.sample.bins)
    notes = [
        f"Results, ends and lengths count all {sum(one.games for one in bins):,} games. The other charts of "
        f"games were made from {sampled:,} of them, evenly spread over {len(bins)} bins of weights versions.",
        "A game in which several weights versions played counts for the newest.",
        "Games whose records do not say how far the search moves away from the network are left out there.",
    ]
    if report.sample.damaged:
        notes.append(f"{report.sample.damaged} damaged games were left out: azplay games RUN verify.")
    if report.history.damaged:
        notes.append(f"{report.history.damaged} lines of figures.jsonl could not be read.")
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    parts.append(f'<h2>Notes</h2><ul class="caption">{items}</ul>')
    head = f'<meta charset="utf-8"><title>{name}</title><style>{STYLE}</style>'
    head += '<meta name="viewport" content="width=device-width">'
    body = "\n".join(part for part in parts if part)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _alerts(report: Report) -> str:
    unjudged = "" if any(is_judged(sums.stretch) for sums in report.sample.bins) else UNJUDGED
    if not report.alerts:
        said = unjudged or "None. docs/troubleshooting.md describes all alerts."
        return f'<p class="{"alert" if unjudged else "well"}">{said}</p>'
    found = "\n".join(
        f'<div class="alert"><h3>{escape(one.name)}</h3>{escape(one.seen)}.<br>'
        f"<b>What to do:</b> {escape(one.first)}.<br>"
        f"<b>Likely cause:</b> {escape(one.cause)}.<br><b>What else to change:</b> {escape(one.change)}. "
        f"<b>More:</b> {escape(link_to(one.name))}.</div>"
        for one in report.alerts
    )
    return f"<p>{unjudged}</p>\n{found}" if unjudged else found


def _facts(report: Report) -> str:
    settings = dict(report.settings)
    play = settings.pop("self_play", {})
    # Alerts have a place of their own.
    figures = {
        key: one for key, one in report.figures.items() if key != "alerts" and one not in (None, "", {})
    }
    tables = (
        ("Made", report.about),
        ("The trainer's last figures", figures),
        ("Settings", settings),
        ("Self-play", play),
    )
    shown = []
    for title, rows in tables:
        lines = "".join(
            f"<tr><td>{escape(NAMES.get(key, key.replace('_', ' ')))}</td><td>{escape(_text(one))}</td></tr>"
            for key, one in rows.items()
        )
        if lines:
            shown.append(f"<div><h3>{escape(title)}</h3><table>{lines}</table></div>")
    return f'<div class="facts">{"".join(shown)}</div>'


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_text(one)}" for key, one in value.items()) or "-"
    if isinstance(value, bool) or value is None or value == "":
        return {True: "yes", False: "no", None: "-", "": "-"}[value]
    return f"{value:,}" if isinstance(value, int) and value >= 100_000 else str(value)


def _section(title: str, charts: Sequence[Chart]) -> list[str]:
    if not charts:
        return []
    figures = "\n".join(
        f'<figure><h3>{escape(one.title)}</h3><img alt="{escape(one.title)}" src="{one.source}">'
        f"<figcaption>{escape(one.caption)}</figcaption></figure>"
        for one in charts
    )
    return [f"<h2>{escape(title)}</h2>", f'<div class="charts">{figures}</div>']
