"""The whole loop as real processes: it trains, survives any death, and loses no acknowledged game."""

import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator

import pytest
from azrun_process import PATIENCE, Azrun
from process_marks import marked
from stranger import Ledger

pytestmark = pytest.mark.timeout(3600)


def pids(loop: Azrun, part: str) -> set[int]:
    """Return the processes of azrun whose command line has this pattern."""
    return {pid for pid, line in marked(loop.environment).items() if re.search(part, line)}


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azrun]:
    folder = tmp_path_factory.mktemp("loop")
    running = Azrun(folder, runs=folder / "runs", said=folder / "azrun.out")
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture(scope="module")
def ledger(loop: Azrun) -> Iterator[Ledger]:
    ledger = Ledger(loop.port)
    ledger.start()
    yield ledger
    ledger.finished.set()


def test_workers_and_clients_play_on_with_new_weights(loop, ledger):
    def both_play_on() -> bool:
        versions = loop.trained("versions", {})
        return versions.get("workers", 0) >= 3 and versions.get("clients", 0) >= 3

    loop.wait(both_play_on, "two new versions in games of workers and clients")
    assert loop.trained("step") > 0


@pytest.mark.parametrize(
    "victim",
    [
        *("server.evaluator", "server.main"),
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in ("-m trainer ", "client.main", "client.worker .*--role worker", "--role client")
        ),
    ],
)
def test_the_loop_goes_on_when_a_process_is_killed(loop, ledger, victim):
    """After a kill -9 a new process takes its place, and games of both kinds of player arrive again.

    Players and trainer are killed only in nightly tests: any child is restarted (host/test_processes.py), and
    trainers are killed at each point (faults/test_crash_points.py)."""
    loop.wait(lambda: pids(loop, victim), victim)
    before = pids(loop, victim)
    os.kill(min(before), signal.SIGKILL)
    loop.wait(lambda: pids(loop, victim) - before, f"a new {victim}")
    at_restart = loop.trained("games_by_source", {"workers": 0, "clients": 0})

    def both_arrive() -> bool:
        now = loop.trained("games_by_source", at_restart)
        return all(now[source] > at_restart[source] for source in ("workers", "clients"))

    loop.wait(both_arrive, f"games after the death of {victim}")
    handed_in = len(ledger.acknowledged)
    loop.wait(lambda: len(ledger.acknowledged) > handed_in, "another acknowledgement")


def test_it_stops_cleanly_and_every_acknowledged_game_is_in_the_store(loop, ledger):
    loop.wait(lambda: len(ledger.acknowledged) > 20, "acknowledged games")
    ledger.finished.set()
    ledger.join(PATIENCE)
    assert ledger.error is None
    loop.process.send_signal(signal.SIGINT)
    output, _ = loop.process.communicate(timeout=PATIENCE)
    summary = json.loads(output.splitlines()[-1])
    assert loop.process.returncode == 0
    database = sqlite3.connect(f"file:{loop.run}/games.db?mode=ro", uri=True)
    stored = [uid for (uid,) in database.execute("SELECT uid FROM games")]
    assert len(stored) == len(set(stored)) == summary["games"]
    current = json.loads((loop.run / "weights" / "current.json").read_bytes())
    assert current["step"] == summary["steps"], "the network as it was at the end"
    assert set(ledger.acknowledged) <= set(stored)
