"""With an archive, no acknowledged game is lost with a disk, and one trainer at a time goes on with a run."""

import dataclasses
import errno
import os
import random
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from free_ports import free_base_port
from in_process import ends
from test_store import entry

from azselfplay.host.exits import Exit, Fatal
from azselfplay.store.archive import FOLDERS, Archive, open_archive
from azselfplay.store.reader import Range, StoreReader
from azselfplay.store.sqlite import IMPORTED, STORED, Store
from protocol.records import FORMAT

RUN = b"r" * 16


def started(root: Path, disk: str, run: bytes = RUN, place: str = "", keep: int = 0) -> tuple[Store, Archive]:
    for folder in (root / disk, root / "archive"):
        folder.mkdir(exist_ok=True)
    store, archive = Store(root / disk / "games.db", "g", keep), open_archive(place or str(root / "archive"))
    assert archive is not None
    archive.begin({"format": FORMAT, "game": "g", "id": run.hex()}, store)
    return store, archive


def refusal(root: Path, disk: str, run: bytes = RUN, place: str = "") -> Fatal:
    with pytest.raises(Fatal) as caught:
        started(root, disk, run, place)
    return caught.value


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Yield an empty bucket of moto's S3, on this machine."""
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'azselfplay[archive]'")
    program, port = shutil.which("moto_server"), free_base_port()
    if program is None:
        pytest.skip("moto_server is not on the PATH: pip install 'moto[server]'")
    server = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([program, "-p", str(port)], stderr=subprocess.PIPE, text=True)
    with process, pytest.MonkeyPatch.context() as patch:
        assert process.stderr is not None
        assert any("Running on" in line for line in process.stderr)
        threading.Thread(target=process.stderr.read, daemon=True).start()  # else it would wait for a reader
        for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("REGION", "us-east-1")):
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_ENDPOINT", server)
        urllib.request.urlopen(urllib.request.Request(f"{server}/bucket", method="PUT")).close()
        yield "s3://bucket"
        process.kill()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "archive")
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


in_both = pytest.mark.parametrize(
    "place", ["folder", pytest.param("bucket", marks=pytest.mark.nightly)], indirect=True
)


@in_both
@pytest.mark.parametrize("seed", range(3))
def test_kills_lost_disks_and_an_old_trainer_lose_no_acknowledged_game(
    tmp_path: Path, seed: int, place: str
) -> None:
    """There are 20 kills, half of them between the store and the archive, and five lost disks. An old trainer
    that wakes beside its successor can add nothing, and its disk is refused. The rows stay the same."""
    rng, acknowledged, sent = random.Random(seed), set[bytes](), 0

    def commit(store: Store, archive: Archive, *, killed: bool = False) -> None:
        nonlocal sent
        entries = [
            dataclasses.replace(
                entry(number, source="clients"), is_old=number % 5 == 0, player=f"p{number % 3}"
            )
            for number in range(sent, sent + rng.randint(1, 20))
        ]
        sent += len(entries)
        assert store.commit(entries) == [STORED] * len(entries)
        if not killed and archive.archive_games(store):
            acknowledged.update(one.uid for one in entries)

    for kill in range(20):
        trainer = started(tmp_path, f"disk-{kill // 4}", place=place)
        for _ in range(rng.randint(0, 4)):
            commit(*trainer)
        commit(*trainer, killed=rng.random() < 0.5)
        trainer[0].close()
    old = started(tmp_path, "old", place=place)
    commit(*old)
    new = started(tmp_path, "new", place=place)
    commit(*new)
    with pytest.raises(Fatal, match="another trainer") as fenced:
        commit(*old)
    with pytest.raises(Fatal, match="another trainer"):
        old[1].archive_checkpoint([], 0)
    assert fenced.value.code == Exit.TRY_AGAIN
    old[0].close()
    refused = refusal(tmp_path, "old", place=place)
    assert (refused.code, "another trainer has gone on" in str(refused)) == (Exit.BAD_DATA, True)
    last, _ = started(tmp_path, "last", place=place)
    rows = last.rows_after(0, sent)
    assert acknowledged <= {row.game.uid for row in rows}
    assert rows == new[0].rows_after(0, sent)
    assert last.totals == new[0].totals


def test_an_archive_that_was_begun_late_restores_games_without_records_as_such(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with closing(Store(tmp_path / "disk" / "games.db", "g", keep=3)) as store:
        store.commit([entry(n) for n in range(8)])
    started(tmp_path, "disk")
    started(tmp_path, "new")
    assert [one.seq for one in StoreReader(tmp_path / "new" / "games.db").rows(Range())] == [6, 7, 8]


def test_a_store_that_keeps_few_records_is_restored_with_as_few(tmp_path: Path) -> None:
    """The archive has them all, and they would not fit on a disk of the same size. Imported games stay."""
    store, archive = started(tmp_path, "disk", keep=3)
    for first in range(0, 12, 2):
        source = IMPORTED if first == 4 else "workers"
        store.commit([entry(number, source=source) for number in (first, first + 1)])
        assert archive.archive_games(store)
    store.close()
    started(tmp_path, "new", keep=3)
    assert [one.seq for one in StoreReader(tmp_path / "new" / "games.db").rows(Range())] == [5, 6, 10, 11, 12]
    started(tmp_path, "all")
    assert len(list(StoreReader(tmp_path / "all" / "games.db").rows(Range()))) == 12


@in_both
def test_a_start_reads_only_the_newest_objects_and_those_of_an_archive_that_is_behind(
    place: str, tmp_path: Path, monkeypatch
) -> None:
    """An archive of weeks has a million objects."""
    monkeypatch.setattr("azselfplay.store.archive.COMPARED", 4)
    monkeypatch.setattr("azselfplay.store.archive.GAMES", 2)
    store, archive = started(tmp_path, "disk", place=place)
    for number in range(10):
        store.commit([entry(2 * number), entry(2 * number + 1)])
        assert archive.archive_games(store)
    store.close()
    objects = type(archive._objects)
    asked, get = [], objects.get
    monkeypatch.setattr(objects, "get", lambda one, name: asked.append(name) or get(one, name))
    store, archive = started(tmp_path, "disk", place=place)
    assert sorted(name for name in asked if "games" in name) == [f"games/{n:012d}" for n in (15, 17, 19)]
    assert archive._objects.names("trainers") == ["000000000002"]
    for number in range(10, 20):  # without the archive
        store.commit([entry(2 * number), entry(2 * number + 1)])
    store.close()
    started(tmp_path, "disk", place=place)
    restored, _ = started(tmp_path, "new", place=place)
    assert restored.last_seq == 40


def test_an_object_that_has_enough_bytes_takes_no_further_game(tmp_path: Path, monkeypatch) -> None:
    """It goes up in one request, which ends after a minute."""
    monkeypatch.setattr("azselfplay.store.archive.ENOUGH_BYTES", 1)
    store, archive = started(tmp_path, "disk")
    store.commit([entry(number) for number in range(3)])
    assert archive.archive_games(store)
    assert archive._objects.names("games") == [f"{number:012d}" for number in (1, 2, 3)]
    assert started(tmp_path, "new")[0].last_seq == 3


def test_files_of_others_in_an_archive_are_left_alone(tmp_path: Path) -> None:
    """A NAS puts folders everywhere, a desktop files. Of ours, what killed writers have left is removed."""
    store, archive = started(tmp_path, "disk")
    old, young, other = (
        tmp_path / "archive" / folder / f"{name}.partial"
        for folder, name in (("games", "000000000001.ab"), ("checkpoints", "step-2.state.7"), ("games", "a"))
    )
    for path in (old, young, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (1, 1))
    foreign = [tmp_path / "archive" / folder / name for folder in FOLDERS for name in ("@eaDir", ".DS_Store")]
    for path in foreign:
        path.mkdir() if path.name == "@eaDir" else path.touch()
    store.commit([entry(1)])
    assert archive.archive_games(store)
    (checkpoint := tmp_path / "step-000000001.state").touch()
    archive.archive_checkpoint([checkpoint], 1)
    store.close()
    store, archive = started(tmp_path, "new")
    assert (store.last_seq, archive.checkpoints()) == (1, [checkpoint.name])
    assert all(path.exists() for path in (*foreign, young, other))
    assert not old.exists()


def test_a_checkpoint_that_training_removes_during_its_upload_is_archived_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, archive = started(tmp_path, "disk")
    files = [tmp_path / f"step-000000001.{kind}" for kind in ("safetensors", "state")]
    for path in files:
        path.write_text(path.suffix)
    put = archive._objects.put
    monkeypatch.setattr(
        archive._objects, "put", lambda *given: (put(*given), files[1].unlink(missing_ok=True))
    )
    archive.archive_checkpoint(files, 2)
    assert [archive.checkpoint(path.name) for path in files] == [b".safetensors", b".state"]


def test_a_trainer_that_is_replaced_during_an_upload_removes_no_checkpoint_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, old = started(tmp_path, "old")
    ours, theirs = (tmp_path / f"step-00000000{step}.state" for step in (1, 2))
    put = old._objects.put

    def replaced(name: str, data: bytes) -> None:
        put(name, data)
        started(tmp_path, "new")[1].archive_checkpoint([theirs], 1)

    monkeypatch.setattr(old._objects, "put", replaced)
    ours.touch()
    theirs.touch()
    with pytest.raises(Fatal, match="another trainer"):
        old.archive_checkpoint([ours], 1)
    assert old.checkpoints() == [theirs.name]


def test_an_archive_that_is_away_takes_the_same_games_later(tmp_path: Path) -> None:
    """Its folder is not made anew: nothing may be written below a mount that is gone."""
    store, archive = started(tmp_path, "disk")
    store.commit([entry(1)])
    (tmp_path / "archive").rename(tmp_path / "away")
    (tmp_path / "archive").mkdir()
    assert not archive.archive_games(store)
    assert "archive" in archive.error
    with pytest.raises(FileNotFoundError):
        archive.archive_checkpoint([tmp_path / "disk" / "games.db"], 1)
    (tmp_path / "archive").rmdir()  # this fails unless it is empty
    (tmp_path / "away").rename(tmp_path / "archive")
    assert archive.archive_games(store)
    assert archive.error == ""
    store.close()
    assert started(tmp_path, "other")[0].last_seq == 1


def test_what_is_not_this_runs_archive_is_refused(tmp_path: Path) -> None:
    store, archive = started(tmp_path, "disk")
    store.commit([entry(1)])
    archive.archive_games(store)
    other = refusal(tmp_path, "other", b"x" * 16)
    assert (other.code, RUN.hex() in str(other)) == (Exit.BAD_DATA, True)
    store.commit([entry(2)])
    archive.archive_games(store)
    segment, _ = sorted((tmp_path / "archive" / "games").iterdir())
    segment.rename(tmp_path / "lost")
    torn = refusal(tmp_path, "other")
    assert (torn.code, "lacks the games from number 1 to 1" in str(torn)) == (Exit.BAD_DATA, True)
    (tmp_path / "lost").rename(segment)
    segment.write_bytes(segment.read_bytes()[:-1])
    damaged = refusal(tmp_path, "other")
    assert (damaged.code, str(segment) in str(damaged)) == (Exit.BAD_DATA, True)
    for place in (segment, tmp_path / "none"):
        with ends(Exit.USAGE, "--archive"):
            open_archive(str(place))


@pytest.mark.nightly
def test_a_bucket_that_cannot_be_used_is_named_before_anything_starts(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code is 2 if it is missing or of no known kind, and 75 if it does not answer, as it may later."""
    assert refusal(tmp_path, "disk", place="ftp://bucket/run").code == Exit.USAGE
    missing = refusal(tmp_path, "disk", place=f"{bucket}-of-nobody/run")
    assert (missing.code, "check bucket, region and rights" in str(missing)) == (Exit.USAGE, True)
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_base_port()}")
    away = refusal(tmp_path, "disk", place=f"{bucket}/run")
    assert (away.code, "does not answer" in str(away)) == (Exit.TRY_AGAIN, True)
    assert "\n" not in f"{missing}{away}"


def test_a_bucket_that_overwrites_what_should_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trainers of a run would not notice each other."""
    obstore = pytest.importorskip("obstore", reason="obstore is not installed")
    monkeypatch.setattr(obstore.store, "from_url", lambda *_, **__: obstore.store.MemoryStore())
    assert open_archive("s3://bucket/run") is not None
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, name, data, **_: put(store, name, data))
    with ends(Exit.USAGE, "ignores `If-None-Match"):
        open_archive("s3://bucket/run")


def test_a_bucket_that_refuses_the_clock_may_take_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that boots may set its clock a minute later."""
    obstore = pytest.importorskip("obstore", reason="obstore is not installed")

    def refuse(*_: object, **__: object) -> None:
        text = "non-2xx status code: 403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code></Error>"
        raise obstore.exceptions.PermissionDeniedError(text)

    monkeypatch.setattr(obstore.store, "from_url", lambda *_, **__: None)
    monkeypatch.setattr(obstore, "put", refuse)
    with ends(Exit.TRY_AGAIN, "set the clock"):
        open_archive("s3://bucket/run")


def test_a_folder_without_hard_links_is_refused_at_once(tmp_path: Path, monkeypatch) -> None:
    """On exFAT no game could ever be archived."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(Fatal, match="no hard links") as caught:
        open_archive(str(tmp_path))
    assert (caught.value.code, list(tmp_path.iterdir())) == (Exit.USAGE, [])
