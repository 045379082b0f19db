"""A backup shows one moment and is whole or recognisably incomplete; only a whole one is restored."""

import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from games_runs import records
from in_process import azplay_here, ends
from training_runs import GAME, training

from azselfplay.host import folders as whole_folders
from azselfplay.host.config import load
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.processes import python_module
from azselfplay.host.runs import RunFolder, has_final_figures
from azselfplay.lab.backups import About, Identity, _verify, make_backup, restore
from azselfplay.lab.report.settings import NOTES
from azselfplay.link.finding import newest_weights
from azselfplay.store.copying import copy_games
from azselfplay.store.sqlite import Store
from bench.random_games import entry, random_game
from client.spool import Spool, run_folder
from protocol.records import GameRecord, to_bytes
from server.weights import WeightsStore
from trainer.checkpoint import progress_at
from trainer.config import TrainerConfig

GAMES_A_VERSION = 7
"""A small odd number, so that backups are made in all states."""


class LiveRun(threading.Thread):
    """Plays random games of tic-tac-toe: each is spooled, stored, then deleted from the spool. Every few
    games it publishes new weights and writes a checkpoint."""

    def __init__(self, root: Path, name: str = "live") -> None:
        super().__init__(daemon=True)
        self.folder = RunFolder(root, name)
        self.folder.create(GAME.name, 1)
        self.folder.config.write_text('net = "tiny"\n')
        spool = run_folder(self.folder.spool, GAME.name, name, self.folder.run_id) / "worker-0"
        spool.mkdir(parents=True)
        self._spool = Spool(spool)
        self._spool.open()
        self._store = Store(self.folder.games, GAME.name)
        self._weights = WeightsStore(self.folder.weights, GAME.name, kept=2, past=2)
        self._training = training(self.folder.checkpoints)
        self._rng = np.random.default_rng(0)
        self.finished: list[bytes] = []
        """Uids of all games that are on the disk, in any place."""
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self._publish()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.play(1)
        except BaseException as error:  # `stop` fails if there is one
            self.error = error

    def stop(self) -> None:
        self.stopping.set()
        if self.ident is not None:
            self.join()
        assert self.error is None
        self._store.close()

    def play(self, count: int, *, stored: bool = True) -> None:
        for _ in range(count):
            record = self._game()
            self._spool.write([(record.uid, to_bytes(record))])
            self.finished.append(record.uid)
            if not stored:
                continue
            assert self._store.commit([entry(record)]) == ["stored"]
            self._spool.delete(record.uid)
            self._training.turn([record], self._store.last_seq, 10**6)
            if self._store.last_seq % GAMES_A_VERSION == 0:
                self._publish()
                self._training.save()

    def _game(self) -> GameRecord:
        current = self._weights.current
        assert current is not None
        record = random_game(GAME, self._rng, simulations=20)
        versions = np.full(record.plies, current.version, np.uint32)
        return dataclasses.replace(record, versions=versions, run=self.folder.run_id)

    def _publish(self) -> None:
        newest = self._weights.current.version if self._weights.current else 0
        version, step, data = self._training.export_weights(newest)
        self._weights.add(data, version, step, "tiny")


def no_word(text: str) -> None:
    pass


def backed_up(run: LiveRun, target: Path) -> About:
    return make_backup(run.folder, target, no_word)


def restored(
    backup: Path, root: Path, name: str = "live", identity: Identity = "auto", *, verify: bool = True
) -> RunFolder:
    run = RunFolder(root, name)
    restore(backup, run, identity, verify_games=verify, say=no_word)
    return run


def stored(run: RunFolder) -> dict[bytes, tuple[int, int]]:
    """Return (number, highest version) of all games, by uid."""
    with sqlite3.connect(f"file:{run.games}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT uid, seq, version_max FROM games").fetchall()
    return {uid: (seq, version) for uid, seq, version in rows}


def waiting(run: RunFolder) -> set[bytes]:
    return {bytes.fromhex(path.stem) for path in run.spool.rglob("*.game")}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LiveRun]:
    live = LiveRun(tmp_path / "runs")
    live.play(15)
    yield live
    live.stop()


def test_backups_of_a_run_that_is_written_to_are_consistent(run: LiveRun, tmp_path: Path) -> None:
    """No finished game is missing, all acknowledged games are there, and no version is given out twice."""
    run.start()
    for number in range(6):
        finished = list(run.finished)
        about = backed_up(run, tmp_path / f"backup-{number}")
        copy = restored(tmp_path / f"backup-{number}", tmp_path / str(number))
        games = stored(copy)
        assert set(finished) <= set(games) | waiting(copy)
        assert about.games == len(games) >= 15
        checkpoints = [progress_at(path) for path in copy.checkpoints.glob("*.state")]
        assert max(one.step for one in checkpoints) == about.step
        assert max(one.last_seq for one in checkpoints) <= max(seq for seq, _ in games.values())
        current = json.loads((copy.weights / "current.json").read_bytes())["version"]
        assert max(version for _, version in games.values()) <= current == about.weights
        assert newest_weights(copy).exists()
    assert len(run.finished) > len(finished), "it was written to all the time"


def test_a_restored_run_has_its_notes_and_looks_as_finished_as_the_run(run: LiveRun, tmp_path: Path) -> None:
    (run.folder.path / NOTES).write_text("a try")
    run.folder.figures_log.write_text('{"step": 1}\n')
    os.utime(run.folder.figures_log, (1, 1))
    run.folder.write_figures({"step": 1})
    backed_up(run, tmp_path / "backup")
    copy = restored(tmp_path / "backup", tmp_path / "new")
    assert (copy.path / NOTES).read_text() == "a try"
    assert has_final_figures(copy)


def test_restore_goes_on_as_the_trainer_of_the_run_if_asked_to(
    run: LiveRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checkpoint may lag behind the store: trainer/test_quarantine.py."""
    run.folder.trainer_config.write_text("optimizer.batch = 64\n")
    backed_up(run, tmp_path / "backup")
    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, words: became.append(words))
    new = RunFolder(tmp_path / "new", "live")
    restore_command = azplay_here(monkeypatch, capsys)
    done = restore_command("restore", str(tmp_path / "backup"), str(new.path), "--train-for", "gpu-box")
    assert (done.returncode, len(stored(new))) == (Exit.OK, 15)
    of_run = ["--server", "gpu-box", "--runs", str(tmp_path / "new"), "--run", "live"]
    flags = ["--config", str(new.trainer_config), *of_run]
    assert became == [python_module("trainer", *flags)]
    config = load(TrainerConfig, flags, command="trainer", examples=("", "", ""))
    assert (config.optimizer.batch, config.run) == (64, "live")


def test_a_game_that_waits_is_in_the_backup_whatever_becomes_of_it(run: LiveRun, tmp_path: Path) -> None:
    """It waits in the spool, or is kept there with the reason for its refusal (settings, weights or run)."""
    run.play(2, stored=False)
    first, second = sorted(run.folder.spool.rglob("*.game"))
    kept = first.parent / "kept" / first.name
    first.rename(kept)
    kept.with_suffix(".reason").write_text("unknown_version: 9\n")
    backed_up(run, tmp_path / "backup")
    copy = restored(tmp_path / "backup", tmp_path / "new", "other")
    found = {path.relative_to(copy.spool).parts for path in copy.spool.rglob("*.*") if path.is_file()}
    folder = f"tic_tac_toe-live+{run.folder.run_id.hex()[:12]}"
    assert found == {
        (folder, "worker-0", second.name),
        (folder, "worker-0", "kept", first.name),
        (folder, "worker-0", "kept", f"{first.stem}.reason"),
    }


def test_the_folder_of_a_server_or_of_a_trainer_alone_can_be_backed_up(run: LiveRun, tmp_path: Path) -> None:
    server, trainer = tmp_path / "server" / "live", tmp_path / "trainer" / "live"
    for path in (server, trainer):
        shutil.copytree(run.folder.path, path, symlinks=True)
    (server / "games.db").unlink()
    shutil.rmtree(server / "checkpoints")
    shutil.rmtree(trainer / "weights")
    of_server = make_backup(RunFolder(server.parent, "live"), tmp_path / "a", no_word)
    of_trainer = make_backup(RunFolder(trainer.parent, "live"), tmp_path / "b", no_word)
    assert (of_server.games, of_server.step, of_trainer.weights) == (None, None, None)
    assert (of_trainer.games, of_server.weights) == (15, 3)
    assert restored(tmp_path / "a", tmp_path / "c").run_id == run.folder.run_id
    assert len(stored(restored(tmp_path / "b", tmp_path / "d"))) == 15


def killed_at(point: int, work: Callable[[], object]) -> bool:
    """Do the work in a child process that is killed at its fsync number `point`. Return False if it
    finished."""
    child = os.fork()
    if not child:
        calls = iter(range(point + 1))

        def sync(handle: int) -> None:
            if next(calls) == point:
                os.kill(os.getpid(), signal.SIGKILL)

        whole_folders.os.fsync = sync  # type: ignore[attr-defined]
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_a_backup_killed_at_any_point_is_none_or_whole(run: LiveRun, tmp_path: Path) -> None:
    target, point = tmp_path / "backup", 0
    partial = tmp_path / "backup.partial"
    while killed_at(point, lambda: backed_up(run, target)):
        if target.exists():
            restored(target, tmp_path / f"at-{point}")
            shutil.rmtree(target)
        else:
            assert partial.exists()
            with ends(Exit.BAD_DATA, "incomplete backup"):
                restored(partial, tmp_path / "none")
        point += 1
    assert point > 10
    assert target.exists()
    assert not partial.exists()


def test_a_restore_killed_at_any_point_leaves_no_run(run: LiveRun, tmp_path: Path) -> None:
    backed_up(run, tmp_path / "backup")
    point, root = 0, tmp_path / "new"
    while killed_at(point, lambda: restored(tmp_path / "backup", root)):
        if (root / "live").exists():
            assert len(stored(RunFolder(root, "live"))) == 15
            shutil.rmtree(root / "live")
        point += 1
    assert point > 10
    assert [path.name for path in root.iterdir()] == ["live"]


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def test_a_flipped_byte_anywhere_in_a_backup_is_found(run: LiveRun, tmp_path: Path) -> None:
    run.play(1, stored=False)
    backed_up(run, tmp_path / "backup")
    files = [path for path in sorted((tmp_path / "backup").rglob("*")) if path.is_file()]
    places = [(path, at) for path in files for at in {0, path.stat().st_size // 2, path.stat().st_size - 1}]
    assert len(places) > 30
    for path, at in places:
        _flip(path, at)
        with ends(Exit.BAD_DATA):
            restored(tmp_path / "backup", tmp_path / "new")
        assert list((tmp_path / "new").glob("*")) == []
        _flip(path, at)
    restored(tmp_path / "backup", tmp_path / "new")


@pytest.mark.parametrize("change", ["less", "more"])
def test_a_file_too_few_or_too_many_is_found(run: LiveRun, tmp_path: Path, change: str) -> None:
    backed_up(run, tmp_path / "backup")
    if change == "less":
        (tmp_path / "backup" / "games.db").unlink()
    else:
        (tmp_path / "backup" / "games.db-wal").write_bytes(b"of another database")
    with pytest.raises(Fatal, match="missing" if change == "less" else "do not belong"):
        restored(tmp_path / "backup", tmp_path / "new")


def test_a_game_against_the_rules_is_found_though_its_hash_is_right(run: LiveRun, tmp_path: Path) -> None:
    """The store was damaged before the backup was made. With the right flag it is restored as it is."""
    with sqlite3.connect(run.folder.games) as database:
        database.execute("UPDATE games SET outcome = -outcome, reason = 'board_full' WHERE seq = 3")
    backed_up(run, tmp_path / "backup")
    said, into = list[str](), RunFolder(tmp_path / "a", "x")
    with ends(Exit.BAD_DATA, "1 games were damaged before"):
        restore(tmp_path / "backup", into, "auto", verify_games=True, say=said.append)
    assert said[0].startswith("game 3: damaged: ")
    assert len(stored(restored(tmp_path / "backup", tmp_path / "b", verify=False))) == 15


def test_games_whose_records_were_dropped_are_counted_but_not_checked(tmp_path: Path) -> None:
    path, games = tmp_path / "games.db", records("tic_tac_toe", 8)
    with closing(Store(tmp_path / "old.db", "tic_tac_toe", keep=3)) as store:
        store.commit([entry(one) for one in games])
        copy_games(tmp_path / "old.db", path)
    about, said = About(1, "", "", "live", "", "tic_tac_toe", 8, None, None), list[str]()
    _verify(path, about, said.append)
    assert said == ["3 games checked, 0 bad"]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM games WHERE seq = 1")
    with pytest.raises(Fatal, match="has 7 games, backup"):
        _verify(path, about, said.append)


def test_nothing_is_written_over(run: LiveRun, tmp_path: Path) -> None:
    """Whatever --identity is, the message is about the name."""
    backed_up(run, tmp_path / "backup")
    with ends(Exit.CONFIG, "exists already"):
        backed_up(run, tmp_path / "backup")
    for identity in get_args(Identity):
        with ends(Exit.CONFIG, r"live exists already.*move it away first \(mv \S+live \S+live-old\)"):
            restored(tmp_path / "backup", run.folder.path.parent, identity=identity)


def test_two_runs_of_one_identity_do_not_stand_side_by_side_by_mistake(run: LiveRun, tmp_path: Path) -> None:
    backed_up(run, tmp_path / "backup")
    with pytest.raises(Fatal, match="--identity new"):
        restored(tmp_path / "backup", tmp_path / "runs", "copy")
    assert restored(tmp_path / "backup", tmp_path / "runs", "kept", "keep").run_id == run.folder.run_id


def test_a_copy_with_a_new_identity_is_another_run(run: LiveRun, tmp_path: Path) -> None:
    """Waiting games belong to the run that goes on, and stay with it."""
    run.play(1, stored=False)
    backed_up(run, tmp_path / "backup")
    copy = restored(tmp_path / "backup", tmp_path / "runs", "copy", "new")
    assert waiting(copy) == set()
    assert len(stored(copy)) == 15
    copy.create("tic_tac_toe", 1)
    assert len(copy.run_id) == 16
    assert copy.run_id != run.folder.run_id


def test_one_backup_at_a_time_is_made_in_a_place(run: LiveRun, tmp_path: Path) -> None:
    with whole_folders.filled(tmp_path / "backup"), pytest.raises(Fatal, match="another process is filling"):
        backed_up(run, tmp_path / "backup")
