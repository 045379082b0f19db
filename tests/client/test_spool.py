"""The spool: a game is on disk whole or not at all, and stays until it may be deleted."""

import errno
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from client_records import record, uid
from in_process import ends

from azselfplay.host.exits import Exit
from client.spool import Spool, Terms, claim, run_folder
from protocol.records import to_bytes


def opened(folder: Path) -> Spool:
    spool = Spool(folder)
    assert list(spool.open()) == []
    return spool


def fill(spool: Spool, *numbers: int) -> Spool:
    spool.write([(uid(number), to_bytes(record(number))) for number in numbers])
    return spool


def test_a_new_start_finds_games_that_were_never_acknowledged(tmp_path: Path) -> None:
    """If the worker crashes after the rename, the game is there; if it crashes after the acknowledgement, the
    game is sent once more."""
    fill(opened(tmp_path), 1, 2)
    again = Spool(tmp_path)
    assert set(again.open()) == {uid(1), uid(2)}
    assert (again.games, again.bytes) == (2, 2 * len(to_bytes(record(1))))


@pytest.mark.parametrize("left", [b"", b"half of a rec"])
def test_a_half_written_game_is_removed_at_the_next_start(tmp_path: Path, left: bytes) -> None:
    """If the worker crashes before the rename, the game never existed."""
    (tmp_path / f"{uid(1).hex()}.tmp").write_bytes(left)
    assert list(Spool(tmp_path).open()) == []
    assert list(tmp_path.glob("*.tmp")) == []


def test_games_that_were_written_last_through_a_power_loss(tmp_path: Path, monkeypatch) -> None:
    """The bytes of all are synced before the first has its name; then the folder, where all have theirs."""
    spool = opened(tmp_path)
    synced: list[tuple[str, int]] = []

    def fsync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        assert path.is_dir() or path.read_bytes() == to_bytes(record(len(synced)))
        synced.append((path.name, len(list(tmp_path.glob("*.game")))))

    monkeypatch.setattr("os.fsync", fsync)
    fill(spool, 0, 1)
    assert synced == [(f"{uid(0).hex()}.tmp", 0), (f"{uid(1).hex()}.tmp", 0), (tmp_path.name, 2)]


def test_a_crash_between_write_and_rename_loses_only_that_game(tmp_path, monkeypatch) -> None:
    spool = opened(tmp_path)
    rename = Path.rename

    def crash_at_second(self: Path, target: Path) -> Path:
        if self.name.startswith(uid(2).hex()):
            raise OSError("power cut")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", crash_at_second)
    with pytest.raises(OSError, match="power cut"):
        fill(spool, 1, 2)
    assert list(Spool(tmp_path).open()) == [uid(1)]


def test_unreadable_files_are_set_aside_with_the_reason(tmp_path: Path) -> None:
    fill(opened(tmp_path), 1)
    (tmp_path / f"{uid(2).hex()}.game").write_bytes(b"garbage")
    (tmp_path / f"{uid(1).hex()}.game").rename(tmp_path / f"{uid(3).hex()}.game")
    spool = Spool(tmp_path)
    assert list(spool.open()) == []
    assert spool.rejected == 2
    reason = (tmp_path / "rejected" / f"{uid(3).hex()}.reason").read_text()
    assert uid(1).hex() in reason


def test_a_damaged_file_that_a_full_disk_cannot_set_aside_hides_no_good_game(tmp_path, monkeypatch) -> None:
    fill(opened(tmp_path), 1)
    damaged = tmp_path / f"{uid(2).hex()}.game"
    damaged.write_bytes(b"garbage")
    monkeypatch.setattr(Path, "write_text", Mock(side_effect=OSError(errno.ENOSPC, "no space left")))
    assert list(Spool(tmp_path).open()) == [uid(1)]
    assert damaged.exists()


def test_a_file_that_rots_while_it_waits_is_set_aside(tmp_path: Path) -> None:
    """Reading checks the file again, and the counts follow."""
    spool = fill(opened(tmp_path), 1)
    (tmp_path / f"{uid(1).hex()}.game").write_bytes(b"rot")
    assert spool.read(uid(1)) is None
    assert (spool.games, spool.rejected) == (0, 1)


def test_what_is_sent_is_what_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that rots a moment later does no harm."""
    spool = fill(opened(tmp_path), 1)
    contents = iter([to_bytes(record(1)), b"rot"])
    monkeypatch.setattr(Path, "read_bytes", lambda _: next(contents))
    game = spool.read(uid(1))
    assert game is not None
    assert game.data == to_bytes(record(1))


def test_a_file_that_cannot_be_read_now_is_not_damaged(tmp_path, monkeypatch) -> None:
    """It stays among the waiting games, and reading it later works."""
    fill(opened(tmp_path), 1)
    read = Path.read_bytes

    def no_descriptor(_: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", no_descriptor)
    spool = Spool(tmp_path)
    assert list(spool.open()) == [uid(1)]
    with pytest.raises(OSError, match="Too many"):
        spool.read(uid(1))
    monkeypatch.setattr(Path, "read_bytes", read)
    assert spool.read(uid(1)) is not None
    assert (spool.games, spool.rejected) == (1, 0)


def test_deleting_and_setting_aside_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.spool.MAX_GAMES", 2)
    spool = fill(opened(tmp_path), 1, 2)
    assert spool.full
    spool.delete(uid(1))
    assert not spool.full
    spool.set_aside(uid(2), "rejected: illegal_action")
    assert (spool.games, spool.bytes) == (0, 0)
    assert (tmp_path / "rejected" / f"{uid(2).hex()}.game").read_bytes() == to_bytes(record(2))
    monkeypatch.setattr("client.spool.MAX_BYTES", 10)
    assert fill(Spool(tmp_path), 3).full


@pytest.mark.parametrize(
    "look",
    [
        lambda spool: spool.read(uid(1)),
        lambda spool: spool.delete(uid(1)),
        lambda spool: spool.set_aside(uid(1), "illegal_action"),
        lambda spool: spool.keep(uid(1), "wrong_settings", Terms("here", 5)),
    ],
)
def test_a_game_whose_file_is_gone_counts_no_more(tmp_path: Path, look: Callable[[Spool], object]) -> None:
    spool = fill(opened(tmp_path), 1, 2)
    (tmp_path / f"{uid(1).hex()}.game").unlink()
    look(spool)
    assert (spool.games, spool.bytes) == (1, len(to_bytes(record(2))))


def test_a_game_that_the_disk_does_not_let_go_still_counts(tmp_path, monkeypatch) -> None:
    """A full disk cannot take the reason, so the game stays where it is, and the counts stay as they are."""
    spool = fill(opened(tmp_path), 1)
    bytes_before = spool.bytes

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            spool.set_aside(uid(1), "rejected: illegal_action")
    assert (spool.games, spool.bytes) == (1, bytes_before)


def test_rejected_games_are_kept_in_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that rejects everything does not fill the disk."""
    monkeypatch.setattr("client.spool.MAX_REJECTED", 2)
    spool = fill(opened(tmp_path), 1, 2, 3)
    for number in (1, 2, 3):
        spool.set_aside(uid(number), "rejected")
    assert {path.stem for path in (tmp_path / "rejected").glob("*.game")} == {uid(2).hex(), uid(3).hex()}
    assert len(list((tmp_path / "rejected").iterdir())) == 4


def test_two_workers_cannot_own_one_folder(tmp_path: Path) -> None:
    """The second one is told what to do, and may try again; the lock ends with its owner."""
    _, lock = claim(tmp_path, 1)
    with lock, ends(Exit.TRY_AGAIN, "--spool"):
        claim(tmp_path, 1)
    claim(tmp_path, 1)[1].close()


def test_the_first_worker_takes_over_games_of_folders_without_an_owner(tmp_path: Path) -> None:
    """Starting fewer workers than last time leaves no game behind; folders in use are not touched."""
    for index in (1, 2):
        fill(opened(tmp_path / f"worker-{index}"), index)
    (alive, lock), (first, other) = claim(tmp_path, 2), claim(tmp_path, 0)
    with lock, other:
        assert list(Spool(first).open()) == [uid(1)]
        assert list(Spool(alive).open()) == [uid(2)]


def test_the_first_worker_leaves_the_games_of_workers_that_start_after_it(tmp_path: Path) -> None:
    """Otherwise its spool would grow beyond the limit, and theirs would be filled again."""
    for index in (1, 5):
        fill(opened(tmp_path / f"worker-{index}"), index)
    for index, games in ((0, [uid(5)]), (1, [uid(1)])):
        folder, lock = claim(tmp_path, index, of=2)
        with lock:
            assert list(Spool(folder).open()) == games


def test_a_folder_that_cannot_be_made_ends_with_a_message(tmp_path: Path) -> None:
    """A file stands in its way."""
    (tmp_path / "file").write_text("")
    with ends(Exit.DISK):
        claim(tmp_path / "file", 0)


def test_a_runs_folder_stays_inside_the_root(tmp_path: Path) -> None:
    """Run names come from the server."""
    assert run_folder(tmp_path, "chess", "../../etc", b"i" * 16).parent == tmp_path
    assert run_folder(tmp_path, "chess", "a", b"i" * 16) != run_folder(tmp_path, "chess", "b", b"i" * 16)


def test_games_of_a_run_follow_it_to_another_name(tmp_path: Path) -> None:
    """The run was moved or restored from a backup; the trainer knows its games by the run's identity."""
    before, after = (run_folder(tmp_path, "chess", name, b"i" * 16) for name in ("monday", "tuesday"))
    stranger = run_folder(tmp_path, "chess", "monday", b"j" * 16)
    fill(opened(before / "worker-1"), 1)
    fill(opened(stranger / "worker-0"), 2)
    folder, lock = claim(after, 0)
    with lock:
        assert list(Spool(folder).open()) == [uid(1)]
        assert list(Spool(stranger / "worker-0").open()) == [uid(2)]
