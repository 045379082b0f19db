"""The messages of azrun: events as they happen, where to look, and what to do next."""

import signal
import sys
from pathlib import Path

import pytest

from azselfplay.host.exits import Exit
from azselfplay.host.runs import RunFolder
from azselfplay.lab import azrun_texts
from azselfplay.lab.azplay import COMMANDS
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.lab.azrun_texts import FRESH, Failures, Milestones
from server.metrics import Preparing

FIGURES = {"games": 1200, "step": 50, "weights_version": 3}
PLAYING = {"workers": 1, "clients": 0, "trainer": True}


def test_each_event_is_told_once_in_its_order() -> None:
    told = Milestones()
    assert told.lines({"sessions": {}, "weights_version": 0}) == []
    assert told.lines({"sessions": PLAYING, "weights_version": 0, "trainer": {"waiting_for": "games"}}) == [
        "self-play has begun",
        "the trainer is there, and waits for games",
    ]
    trained = {"games": 1200, "step": 50, "policy_loss": 1.5, "value_loss": 0.5}
    after = {"sessions": PLAYING, "weights_version": 1, "trainer": trained}
    assert told.lines(after) == [
        "the first games are finished and stored: 1,200",
        "training has begun: step 50",
        "weights 1 play now: 1,200 games, step 50, loss 1.500 (policy) and 0.500 (value)",
    ]
    assert told.lines(after) == []


def test_an_alert_is_told_once_with_what_to_do_although_its_figures_change() -> None:
    told = Milestones()
    told.lines({"sessions": PLAYING})
    first = {"sessions": PLAYING, "trainer": {"alerts": ["repetitions: 40%"]}}
    again = {"sessions": PLAYING, "trainer": {"alerts": ["repetitions: 41%", "of a newer trainer: 0.1"]}}
    assert told.lines(first) == [
        "ALERT repetitions: 40%. What to do: double self_play.moves.temperature_plies of azserver. "
        "More: docs/troubleshooting.md#repetitions"
    ]
    assert told.lines(again) == ["ALERT of a newer trainer: 0.1"]


@pytest.mark.parametrize(
    ("runs", "said"), [(Path("runs"), "chess-1"), (Path("/data/runs"), "/data/runs/chess-1")]
)
def test_the_end_names_commands_with_the_paths_of_this_run(runs: Path, said: str, monkeypatch) -> None:
    """The azplay commands that are named exist and accept the run as it is written."""
    monkeypatch.setattr(azrun_texts.shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/azrun", "--run", "chess-1", "--runs", str(runs)])
    settings = RunConfig(run="chess-1", runs=runs)
    done, where, *lines = azrun_texts.ending(settings, RunFolder(runs, "chess-1"), {"trainer": FIGURES})
    assert done == "Ended. 1,200 games and 50 training steps are stored. The newest weights are version 3."
    assert f"is in {runs}/chess-1" in where
    assert len(lines) == 3
    *looking, again = [line.split("   ")[0].split() for line in lines]
    for program, command, run, *_ in looking:
        assert (program, run) == ("azplay", said)
        assert command in COMMANDS
    assert again == ["azrun", "--run", "chess-1", "--runs", str(runs)]


def test_the_end_says_how_many_games_wait_in_the_spools(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    for name in ("1.game", "rejected/2.game"):  # the second was refused, and does not wait
        path = folder.spool / "client" / "0" / name
        path.parent.mkdir(parents=True)
        path.touch()
    told, *_ = azrun_texts.ending(RunConfig(runs=tmp_path, run="run"), folder, {})
    said = "Ended. No game was stored yet. Finished games that wait on disk until the run goes on: 1."
    assert told == said


def test_a_time_that_was_too_short_is_called_so_and_nobody_plays_the_untrained_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/azrun", "--minutes", "1", "--run", "run"])
    figures = {"trainer": {"games": 30, "step": 0}}
    settings = RunConfig(runs=tmp_path, run="run", minutes=1)
    lines = azrun_texts.ending(settings, RunFolder(tmp_path, "run"), figures)
    assert "1 minute was too short for training to begin" in lines[1]
    assert not any("azplay" in line for line in lines)
    assert "continue it" in lines[-1]
    assert lines[-1].split("   ")[0].split()[1:] == ["--minutes", "1", "--run", "run"]


def test_the_beginning_says_where_the_pages_of_its_own_server_are(tmp_path: Path) -> None:
    settings = RunConfig(runs=tmp_path, run="run", web=8123)
    lines = azrun_texts.beginning(settings, RunFolder(tmp_path, "run"), 1)
    assert "To watch it: http://127.0.0.1:8123/run/run" in lines


@pytest.mark.parametrize("process", [b"trainer", b"trainer rank 1"])
def test_an_error_is_told_once_and_is_over_when_training_has_gone_on(process: bytes) -> None:
    failures = Failures()
    line = b"2026-11-25 18:00:00 E " + process + b"  games are NOT being stored: full\n"
    assert failures.on_output("trainer", line[:30], 0.0, 5) == []
    assert failures.on_output("trainer", line[30:], 0.0, 5) == ["trainer: games are NOT being stored: full"]
    assert failures.on_output("trainer", line, 9.0, 5) == []
    assert failures.current(10.0) == {"trainer": "games are NOT being stored: full"}
    assert failures.of_training(10.0, 5, 0) is not None
    assert failures.of_training(10.0, 6, 0) is None
    assert failures.current(10.0 + FRESH) == {}


def test_a_part_that_ends_badly_when_asked_has_failed_whatever_was_trained_before() -> None:
    """Its last games, weights and checkpoint may be missing."""
    failures = Failures()
    failures.ended("trainer", Exit.DISK, "no space", 0.0, 5, asked=True)
    assert failures.of_training(1.0, 99, 0) == ("trainer: exit 74 (DISK): no space", Exit.DISK)
    failures = Failures()
    failures.ended("trainer", -signal.SIGTERM, "", 0.0, 5, asked=True)
    assert failures.of_training(1.0, 5, 0) is None


def test_all_that_workers_wait_for_at_a_start_is_told_with_the_seconds_so_far() -> None:
    told, preparing = Milestones(), Preparing()
    preparing.begin("preparing the search", 0.0)
    lines = told.lines(preparing.as_dict(1.0))
    preparing.end(6.0)
    lines += told.lines(preparing.as_dict(7.0))
    load = "the evaluators load the network"
    preparing.begin(load, 10.0)
    lines += told.lines(preparing.as_dict(12.0))
    preparing.end(30.0)
    lines += told.lines(preparing.as_dict(31.0))
    assert lines == ["preparing the search", "ready after 6 s", load, "ready after 26 s"]
