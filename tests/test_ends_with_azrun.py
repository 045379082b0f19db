"""All processes that azrun starts, directly or not and at any time, end when azrun is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from process_marks import marked, marked_environment, wait_for

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.timeout(1200)

STAGES = {
    "the parts are importing": ("server.main", "-m trainer"),
    "a child of azserver compiles or makes a network": ("net.create",),
    "all are at work": ("-m trainer", "server.evaluator", "--role worker", "--role client"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_everything_azrun_started_ends_when_it_is_killed(tmp_path: Path, stage: str) -> None:
    """After SIGKILL azrun cannot clean up: the kernel ends its descendants, whether they import or work."""
    environment = marked_environment()
    command = [
        *(sys.executable, "-m", "azselfplay.lab.azrun", "--game", "tic_tac_toe", "--recipe", "none"),
        *("--simulations", "4"),
        *("--games", "4", "--runs", str(tmp_path), "--gpus", "cpu"),
    ]
    azrun = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:

        def reached() -> bool:
            assert azrun.poll() is None, "azrun ended by itself"
            lines = marked(environment).values()
            return all(any(part in line for line in lines) for part in STAGES[stage])

        wait_for(reached, lambda: f"{stage}; there are {marked(environment)}")
    finally:
        azrun.kill()
        azrun.wait()
    try:
        wait_for(lambda: not marked(environment), lambda: f"the end of {marked(environment)}")
    finally:
        for pid in marked(environment):
            os.kill(pid, signal.SIGKILL)
