"""A folder that cannot be written is reported before anything is started."""

import errno
import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from in_process import ends

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.folders import check_folders
from client.main import main
from server.keys import main as change_keys

ROOT = Path(__file__).resolve().parents[2]
READ_ONLY = """
mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro / || exit 99
mountpoint -q /tmp && mount -o remount,bind,ro /tmp
mount -o remount,bind,rw "$1"
shift; exec "$@"
"""
"""A shell script: $1 is the only folder that can be written, the rest is the command."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZ_JIT_CACHE", str(tmp_path / "jit"))


def test_folders_need_not_exist_yet(tmp_path: Path) -> None:
    check_folders(tmp_path / "a" / "b", "--runs")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ends(Exit.CONFIG, r"/file/runs cannot be made \(.*/file is not a folder\): .* --runs"):
        check_folders(tmp_path / "file" / "runs", "--runs")


def test_a_cache_that_cannot_be_written_is_named_with_its_variable(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AZ_JIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(Fatal, match=r"/file is not a folder: compiled code .* AZ_JIT_CACHE"):
        check_folders(tmp_path, "--runs")


@pytest.mark.parametrize("words", [["keygen"], ["--server", "127.0.0.1:1"]])
def test_a_user_without_a_home_is_told_to_set_it(words: list[str], tmp_path, monkeypatch, capsys) -> None:
    """Such is a container's user that is only a number. A key whose file is named needs no such folder."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert main(words) == Exit.CONFIG
    assert "set HOME" in capsys.readouterr().err
    assert main(["keygen", "--key", str(tmp_path / "key")]) == Exit.OK
    assert change_keys(["keygen", "--keys", str(tmp_path)]) == Exit.OK


def test_a_machine_without_a_folder_for_temporary_files_is_told_so(tmp_path, monkeypatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(Fatal, match="tmpfs on /tmp, or set TMPDIR"):
        check_folders(tmp_path, "--runs")


def test_programs_on_a_read_only_file_system_say_what_must_be_mounted(tmp_path: Path) -> None:
    """The test runs in a namespace of its own, in which only one folder can be written."""
    own = ["--runs", str(tmp_path / "runs")]
    calls = {
        "spool": ["client.main", "--server", "127.0.0.1:1", "--spool", "/nowhere/spool"],
        "runs": ["server.main", "--game", "tic_tac_toe", "--runs", "/nowhere/runs"],
        "AZ_JIT_CACHE": ["server.main", "--game", "tic_tac_toe", *own],
        "TMPDIR": ["trainer", *own],
    }
    for name, words in calls.items():
        jit = "/nowhere/jit" if name == "AZ_JIT_CACHE" else str(tmp_path / "jit")
        in_namespace = ["unshare", "-m", "bash", "-c", READ_ONLY, "bash", str(tmp_path)]
        command = [*in_namespace, sys.executable, "-m", *words]
        environment = {**os.environ, "AZ_JIT_CACHE": jit, "TMPDIR": "/nowhere"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode in (1, 99) and "error:" not in done.stderr:
            pytest.skip(f"this user may not make a read-only file system: {done.stderr[:200]}")
        assert done.returncode == Exit.CONFIG, done.stderr
        assert name in done.stderr
        assert "Traceback" not in done.stderr
