"""How each part behaves on a full file system (a real one), and when there is space again."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from in_process import ends
from small_disk import SmallDisk, small_disk

from azselfplay.host.exits import NOT_RETRIED, Exit
from azselfplay.host.logs import LogFile
from azselfplay.host.runs import RunFolder, write_atomically
from azselfplay.store.copying import copy_games
from azselfplay.store.sqlite import Store, Totals
from trainer import checkpoint
from trainer.figures import Curves, Figures


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        yield disk


def test_a_log_file_drops_what_does_not_fit_and_says_how_much(disk: SmallDisk) -> None:
    log = LogFile(disk.path / "children.log")
    log.write(b"before\n")
    disk.fill()
    for _ in range(1000):
        log.write(b"1234567890" * 100 + b"\n")
    missing = log.dropped
    assert missing > 900_000
    disk.free()
    log.write(b"after\n")
    first, *middle, notice, last = log.path.read_text().splitlines()
    assert (first, last) == ("before", "after")
    assert notice.endswith(f"... {missing} bytes are missing here: the disk did not take them ...")
    assert set(middle) <= {"1234567890" * 100, ""}


def test_a_file_that_is_replaced_stays_as_it_was_and_no_part_is_left(disk: SmallDisk) -> None:
    """The partial file would take the space that others need to go on."""
    path = disk.path / "file.json"
    write_atomically(path, b"old")
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new" * 10_000)
    assert path.read_bytes() == b"old"
    assert [file.name for file in disk.path.iterdir() if "partial" in file.name] == []


def test_curves_miss_points_and_go_on_in_the_same_files(disk: SmallDisk, caplog) -> None:
    """The event file and the lines stay readable; the failures make two kinds of lines in the log."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = disk.path / "tensorboard"
    folder.mkdir()
    curves = Curves(folder, disk.path / "figures.jsonl")

    def write(step: int) -> None:
        figures = {**Figures(0.0).as_dict(Totals(), 1.0), "step": step, "policy_loss": step / 2, "alerts": []}
        curves.write(figures, now=3.0 * step)

    write(1)
    disk.fill()
    with caplog.at_level(logging.WARNING):
        for step in range(2, 50):
            write(step)
    disk.free()
    write(50)
    curves_read = EventAccumulator(str(folder))
    curves_read.Reload()
    steps = [event.step for event in curves_read.Scalars("trainer/policy_loss")]
    assert steps[0] == 1
    assert steps[-1] == 50
    assert len(steps) < 30
    assert len((disk.path / "figures.jsonl").read_text().splitlines()) < 30
    assert len({one.msg for one in caplog.records if one.name.startswith("trainer")}) == 2


def test_a_checkpoint_that_does_not_fit_leaves_the_one_before_and_no_parts(disk: SmallDisk) -> None:
    def save(step: int) -> None:
        progress = checkpoint.Progress(step, 0, 0, 0, "sgd")
        checkpoint.save(disk.path, progress, b"w" * 100_000, {}, np.random.default_rng(0))

    save(1)
    disk.fill()
    with ends(Exit.DISK, "cannot write the checkpoint"):
        save(2)
    names = sorted(file.name for file in disk.path.iterdir() if file.name.startswith("step"))
    assert names == ["step-000000001.safetensors", "step-000000001.state"]
    disk.free()
    save(3)
    assert (disk.path / "step-000000003.state").exists()
    subprocess.run(["mount", "-o", "remount,ro", str(disk.path)], check=True)
    with ends(Exit.DISK, "Read-only"):
        save(4)


def test_a_server_that_is_started_on_a_full_disk_says_so_with_a_status_that_is_retried(
    disk: SmallDisk,
) -> None:
    """azrun then starts it again and again, until there is space."""
    RunFolder(disk.path, "run").create("tic_tac_toe", 1)
    disk.fill()
    command = [
        *(sys.executable, "-m", "server.main", "--game", "tic_tac_toe", "--gpus", "cpu"),
        *("--runs", str(disk.path), "--run", "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == Exit.DISK
    assert Exit.DISK not in NOT_RETRIED
    assert "No space left on device; free some space" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_backup_of_games_onto_a_full_disk_names_the_disk_that_is_full(disk: SmallDisk, tmp_path) -> None:
    """The error does not name the store that is read."""
    source, target = tmp_path / "games.db", disk.path / "games.db"
    Store(source, "tic_tac_toe").close()
    disk.fill()
    with ends(Exit.DISK, f"{target} cannot be written.* free space"):
        copy_games(source, target)
