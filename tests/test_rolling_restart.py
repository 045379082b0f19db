"""Every part is restarted in turn, under load: no game is lost or counted twice."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from parts import PATIENCE, RUN, Parts
from stranger import Ledger

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


def restart_evaluator(parts: Parts) -> None:
    before = parts.end_evaluator()

    def is_another() -> bool:
        try:
            return parts.evaluator() != before
        except (StopIteration, OSError):
            return False

    parts.wait(is_another, "another evaluator")


def restart(name: str) -> Callable[[Parts], None]:
    def restarted(parts: Parts) -> None:
        assert parts.end(name) == 0
        parts.begin(name)

    return restarted


PARTS = {
    "evaluator": restart_evaluator,
    "client": restart("client.main"),
    "trainer": restart("trainer"),
    "server": restart("server"),
}


def test_a_rolling_restart_under_load_loses_no_game_and_counts_none_twice(tmp_path: Path) -> None:
    with Parts(tmp_path) as parts:
        ledger = Ledger(parts.port)
        ledger.start()
        for name, restarted in PARTS.items():
            handed_in = len(ledger.acknowledged)
            parts.wait(lambda: len(ledger.acknowledged) > handed_in + 5, f"games before the {name}")  # noqa: B023
            restarted(parts)
            handed_in = len(ledger.acknowledged)
            parts.wait(lambda: len(ledger.acknowledged) > handed_in + 5, f"games after the {name}")  # noqa: B023
            by_source = parts.trained().get("games_by_source", {"workers": 0, "clients": 0})

            def both_play(before: dict[str, int] = by_source) -> bool:
                now = parts.trained().get("games_by_source", before)
                return all(now[source] > before[source] for source in before)

            parts.wait(both_play, f"games of workers and clients after the {name}")
        ledger.finished.set()
        ledger.join(PATIENCE)
        assert ledger.error is None
        steps = parts.trained()["step"]
        assert parts.end("client.main") == 0
        assert parts.end("trainer") == 0
    with sqlite3.connect(f"file:{parts.trainers}/{RUN}/games.db?mode=ro", uri=True) as database:
        stored = [uid for (uid,) in database.execute("SELECT uid FROM games")]
        refused = database.execute("SELECT code, reason FROM rejects").fetchall()
    assert steps > 0
    assert len(ledger.acknowledged) > 40
    assert len(stored) == len(set(stored))
    assert set(ledger.acknowledged) <= set(stored)
    assert refused == []
