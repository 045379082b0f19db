"""Run folders and base ports."""

import errno
import os
import random
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from in_process import ends

from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.ports import claimed_base_port
from azselfplay.host.runs import FOLDERS, RunFolder, write_atomically
from azselfplay.link.weights_files import read_weights

NOBODY = 65_534
"""The number of a user who owns nothing."""


@pytest.mark.parametrize(("game", "history"), [("connect_four", 8), ("chess", 4)])
def test_a_run_of_another_game_is_refused(tmp_path: Path, game: str, history: int) -> None:
    """Mixing games in one store would spoil both runs."""
    RunFolder(tmp_path, "run").create("chess", 8)
    with ends(Exit.BAD_DATA, "another --run name"):
        RunFolder(tmp_path, "run").create(game, history)


@pytest.mark.parametrize("name", ["", "../other", "a b", ".hidden", "x" * 101])
def test_names_that_are_no_folder_names_are_refused(tmp_path: Path, name: str) -> None:
    """A name never leads out of the folder of runs."""
    with pytest.raises(Fatal, match="cannot be a run's name"):
        RunFolder(tmp_path, name)


def test_the_folder_of_a_run_in_place_of_its_name_is_explained() -> None:
    with pytest.raises(Fatal, match=r"use --runs /data/runs --run chess-1$"):
        RunFolder("runs", "/data/runs/chess-1")


def test_a_power_loss_leaves_the_old_file_or_the_new_one(tmp_path: Path, monkeypatch) -> None:
    """The bytes are synced before they take the place of the old ones; then the folder."""
    path = tmp_path / "current.json"
    path.write_bytes(b"old")
    synced: list[bytes] = []

    def fsync(handle: int) -> None:
        what = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append(path.read_bytes())
        assert what == tmp_path or what.read_bytes() == b"new"

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"new")
    assert (synced, [*tmp_path.iterdir()]) == ([b"old", b"new"], [path])


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path, monkeypatch, capsys) -> None:
    """The message used to be "a file cannot be written"."""
    path = tmp_path / "current.json"

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def main() -> int:
        write_atomically(path, b"new")
        return 0

    monkeypatch.setattr(os, "fsync", full)
    assert guarded(main) == Exit.DISK
    assert f"error: {path} cannot be written: No space left on device; free" in capsys.readouterr().err


def test_a_path_without_a_name_is_refused_as_a_folder() -> None:
    with pytest.raises(IsADirectoryError):
        write_atomically(Path(), b"new")


def first_port() -> int:
    """Return a base port that no other test is likely to claim meanwhile: beyond those of `free_ports`, below
    the kernel's own."""
    return random.SystemRandom().randrange(27_010, 32_000, 10)


def test_a_base_port_has_two_free_ports() -> None:
    with claimed_base_port(first_port()) as base:
        pass
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like the search for a port
        other.bind(("127.0.0.1", base + 1))
        other.listen()
        with claimed_base_port(base) as another:
            assert another > base


def test_two_who_look_for_a_port_at_once_are_given_different_ones() -> None:
    first = first_port()
    with claimed_base_port(first) as one, claimed_base_port(first) as other:
        assert one != other
    with claimed_base_port(first) as again:
        assert again == one


def base_port_of_another_user(first: int) -> int:
    """Return the port that a process of another user claims, or 0 if that fails. Without the right to change
    users, the process is ours."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            with claimed_base_port(first) as base:
                os.write(writing, b"%d" % base)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        base = int(said.read() or 0)
    os.waitpid(child, 0)
    return base


def test_a_second_user_of_the_machine_claims_a_port_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", shared)
        with claimed_base_port(first_port()) as first:
            assert base_port_of_another_user(first) > first
        assert base_port_of_another_user(first) == first


def test_a_disk_that_fails_is_no_damaged_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor starts the program again after DISK, but not after BAD_DATA."""
    run = RunFolder(tmp_path, "run")
    run.create("chess", 8)

    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("azselfplay.host.reading.open_regular", fail)
    with pytest.raises(Fatal, match="cannot be read") as of_run:
        run.describe()
    with pytest.raises(Fatal, match="cannot be read") as of_weights:
        read_weights(tmp_path / "weights.safetensors")
    assert (of_run.value.code, of_weights.value.code) == (Exit.DISK, Exit.DISK)


def test_a_run_has_an_identity_for_good(tmp_path: Path) -> None:
    RunFolder(tmp_path, "run").create("chess", 8)
    run = RunFolder(tmp_path, "run")
    first, created = run.run_id, run.describe()
    run.create("chess", 8)
    assert (run.run_id, len(first), run.describe()) == (first, 16, created)
    assert all((run.path / name).is_dir() for name in FOLDERS)
    shutil.rmtree(run.path)
    run.create("chess", 8)
    assert run.run_id not in (first, b"")
    run.about.write_text('{"format": 5, "game": "chess", "history": 8, "created": "2025"}')
    assert run.run_id == b""
    run.create("chess", 8)
    assert (len(run.run_id), run.describe()["created"]) == (16, "2025")


def test_a_trainers_folder_takes_the_servers_identity_and_keeps_it(tmp_path: Path) -> None:
    """Games and checkpoints are thus not mixed with those of a run that was made anew under the same name."""
    run = RunFolder(tmp_path, "run")
    run.create("chess", 8, b"a" * 16)
    assert run.run_id == b"a" * 16
    run.create("chess", 8, b"a" * 16)
    with pytest.raises(Fatal, match="another run of this name") as caught:
        run.create("chess", 8, b"b" * 16)
    assert (caught.value.code, run.run_id) == (Exit.BAD_DATA, b"a" * 16)


@pytest.mark.parametrize("identity", ['"aa"', "7", '"' + "zz" * 16 + '"', "null"])
def test_a_damaged_identity_is_named(tmp_path: Path, identity: str) -> None:
    run = RunFolder(tmp_path, "run")
    run.create("chess", 8)
    run.about.write_text(f'{{"format": 5, "game": "chess", "history": 8, "id": {identity}}}')
    with pytest.raises(Fatal, match=r"run\.json is damaged"):
        run.create("chess", 8)


def test_a_folder_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, "run")
    run.create("chess", 8)
    run.about.write_text('{"game": "chess", "history": 8}')
    with ends(Exit.BAD_DATA, r"run is of an older version.*use the version that made it"):
        run.create("chess", 8)


def test_parts_of_files_that_killed_processes_left_are_removed(tmp_path: Path) -> None:
    """A young file stays: another process of the run may be writing it."""
    folder = RunFolder(tmp_path, "run")
    folder.create("chess", 8)
    old, young = (folder.path / f"figures.json.{pid}.partial" for pid in (1, 2))
    for part in (old, young):
        part.write_bytes(b"half")
    backup = folder.path / "monday.partial"
    backup.mkdir()
    for part in (old, backup):
        os.utime(part, (0, 0))
    folder.create("chess", 8)
    assert not old.exists()
    assert young.exists()
    assert backup.exists(), "a folder is somebody's backup"


@pytest.mark.parametrize(
    "kept", ["", "weights/1.safetensors", "checkpoints/1.state", "games.db", "spool/a.game"]
)
def test_a_new_run_that_is_refused_leaves_nothing_but_what_was_learned(kept: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs", "a")

    def begin() -> None:
        with folder.removed_if_refused():
            folder.create("chess", 1)
            if kept:
                (folder.path / kept).touch()
            raise Fatal("refused")

    with pytest.raises(Fatal):
        begin()
    assert (tmp_path / "runs").exists() == bool(kept)


def test_a_new_run_in_which_another_process_works_by_now_stays(tmp_path: Path) -> None:
    mine, theirs = RunFolder(tmp_path, "a"), RunFolder(tmp_path, "a")
    locks = []

    def begin() -> None:
        with mine.removed_if_refused():
            theirs.create("chess", 1)
            locks.append(theirs.lock("trainer"))
            mine.lock("trainer")

    with pytest.raises(Fatal, match="another trainer"):
        begin()
    assert theirs.about.exists()
    locks[0].close()


def test_a_run_that_was_there_stays_when_it_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "a")
    folder.create("chess", 1)
    with pytest.raises(Fatal), folder.removed_if_refused():
        raise Fatal("refused")
    assert folder.about.exists()
