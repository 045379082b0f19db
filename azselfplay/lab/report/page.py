"""The page of `azplay report`: one HTML file with everything in it, readable offline.

Curves and colours are those of `azplay web`: the file contains the same scripts and style, and the data for
the scripts as JSON. Everything else, from the alerts to the boards, is HTML. Nothing is changed, so the run
may go on meanwhile. A report must also work for runs that went wrong: missing or damaged parts are left out,
and notes at the end count them.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from azselfplay.diagnostics.advice import ADVICE, link_to
from azselfplay.diagnostics.alerts import LEAST_STEPS
from azselfplay.games import get_game
from azselfplay.games.game_history import GameHistory
from azselfplay.games.game_texts import display_moves
from azselfplay.games.knowledge import RESULTS, picture_of
from azselfplay.games.spec import Game, State
from azselfplay.host.runs import RunFolder, newest_row
from azselfplay.lab.report.curves import STEP, Curves
from azselfplay.lab.report.figures import Bin, by_version, merged
from azselfplay.lab.report.settings import settings_of
from azselfplay.lab.report.stored_games import plies, versions
from azselfplay.lab.report.strength import strength_of
from azselfplay.store.reader import StoreReader
from protocol.records import BadRecord

ASSETS = Path(__file__).parents[1] / "web" / "assets"

SCRIPTS = ("core", "chart", "strength", "curves", "settings", "report")
"""Scripts of the pages that draw the report, each after those that it imports."""

IN_MODULES = re.compile(r"^import .*\n|^export ", re.MULTILINE)
"""The imports and exports that a script needs only as a separate module."""

NAMES = {"versions": "weights versions that played", "weights_age": "versions that games are behind"}
"""Names for figures whose own name is unclear."""

PICTURES = 3
"""Number of boards per game, evenly spread, the last one after the last move."""

MOVES = 400
"""Most moves printed."""

THOUSAND = 1000
"""Numbers from this one on are written without decimals."""


# ---- What is read -------------------------------------------------------------------------------


def alerts_of(run: RunFolder) -> list[str] | None:
    """Return the newest alerts that the trainer has recorded; None: it has judged nothing yet."""
    newest = newest_row(run)
    alerts = newest.get("alerts")
    if not isinstance(alerts, list) or (not alerts and newest.get(STEP, 0) < LEAST_STEPS):
        return None
    return [str(alert) for alert in alerts]


def sample_games(games: StoreReader) -> Iterator[str]:
    """Yield HTML of the first, the middle and the newest game, skipping damaged ones."""
    low, high = games.span()
    wanted = sorted({low, (low + high) // 2, high}) if high else []
    names = {low: "first", high: "newest"}
    game = get_game(games.game)
    for stored in games.rows_of(wanted):
        boards = list[tuple[int, str, str]]()
        try:
            record = stored.record(game)
            game_history = GameHistory(game, record.start, record.max_plies)
            after = {-(-record.plies * (at + 1) // PICTURES) for at in range(PICTURES)}  # rounded up, from 1
            for number, ply in enumerate(plies(game, record, game_history), 1):
                if number in after:
                    value = "" if ply.value is None else f"; the mover's root value was {ply.value:+.2f}"
                    boards.append((number, value, picture(game, game_history.state, ply.move)))
        except (BadRecord, ValueError):  # `azplay games verify` says what is wrong with it
            continue
        by = f"imported: {record.source}" if record.is_imported else f"weights {versions(stored)}"
        title = (
            f"Game {stored.seq:,} ({names.get(stored.seq, 'middle')}): {RESULTS.get(stored.outcome, '?')} by "
            f"{stored.reason.replace('_', ' ')}, {stored.plies} plies, {by}"
        )
        moves = display_moves(game, game_history.states, game_history.actions)
        text = " ".join(moves[:MOVES]) + (" ..." if len(moves) > MOVES else "")
        drawn = "".join(
            f'<div>{board}<p class="note">after ply {number}, {escape(moves[number - 1] + value)}</p></div>'
            for number, value, board in boards
        )
        yield f'<h3>{escape(title)}</h3><div class="boards">{drawn}</div><p class="note">{escape(text)}</p>'


def picture(game: Game, state: State, move: str) -> str:
    """Return HTML of a board. state  [state_words]"""
    alt = escape(game.notation.state_to_text(state))
    drawn = base64.b64encode(picture_of(game)(state, move)).decode()
    return f'<img class="board" alt="{alt}" src="data:image/svg+xml;base64,{drawn}">'


# ---- What is shown ------------------------------------------------------------------------------


def page(run: RunFolder, games: StoreReader, alerts: list[str] | None) -> str:
    """Return the whole page as HTML. Its script draws the curves, from data in the page. Raises
    Fatal(BAD_DATA) if run.json is damaged."""
    curves = Curves(run.figures_log)
    with suppress(OSError):
        curves.refresh()
    bins = merged(by_version(games))
    # If run.json is missing, use what the store knows, because a report must also work for runs that went
    # wrong.
    about = run.describe() if run.about.is_file() else {"game": games.game}
    name, now = escape(run.name), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    notes = [
        f"Results and ends count all {sum(one.games for one in bins):,} games.",
        "A game in which several weights versions played counts for the newest.",
    ]
    if curves.damaged:
        notes.append(f"{curves.damaged:,} lines of figures.jsonl could not be read.")
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="state">{escape(str(about["game"]).replace("_", " "))}, read {now}</p>',
        "<h2>Alerts</h2>",
        _alerts(alerts),
        "<noscript><p>Scripts draw the charts, and are switched off here.</p></noscript>",
        '<section id="curves"></section>',
        "<h2>The games</h2>" if bins else "<h2>The games</h2><p>No game is finished yet.</p>",
        '<div id="games" class="grid"></div>',
        *sample_games(games),
        "<h2>The run</h2>",
        _facts(about, run.read_figures()),
        '<section id="settings"></section>',
        *(f'<p class="note">{escape(note)}</p>' for note in notes),
    ]
    shown = {
        "run": run.name,
        "history": {**curves.history(run.read_architecture()), "strength": strength_of(run)},
        "games": game_charts(bins) if bins else [],
        "settings": settings_of(run),
    }
    # Without `<`, the data cannot close the element around it.
    data = msgspec.json.encode(shown).replace(b"<", b"\\u003c").decode()
    body = "\n".join(parts)
    # Style and scripts of `azplay web` are included in the page, so that it is a single file.
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    # Modules in one file cannot import each other, so they are joined into one module.
    scripts = [IN_MODULES.sub("", (ASSETS / f"{one}.js").read_text(encoding="utf-8")) for one in SCRIPTS]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f'<body><main id="main">{body}</main>\n'
        f'<script type="application/json" id="data">{data}</script>\n'
        f'<script type="module">{"".join(scripts)}</script></body></html>\n'
    )


def _alerts(alerts: list[str] | None) -> str:
    if not alerts:
        known = "None. docs/troubleshooting.md describes all alerts."
        unknown = f"Not recorded: nothing is judged before training step {LEAST_STEPS:,}."
        return f'<p class="note">{unknown if alerts is None else known}</p>'
    found = []
    for alert in alerts:
        name, _, seen = alert.partition(": ")
        text = f"<h3>{escape(name)}</h3>{escape(seen)}."
        if (advice := ADVICE.get(name)) is not None:  # a newer trainer may know more alerts
            text += (
                f"<br><b>What to do:</b> {escape(advice.first)}.<br>"
                f"<b>Likely cause:</b> {escape(advice.cause)}.<br>"
                f"<b>What else to change:</b> {escape(advice.change)}. "
                f"<b>More:</b> {escape(link_to(name))}."
            )
        found.append(f'<div class="alert">{text}</div>')
    return "\n".join(found)


def _facts(about: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    # Alerts are shown in another place.
    told = {key: one for key, one in figures.items() if key != "alerts" and one not in (None, "", {})}
    shown = []
    for title, rows in (("Made", about), ("The trainer's last figures", told)):
        lines = "".join(
            f"<tr><td>{escape(NAMES.get(key, key.replace('_', ' ')))}</td><td>{escape(_text(one))}</td></tr>"
            for key, one in rows.items()
        )
        if lines:
            shown.append(f'<div class="scroll"><h3>{escape(title)}</h3><table>{lines}</table></div>')
    return f'<div class="facts">{"".join(shown)}</div>'


def _text(value: Any) -> str:
    """Return a figure as text, in the form of all pages."""
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_text(one)}" for key, one in value.items()) or "-"
    if isinstance(value, bool) or value is None or value == "":
        return {True: "yes", False: "no", None: "-", "": "-"}[value]
    if isinstance(value, float) and abs(value) < THOUSAND:
        return f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


# ---- Charts of the games: results and ends ----------------------------------------------------------


VERSIONS = "weights version"

COMMON = 6
"""Number of end reasons that get their own curve."""

OUTCOMES = {1: "first player wins", 0: "draw", -1: "second player wins"}


def game_charts(bins: Sequence[Bin]) -> list[dict[str, Any]]:
    """Return the charts, each with its `series` as `assets/chart.js` takes them."""
    versions = [one.last for one in bins]
    together: Counter[str] = sum((one.reasons for one in bins), Counter())
    common = [reason for reason, _ in together.most_common(COMMON)]
    outcomes = {name: [one.outcomes[key] / one.games for one in bins] for key, name in OUTCOMES.items()}
    ends = {reason.replace("_", " "): [one.reasons[reason] / one.games for one in bins] for reason in common}
    if len(together) > COMMON:
        ends["others"] = [1 - sum(one.reasons[reason] for reason in common) / one.games for one in bins]
    share = {"unit": "share of games", "percent": True, "x": VERSIONS}
    return [
        {
            **share,
            "title": "Results",
            "caption": "Of all games. Ever more draws may mean that learning stops.",
            "series": series({name: (versions, values) for name, values in outcomes.items()}),
        },
        {
            **share,
            "title": "Ends",
            "caption": "How all games end.",
            "series": series({name: (versions, values) for name, values in ends.items()}),
        },
    ]


def series(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> list[dict[str, Any]]:
    """Return the curves, (places, values) by label, with a colour and a dash pattern for each."""
    return [
        {"label": label, "xs": list(xs), "ys": list(ys), "colour": at, "dash": at}
        for at, (label, (xs, ys)) in enumerate(curves.items())
    ]
