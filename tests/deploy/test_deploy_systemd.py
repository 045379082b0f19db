"""The systemd units: systemd's own checks accept them, and their commands and exit codes are ours."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from deploy_commands import DEPLOY, parsed, unit, unit_command, units

from azselfplay.host.exits import NOT_RETRIED

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
EXPOSURE = 25
"""Highest score allowed from `systemd-analyze security`, 0 to 100; a unit without hardening has 96."""


def installed(path: Path, folder: Path) -> Path:
    """Return a copy whose program exists, because verify looks for it."""
    program = folder / "program"
    program.symlink_to(shutil.which("true") or "/bin/true")
    start = unit(path)["ExecStart"][0].split()[0]
    copy = folder / path.name
    copy.write_text(path.read_text().replace(f"ExecStart={start}", f"ExecStart={program}"))
    return copy


@needs_systemd
@pytest.mark.parametrize("path", units(), ids=lambda path: path.name)
def test_systemd_analyze_verify_says_nothing(path: Path, tmp_path: Path) -> None:
    command = ["systemd-analyze", "verify", "--man=no", installed(path, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
def test_systemd_analyze_verify_would_say_something(tmp_path: Path) -> None:
    copy = installed(units()[0], tmp_path)
    copy.write_text(copy.read_text().replace("Restart=on-failure", "Restart=sometimes"))
    command = ["systemd-analyze", "verify", "--man=no", copy]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "sometimes" in done.stderr


@needs_systemd
@pytest.mark.parametrize("path", units(), ids=lambda path: path.name)
def test_a_service_is_hardened(path: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", units(), ids=lambda path: path.name)
def test_no_code_is_restarted_that_would_come_again(path: Path) -> None:
    found = unit(path)
    assert found["Restart"] == ["on-failure"]
    assert found["StartLimitIntervalSec"] == ["0"]
    assert {int(code) for code in found["RestartPreventExitStatus"][0].split()} == NOT_RETRIED


@pytest.mark.parametrize("path", units(), ids=lambda path: path.name)
def test_a_stop_reaches_the_supervisor_alone_and_code_may_be_compiled(path: Path) -> None:
    found = unit(path)
    assert found["KillMode"] == ["mixed"]
    assert "MemoryDenyWriteExecute" not in found
    assert found["User"] == ["azselfplay"]


@pytest.mark.parametrize("path", units(), ids=lambda path: path.name)
def test_the_program_takes_its_flags_and_its_settings_file(path: Path) -> None:
    settings = parsed(unit_command(path))
    state = f"/var/lib/{unit(path)['StateDirectory'][0]}/"
    folder = str(getattr(settings, "runs", None) or getattr(settings, "spool", None))
    assert folder.startswith(state)


def test_the_server_of_the_example_lets_nobody_in_from_outside() -> None:
    assert parsed(unit_command(DEPLOY / "systemd" / "azserver.service")).listen == "127.0.0.1"  # type: ignore[union-attr]


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_the_user_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = DEPLOY / "systemd" / "azselfplay.sysusers.conf"
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", file], check=True, capture_output=True)
    line = next(one for one in (tmp_path / "etc/passwd").read_text().splitlines() if "azselfplay" in one)
    assert line.split(":")[5] == "/var/lib/azselfplay"
