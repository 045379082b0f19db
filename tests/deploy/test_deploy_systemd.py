"""The rendered systemd units: systemd's checks accept them, and their commands and exit codes are ours."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from deploy_commands import DEPLOY, parsed, rendered_for, unit

from azselfplay.host.exits import NOT_RETRIED

IS_MISSING = shutil.which("systemd-analyze") is None
needs_systemd = pytest.mark.skipif(IS_MISSING, reason="systemd-analyze is not installed")
UNITS = sorted(rendered_for("systemd"))
EXPOSURE = 25
"""Highest score allowed from `systemd-analyze security`, 0 to 100; a unit without hardening has 96."""


def installed(name: str, folder: Path) -> Path:
    """Return a copy whose program exists, because verify looks for it."""
    program = folder / "program"
    program.symlink_to(shutil.which("true") or "/bin/true")
    start = unit(name)["ExecStart"][0].split()[0]
    copy = folder / Path(name).name
    copy.write_text(rendered_for("systemd")[name].replace(f"ExecStart={start}", f"ExecStart={program}"))
    return copy


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_analyze_verify_says_nothing(name: str, tmp_path: Path) -> None:
    command = ["systemd-analyze", "verify", "--man=no", installed(name, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_a_service_is_hardened(name: str, tmp_path: Path) -> None:
    flags = ["--offline=true", f"--threshold={EXPOSURE}"]
    command = ["systemd-analyze", "security", *flags, installed(name, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", UNITS)
def test_no_code_is_restarted_that_would_come_again(name: str) -> None:
    found = unit(name)
    assert found["Restart"] == ["on-failure"]
    assert found["StartLimitIntervalSec"] == ["0"]
    assert {int(code) for code in found["RestartPreventExitStatus"][0].split()} == NOT_RETRIED


@pytest.mark.parametrize("name", UNITS)
def test_a_stop_reaches_the_supervisor_alone_and_code_may_be_compiled(name: str) -> None:
    found = unit(name)
    assert found["KillMode"] == ["mixed"]
    assert "MemoryDenyWriteExecute" not in found
    assert found["User"] == ["azselfplay"]


@pytest.mark.parametrize("name", UNITS)
def test_the_program_takes_its_flags_and_writes_where_it_may(name: str) -> None:
    settings = parsed(shlex.split(unit(name)["ExecStart"][0]))
    state = f"/var/lib/{unit(name)['StateDirectory'][0]}/"
    folder = str(getattr(settings, "runs", None) or getattr(settings, "spool", None))
    assert folder.startswith(state)


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_the_user_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = DEPLOY / "systemd" / "azselfplay.sysusers.conf"
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", file], check=True, capture_output=True)
    line = next(one for one in (tmp_path / "etc/passwd").read_text().splitlines() if "azselfplay" in one)
    assert line.split(":")[5] == "/var/lib/azselfplay"
