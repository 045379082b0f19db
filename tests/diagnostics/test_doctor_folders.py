"""The doctor looks at folders: disks, compiled code, runs, waiting games."""

import hashlib
from pathlib import Path

import pytest
from doctor_faults import faults
from small_disk import small_disk

from azselfplay.diagnostics.doctor.findings import Finding, Level
from azselfplay.diagnostics.doctor.machine import probe_folder
from azselfplay.host.folders import compiled_code_folder
from azselfplay.host.runs import RunFolder, is_locked
from azselfplay.store.sqlite import Store
from client.doctor import spool_findings, waiting_games
from server.doctor import run_findings
from server.weights import WeightsStore


def test_a_full_disk_is_found_by_writing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", megabytes=1) as disk:
        disk.fill()
        found = probe_folder(disk.path / "runs" / "new")
        assert "No space left" in found.error
        disk.free()


def test_a_folder_that_is_none_takes_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in probe_folder(tmp_path / "file" / "jit").error
    assert probe_folder(tmp_path / "new").error == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_folder_that_cannot_be_entered_is_a_finding(tmp_path: Path) -> None:
    """Its name is too long here; for root, no rights are missing."""
    path = tmp_path / ("x" * 300) / "y"
    assert "name too long" in probe_folder(path).error
    assert faults(look(RunFolder(path, "r"), "chess")) == {"run folder"}
    assert waiting_games(path) == {}


def test_compiled_code_is_looked_for_where_it_is_kept() -> None:
    from azselfplay.games.jit import cache_folder

    assert compiled_code_folder() == cache_folder().parent


def run_folder(root: Path) -> RunFolder:
    """Return a run with weights and an empty store."""
    folder = RunFolder(root, "r")
    folder.create("tic_tac_toe", 1)
    WeightsStore(folder.weights, "tic_tac_toe").add(b"weights", 4, 40, "tiny")
    Store(folder.games, "tic_tac_toe").close()
    return folder


def look(folder: RunFolder, game: str) -> list[Finding]:
    return run_findings(folder, game, locked=is_locked(folder.lock_of("azserver")))


@pytest.mark.parametrize(
    ("file", "content", "check"),
    [
        ("run.json", b"{", "run folder"),
        ("run.json", None, "run folder"),
        ("weights/*.safetensors", None, "weights files"),
        ("weights/*.safetensors", b"wEights", "weights files"),
        ("weights/current.json", None, "weights files"),
        ("games.db", b"this is no database" * 1000, "games"),
    ],
)
def test_a_damaged_run_folder_is_found(tmp_path, file: str, content: bytes | None, check: str) -> None:
    """A file is missing or has another content. Looking at it changes nothing."""
    folder = run_folder(tmp_path)
    assert faults(look(folder, "tic_tac_toe")) == set()
    (damaged,) = folder.path.glob(file)
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    before = sorted((path, path.lstat().st_mtime_ns) for path in folder.weights.iterdir())
    assert faults(look(folder, "tic_tac_toe")) == {check}
    assert sorted((path, path.lstat().st_mtime_ns) for path in folder.weights.iterdir()) == before


def test_weights_that_the_disk_does_not_give_are_not_to_be_restored(tmp_path: Path, monkeypatch) -> None:
    """They may be intact."""

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    folder = run_folder(tmp_path)
    monkeypatch.setattr(hashlib, "file_digest", fail)
    (found,) = (one for one in look(folder, "tic_tac_toe") if one.check == "weights files")
    assert found.todo == "look at the disk or the network drive"


def test_a_folder_of_another_game_is_found_and_a_new_one_is_fine(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert faults(look(folder, "chess")) == {"run folder"}
    assert faults(look(RunFolder(tmp_path, "new"), "chess")) == set()


def test_the_lock_of_a_running_azserver_is_told_and_not_taken(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with folder.lock("azserver"):
        at_work = look(folder, "tic_tac_toe")
    assert "an azserver works on it" in at_work[0].found
    assert "azserver works" not in look(folder, "tic_tac_toe")[0].found
    folder.lock("azserver").close()


def test_games_of_another_run_that_wait_are_told(tmp_path: Path) -> None:
    for run in ("go-a+00112233aabb", "go-b+ffffffffffff"):
        (tmp_path / run / "worker-0").mkdir(parents=True)
        (tmp_path / run / "worker-0" / "1.game").touch()
    findings = spool_findings(tmp_path, waiting_games(tmp_path), "00112233aabb" + 20 * "0")
    assert faults(findings, Level.WARNING) == {"spool"}
    assert "go-b+ffffffffffff (1)" in findings[1].found
    assert findings[0].found.startswith("1 games wait")
    assert faults(spool_findings(tmp_path, {}, ""), Level.WARNING) == set()
