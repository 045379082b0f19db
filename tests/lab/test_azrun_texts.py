"""The messages of azrun: events as they happen, where to look, and what to do next."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from azselfplay.host.exits import Exit
from azselfplay.host.runs import RunFolder
from azselfplay.host.view import line
from azselfplay.lab import azrun_texts
from azselfplay.lab.azplay import COMMANDS
from azselfplay.lab.azrun_config import RunConfig
from azselfplay.lab.azrun_texts import FRESH, Milestones, Troubles, compile_seconds, warning
from azselfplay.search.warm import LEAST_SECONDS, Compiled
from server.config import ServerConfig

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


def test_compiling_is_told_when_it_begins_and_when_it_is_done() -> None:
    told = Milestones()
    compiling = {"preparing": "compiling search kernels for chess (first time ...)", "preparing_s": 1.0}
    assert told.lines({"sessions": {}, **compiling}) == [compiling["preparing"]]
    assert told.lines({"sessions": {}, **compiling, "preparing_s": 2.0}) == []
    assert told.lines({"sessions": {}, "preparing": "", "preparing_s": 41.6}) == [
        "the search is ready after 42 s"
    ]


def test_a_trainer_that_leaves_is_told_with_what_happens_to_the_games() -> None:
    told = Milestones()
    told.lines({"sessions": PLAYING})
    assert told.lines({"sessions": PLAYING | {"trainer": False}}) == [
        "the trainer is gone; finished games wait on disk until it is back"
    ]


def test_an_alert_is_told_once_although_its_figures_change() -> None:
    told = Milestones()
    told.lines({"sessions": PLAYING})
    first = {"sessions": PLAYING, "trainer": {"alerts": ["few decisive games: 3 %"]}}
    again = {"sessions": PLAYING, "trainer": {"alerts": ["few decisive games: 4 %", "entropy: 0.1"]}}
    assert told.lines(first) == ["ALERT few decisive games: 3 %"]
    assert told.lines(again) == ["ALERT entropy: 0.1"]


def test_a_run_that_goes_on_is_told_from_a_new_one() -> None:
    told = Milestones()
    assert told.lines({"weights_version": 7}) == ["goes on with weights 7"]
    assert told.lines({"weights_version": 7, "trainer": {"games": 1200, "step": 50}}) == [
        "1,200 games are stored from before",
        "training goes on from step 50",
    ]


def test_the_beginning_names_the_folder_and_what_comes(tmp_path: Path) -> None:
    settings = RunConfig(game="go_9x9", runs=tmp_path, minutes=5)
    text = "\n".join(azrun_texts.beginning(settings, RunFolder(tmp_path, "go_9x9-tiny"), 5600))
    assert str(tmp_path / "go_9x9-tiny") in text
    assert "Beginning the run go_9x9-tiny: go_9x9" in text
    assert "after 5 minutes" in text


def test_another_terminal_is_given_the_path_of_azplay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not have activated the environment that this shell has."""
    beside = tmp_path / "azplay"
    beside.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "azrun")])
    assert (azrun_texts.azplay(), azrun_texts.azplay(elsewhere=True)) == ("azplay", str(beside))


@pytest.mark.parametrize(
    ("runs", "said"), [(Path("runs"), "chess-1"), (Path("/data/runs"), "/data/runs/chess-1")]
)
def test_the_end_names_commands_with_the_paths_of_this_run(
    runs: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of azplay that are named exist, and they accept the run as it is written."""
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
    (folder.spool / "client" / "0").mkdir(parents=True)
    (folder.spool / "client" / "0" / "1.game").touch()
    told, *_ = azrun_texts.ending(RunConfig(runs=tmp_path, run="run"), folder, {})
    assert told == (
        "Ended. No game was stored yet. Finished games that wait on disk until the run goes on: 1."
    )


def test_a_run_that_goes_on_is_not_told_that_training_begins(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    folder.create("chess", 1)
    settings = RunConfig(runs=tmp_path, run="run", minutes=1)
    assert "training begins when" in "\n".join(azrun_texts.beginning(settings, folder, 5600))
    folder.write_figures({"step": 1200})
    text = "\n".join(azrun_texts.beginning(settings, folder, 5600))
    assert "training goes on from step 1,200" in text
    assert "compiled" not in text
    assert "after 1 minute;" in text


def test_a_time_that_was_too_short_is_called_so_and_nobody_plays_the_untrained_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/azrun", "--minutes", "1", "--run", "run"])
    figures = {"preparing_s": 41.2, "trainer": {"games": 30, "step": 0}}
    lines = azrun_texts.ending(
        RunConfig(runs=tmp_path, run="run", minutes=1), RunFolder(tmp_path, "run"), figures
    )
    assert "1 minute was too short for training to begin: getting the search ready took 41 s" in lines[1]
    assert not any("azplay" in line for line in lines)
    assert "continue it" in lines[-1]
    assert lines[-1].split("   ")[0].split()[1:] == ["--run", "run", "--minutes", "4"]


def test_a_run_that_ended_while_it_compiled_does_not_promise_that_all_of_that_is_saved(
    tmp_path: Path,
) -> None:
    figures = {"preparing": "compiling search kernels for hex", "preparing_s": 34.0}
    settings = RunConfig(runs=tmp_path, run="run", minutes=1)
    text = "\n".join(azrun_texts.ending(settings, RunFolder(tmp_path, "run"), figures))
    assert "it ended while the search was being compiled, after 34 s" in text
    assert "the next start compiles the others" in text


def test_a_time_that_compiling_will_mostly_take_is_warned_of_at_the_start() -> None:
    (line,) = warning(RunConfig(game="go_9x9", minutes=1), 40.0)
    assert "takes about 40 s here" in line
    assert "--minutes 4 leaves time" in line
    assert warning(RunConfig(minutes=5), 40.0) == warning(RunConfig(), 40.0) == []


def test_what_is_compiled_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ServerConfig(game="tic_tac_toe")
    monkeypatch.setattr(Compiled, "is_ready", False)
    assert compile_seconds(server) >= LEAST_SECONDS
    monkeypatch.setattr(Compiled, "is_ready", True)
    assert compile_seconds(server) == 0.0


def test_games_of_azserver_alone_are_called_so(tmp_path: Path) -> None:
    trainer = {"games": 30, "step": 4, "games_by_source": {"workers": 30, "clients": 0}}
    settings = RunConfig(runs=tmp_path, run="run", client_workers=1)
    lines = azrun_texts.ending(settings, RunFolder(tmp_path, "run"), {"trainer": trainer})
    assert "azclient starts after them, and has finished none yet" in lines[1]


def test_azplay_is_named_by_its_path_where_the_shell_would_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azrun_texts.shutil, "which", lambda _name, **_: None)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "azrun")])
    assert azrun_texts.azplay() == "azplay"
    (tmp_path / "azplay").touch(mode=0o755)
    assert azrun_texts.azplay() == str(tmp_path / "azplay")


def test_an_alert_says_what_to_do_and_where_to_read_on() -> None:
    told = Milestones()
    (line,) = told.lines({"trainer": {"alerts": ["repetitions: 40%"]}})
    assert line == (
        "ALERT repetitions: 40%. What to do: double --self-play.moves.temperature-plies of azserver. "
        "More: docs/troubleshooting.md#repetitions"
    )


def test_an_error_is_told_once_and_is_over_when_training_has_gone_on() -> None:
    troubles = Troubles()
    line = b"2026-11-25 18:00:00 E trainer  games are NOT being stored: full\n"
    assert troubles.said("trainer", line[:30], 0.0, 5) == []
    assert troubles.said("trainer", line[30:], 0.0, 5) == ["trainer: games are NOT being stored: full"]
    assert troubles.said("trainer", line, 9.0, 5) == []
    assert troubles.current(10.0) == {"trainer": "games are NOT being stored: full"}
    assert troubles.of_training(10.0, 5, 0) is not None
    assert troubles.of_training(10.0, 6, 0) is None
    assert troubles.current(10.0 + FRESH) == {}


def test_an_error_in_a_log_of_json_lines_is_found() -> None:
    line = b'{"level": "error", "event": "the disk is full"}\n{"level": "info", "event": "x"}\n{"a": 1}\n'
    assert Troubles().said("server", line, 0.0, 0) == ["server: the disk is full"]


def test_a_part_that_ends_badly_when_asked_has_failed_whatever_was_trained_before() -> None:
    """Its last games, weights and checkpoint may be missing."""
    troubles = Troubles()
    troubles.ended("trainer", Exit.DISK, "no space", 0.0, 5, asked=True)
    assert troubles.of_training(1.0, 99, 0) == ("trainer: exit 74 (DISK): no space", Exit.DISK)
    troubles = Troubles()
    troubles.ended("trainer", -signal.SIGTERM, "", 0.0, 5, asked=True)
    assert troubles.of_training(1.0, 5, 0) is None


def test_what_fails_is_in_the_line_of_progress() -> None:
    told = line({"troubles": {"trainer": "the disk is full"}})
    assert told.endswith(", trainer FAILS: the disk is full")
