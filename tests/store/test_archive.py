"""With an archive, no acknowledged game is lost with a disk, and one trainer at a time goes on with a run."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from test_store import entry

from azselfplay.host.exits import Exit, Fatal
from azselfplay.store.archive import Archive, open_archive
from azselfplay.store.sqlite import STORED, Store
from protocol.records import FORMAT

RUN = b"r" * 16


def started(root: Path, disk: str, run: bytes = RUN) -> tuple[Store, Archive]:
    for folder in (root / disk, root / "archive"):
        folder.mkdir(exist_ok=True)
    store, archive = Store(root / disk / "games.db", "g"), open_archive(str(root / "archive"))
    assert archive is not None
    archive.begin({"format": FORMAT, "game": "g", "id": run.hex()}, store)
    return store, archive


def refusal(root: Path, disk: str, run: bytes = RUN) -> Fatal:
    with pytest.raises(Fatal) as caught:
        started(root, disk, run)
    return caught.value


@pytest.mark.parametrize("seed", range(3))
def test_kills_lost_disks_and_an_old_trainer_lose_no_acknowledged_game(tmp_path: Path, seed: int) -> None:
    """20 kills, half of them between the store and the archive, and five lost disks. An old trainer that
    wakes beside its successor can add nothing, and its disk is refused. The rows are the same again."""
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
        if not killed and archive.keep(store):
            acknowledged.update(one.uid for one in entries)

    for kill in range(20):
        trainer = started(tmp_path, f"disk-{kill // 4}")
        for _ in range(rng.randint(0, 4)):
            commit(*trainer)
        commit(*trainer, killed=rng.random() < 0.5)
        trainer[0].close()
    old = started(tmp_path, "old")
    commit(*old)
    new = started(tmp_path, "new")
    commit(*new)
    with pytest.raises(Fatal, match="another trainer") as fenced:
        commit(*old)
    with pytest.raises(Fatal, match="another trainer"):
        old[1].keep_checkpoint([], 0)
    assert fenced.value.code == Exit.TRY_AGAIN
    old[0].close()
    refused = refusal(tmp_path, "old")
    assert (refused.code, "another trainer has gone on" in str(refused)) == (Exit.BAD_DATA, True)
    last, _ = started(tmp_path, "last")
    rows = last.rows_after(0, sent)
    assert acknowledged <= {row.game.uid for row in rows}
    assert rows == new[0].rows_after(0, sent)
    assert last.totals == new[0].totals


def test_an_archive_that_is_away_takes_the_same_games_later(tmp_path: Path) -> None:
    """Its folder is not made anew: a mount that is gone must not be written below."""
    store, archive = started(tmp_path, "disk")
    store.commit([entry(1)])
    (tmp_path / "archive").rename(tmp_path / "away")
    (tmp_path / "archive").mkdir()
    assert not archive.keep(store)
    assert "archive" in archive.trouble
    with pytest.raises(FileNotFoundError):
        archive.keep_checkpoint([tmp_path / "disk" / "games.db"], 1)
    (tmp_path / "archive").rmdir()  # it is empty
    (tmp_path / "away").rename(tmp_path / "archive")
    assert archive.keep(store)
    assert archive.trouble == ""
    store.close()
    assert started(tmp_path, "other")[0].newest == 1


def test_what_is_not_this_runs_archive_is_refused(tmp_path: Path) -> None:
    """Another run's, one with a damaged object, a file, and a folder that is not there."""
    store, archive = started(tmp_path, "disk")
    store.commit([entry(1)])
    archive.keep(store)
    other = refusal(tmp_path, "other", b"x" * 16)
    assert (other.code, RUN.hex() in str(other)) == (Exit.BAD_DATA, True)
    (segment,) = (tmp_path / "archive" / "games").iterdir()
    segment.write_bytes(segment.read_bytes()[:-1])
    damaged = refusal(tmp_path, "other")
    assert (damaged.code, str(segment) in str(damaged)) == (Exit.BAD_DATA, True)
    for place in (segment, tmp_path / "none"):
        with pytest.raises(Fatal, match="--archive") as caught:
            open_archive(str(place))
        assert caught.value.code == Exit.USAGE
