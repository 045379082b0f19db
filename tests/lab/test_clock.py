"""Runs that are measured in processor time."""

import os
import resource
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from process_marks import wait_for

from azselfplay.host.hardware import seconds_of_trees
from azselfplay.host.runs import RunFolder, is_locked
from azselfplay.lab.experiments.recipe import from_settings
from azselfplay.lab.experiments.training import _watch, command_of

MINIMAL = {"title": "t", "game": "tic_tac_toe", "minutes": 1.0}
# An interrupt must end it even if a shell started the tests in the background, with SIGINT ignored.
BUSY = [sys.executable, "-c", "import signal; signal.signal(2, signal.SIG_DFL)\nwhile True: pass"]


def test_a_run_is_interrupted_when_it_has_used_its_processor_time(tmp_path: Path) -> None:
    recipe = from_settings("x", {**MINIMAL, "clock": "cores"})
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with subprocess.Popen(BUSY) as process:
        try:
            assert _watch(process, recipe, RunFolder(tmp_path, "r"), 0.005) == []
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before >= 0.2


@pytest.mark.parametrize(("clock", "minutes"), [("wall", "7.0"), ("cores", "0.0")])
def test_azrun_itself_knows_wall_clock_only(clock: str, minutes: str, tmp_path: Path) -> None:
    recipe = from_settings("x", {**MINIMAL, "clock": clock})
    command = command_of(recipe, 1, 7.0, tmp_path, "run", tmp_path)
    assert command[command.index("--minutes") + 1] == minutes


KILLED = """
import sys
from pathlib import Path
from azselfplay.lab.experiments import recipe, training
command_of = training.command_of
holds = "import pathlib, sys, time; from azselfplay.host.runs import RunLock; "
holds += "lock = RunLock(pathlib.Path(sys.argv[1])); time.sleep(60)"
training.command_of = lambda *told: command_of(*told) and [sys.executable, "-c", holds, sys.argv[2]]
made = recipe.from_settings("x", {"title": "t", "game": "tic_tac_toe", "minutes": 9, "clock": "cores"})
training.train(made, 1, Path(sys.argv[1]), 9.0)
"""


def test_a_run_ends_with_the_experiment_that_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "runs", lock]) as experiment:
        try:
            wait_for(lambda: is_locked(lock), lambda: "azrun has not begun")
        finally:
            experiment.kill()
    wait_for(lambda: not is_locked(lock), lambda: "azrun has not ended", 20.0)


def test_a_rate_that_falls_over_the_recipe_s_minutes_falls_over_those_of_the_run(tmp_path: Path) -> None:
    trainer = {"optimizer": {"cosine_minutes": 15.0}}
    recipe = from_settings("x", {**MINIMAL, "minutes": 30.0, "trainer": trainer})
    command_of(recipe, 1, 5.0, tmp_path, "run", tmp_path)
    assert tomllib.loads((tmp_path / "trainer.toml").read_text())["optimizer"] == {"cosine_minutes": 2.5}
    assert recipe.trainer == trainer


def test_the_time_of_a_tree_counts_children_that_have_ended() -> None:
    child = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])\nprint()\ninput()"
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert seconds_of_trees([process.pid]) >= 0.25
        process.communicate(b"\n")
    assert seconds_of_trees([process.pid]) == 0


def test_the_time_of_a_process_whose_name_is_no_text_counts() -> None:
    """A program may give itself any name; Linux cuts a long one after 15 bytes, perhaps within a letter."""
    own = Path("/proc/self/comm")
    name = own.read_bytes().removesuffix(b"\n")
    own.write_bytes(b"\xff) \xc3")
    try:
        assert seconds_of_trees([os.getpid()]) > 0
    finally:
        own.write_bytes(name)
