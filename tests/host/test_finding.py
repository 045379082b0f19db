"""Runs and networks by name, folder or file: every command finds them in the same way."""

import dataclasses
import errno
import hashlib
import importlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.generated_pages import COMMANDS
from azselfplay.link.finding import run_named, served_runs, weights_named
from azselfplay.link.weights_files import weights_path
from protocol.messages import WeightsInfo

DATA = b"a network"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Make two runs, one of which has a network."""
    for name in ("chess-tiny", "go-small"):
        RunFolder(tmp_path, name).create("chess", 1)
    info = WeightsInfo(3, 30, hashlib.sha256(DATA).digest(), len(DATA), "tiny")
    folder = tmp_path / "chess-tiny" / "weights"
    weights_path(folder, info).write_bytes(DATA)
    (folder / "current.json").write_bytes(msgspec.json.encode(info))
    return tmp_path


def test_a_run_is_found_by_its_name_and_by_its_folder(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_named("chess-tiny", runs).path == runs / "chess-tiny"
    assert run_named(runs / "chess-tiny", Path("elsewhere")).path == runs / "chess-tiny"
    monkeypatch.chdir(runs)
    assert run_named("chess-tiny").path == runs / "chess-tiny"


def test_a_run_that_is_a_link_to_a_folder_with_another_kind_of_name_is_found_by_the_link(runs: Path) -> None:
    (runs / "go-small").rename(runs / "_data")
    (runs / "go-small").symlink_to(runs / "_data")
    assert run_named("go-small", runs).path == runs / "go-small"


def test_a_network_is_a_file_or_the_newest_of_a_run(runs: Path) -> None:
    file = weights_named("chess-tiny", runs)
    assert file.read_bytes() == DATA
    assert weights_named(file) == file
    assert weights_named(runs / "chess-tiny") == file
    file.unlink()
    with pytest.raises(Fatal, match="is missing"):
        weights_named("chess-tiny", runs)


@pytest.mark.parametrize("text", ["other/net", 300 * "x"])
def test_what_cannot_be_looked_at_is_not_there(
    text: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such are another user's folder and a name that is too long."""
    real = os.stat

    def stat(path: Any, **how: Any) -> os.stat_result:
        if "other" in str(path):
            raise PermissionError(errno.EACCES, "not permitted", str(path))
        return real(path, **how)

    (runs / "other").mkdir()
    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(Fatal, match=f"no network '{text}'.* the runs in .* are chess-tiny, go-small"):
        weights_named(text, runs)


@pytest.mark.parametrize("find", [run_named, weights_named])
def test_what_is_not_there_names_the_nearest_run(find, runs: Path) -> None:
    with pytest.raises(Fatal, match=r"nearest run in .* is 'chess-tiny'") as caught:
        find("ches-tiny", runs)
    assert caught.value.code == Exit.BAD_DATA


def test_a_run_that_has_not_begun_is_told_apart_from_one_that_is_not_there(runs: Path) -> None:
    with pytest.raises(Fatal, match="has no network yet"):
        weights_named("go-small", runs)


def test_a_trainers_machine_says_that_the_networks_are_azservers(runs: Path) -> None:
    """There it was told to start azserver, which works on another machine."""
    run = RunFolder(runs, "go-small")
    run.trainer_config.write_text('server = "A:5600"')
    with pytest.raises(Fatal, match=r"no network here: azserver keeps .* where it works \(A:5600\)"):
        weights_named("go-small", runs)
    run.config.write_text("")
    assert (run.kept_elsewhere("azserver"), run.kept_elsewhere("trainer")) == ("", "")


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("azplay ")])
def test_a_command_that_takes_a_run_or_a_network_takes_the_folder_of_all_runs(command: str) -> None:
    """A name is then enough in each of them."""
    module, name = COMMANDS[command]
    fields = {field.name for field in dataclasses.fields(getattr(importlib.import_module(module), name))}
    if fields & {"run", "network"}:
        assert "runs" in fields


def test_a_run_is_served_while_its_azserver_holds_the_lock(runs: Path, monkeypatch) -> None:
    """Another process may end while it is looked at."""
    listed, run = os.scandir, RunFolder(runs, "go-small")

    def ended(folder: Any = ".") -> Any:
        if str(folder) == "/proc/1/fd":
            raise FileNotFoundError(folder)
        return listed(folder)

    monkeypatch.setattr(os, "scandir", ended)
    monkeypatch.setattr(os, "listdir", lambda folder=".": [one.name for one in ended(folder)])
    with run.lock("azserver"):
        assert run.path in [one.path for one in served_runs()]
    assert run.path not in [one.path for one in served_runs()]
