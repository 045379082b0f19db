"""The weights files of a run: whole or absent, and the right ones are kept."""

import errno
import hashlib
import os
from itertools import pairwise
from pathlib import Path

import pytest
from in_process import ends

from azselfplay.host.exits import Exit
from protocol.messages import CHUNK, WeightsInfo
from server.weights import WeightsStore

DATA = bytes(range(256)) * 5000
SHA = hashlib.sha256(DATA).digest()
INFO = WeightsInfo(2, 100, SHA, len(DATA), "chess")


def test_a_stored_file_is_kept_by_its_hash_and_survives_opening_again(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    store.put(INFO, DATA)
    store.adopt(INFO)
    again = WeightsStore(tmp_path, "chess")
    assert again.open() == INFO
    assert b"".join(again.chunk(SHA, offset) or b"" for offset in range(0, len(DATA), CHUNK)) == DATA


def test_files_sort_by_version_and_newest_names_the_current_one(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    for version in (9, 10, 100):
        info = store.add(bytes([version]), version, 0, "tiny")
    assert [path.stem for path in sorted(tmp_path.glob("*.safetensors"))] == [
        f"{version:06d}-{hashlib.sha256(bytes([version])).hexdigest()[:8]}" for version in (9, 10, 100)
    ]
    newest = tmp_path / "newest"
    assert newest.readlink() == Path(store.path(info).name)
    store.add(b"better", 101, 0, "tiny")
    assert newest.read_bytes() == b"better"


def test_a_damaged_file_is_found_at_start(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path, "chess")
    info = store.add(b"good bytes", 0, 0, "tiny")
    store.path(info).write_bytes(b"evil bytes")
    with ends(Exit.BAD_DATA, "is damaged"):
        WeightsStore(tmp_path, "chess").open()


def test_a_disk_that_fails_at_start_is_not_taken_for_damage(tmp_path: Path, monkeypatch) -> None:
    """azserver is started again, and nobody is told to delete weights that are intact."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = WeightsStore(tmp_path, "chess")
    info = store.add(b"good bytes", 0, 0, "tiny")
    monkeypatch.setattr(hashlib, "file_digest", fail)
    with ends(Exit.DISK, "cannot be read: Input"):
        store.read()
    store.path(info).unlink()
    with ends(Exit.BAD_DATA, "is missing; restore"):
        store.read()


@pytest.mark.parametrize("pace", [1, 0, -1])
def test_older_files_stay_spread_over_the_run_with_the_first(pace: int, tmp_path: Path) -> None:
    """Of 64 publications, 4 older ones stay: the first, and others at wide intervals. The files may have been
    copied at once, or the clock set back."""
    store = WeightsStore(tmp_path, "chess", kept=2, past=4)
    infos = []
    for version in range(64):
        infos.append(store.add(bytes([version]), version, 0, "tiny"))
        os.utime(store.path(infos[-1]), ns=(0, (64 + pace * version) * 10**9))
    kept = [info.version for info in infos if store.has(info)]
    gaps = [later - earlier for earlier, later in pairwise(kept[:-2])]
    assert kept[0] == 0
    assert kept[-2:] == [62, 63]
    assert len(kept) == 6
    assert min(gaps) >= 4


def test_a_file_that_is_being_downloaded_stays_until_nobody_reads_it(tmp_path: Path, monkeypatch) -> None:
    now = 0.0
    monkeypatch.setattr("server.weights.time.monotonic", lambda: now)
    store = WeightsStore(tmp_path, "chess", kept=1, past=0)
    slow = store.add(b"slow", 0, 0, "tiny")
    found = []
    for version in range(1, 9):
        if version < 4:
            store.was_read(slow.sha256)
        store.add(bytes([version]), version, 0, "tiny")
        found.append(store.has(slow))
        now += 60.0
    assert found == [True] * 4 + [False] * 4


@pytest.mark.parametrize(("method", "text"), [("unlink", "removed"), ("glob", "read")])
def test_a_file_that_cannot_be_removed_stops_nothing(
    tmp_path: Path, monkeypatch, caplog, method: str, text: str
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    store = WeightsStore(tmp_path, "chess", kept=1, past=0)
    old = store.add(b"old", 0, 0, "tiny")
    monkeypatch.setattr(Path, method, refuse)
    assert store.add(b"new", 1, 0, "tiny") == store.current
    assert store.has(old)
    assert f"cannot be {text}: Operation not permitted" in caplog.text
