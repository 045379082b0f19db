"""The real writers of spool, weights and store, and what remains after a power loss at any moment of their
work."""

import hashlib
import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest import mock

import apsw
from client_records import record, uid
from recording import VFS, FileRecorder, RecordingVFS
from write_log import Promised, State, WriteLog, lay_out

import azselfplay.store.sqlite
from azselfplay.host.exits import Fatal
from azselfplay.store.sqlite import Entry, Reject, Store
from client.spool import Spool, Terms
from protocol.errors import Code
from protocol.messages import WeightsInfo
from protocol.records import sha256, to_bytes
from server.weights import WeightsStore

BATCH = 3
"""Number of games written or committed together."""
_vfs = RecordingVFS()


def crash_everywhere(
    log: WriteLog, check: Callable[[Path, set[bytes]], None], *, subsets: int, seed: int, every: int = 1
) -> int:
    """Lay out every state that a crash may leave, and let `check` open it. Returns the number of states."""
    count = 0
    rng = random.Random(seed)
    for at in range(0, len(log.entries) + 1, every):
        seen: set[tuple[tuple[str, bytes], ...]] = set()
        for state in log.states(at, rng, subsets):
            if (key := _key(state)) not in seen:
                seen.add(key)
                with tempfile.TemporaryDirectory() as folder:
                    lay_out(state, Path(folder))
                    check(Path(folder), log.promised(at))
                count += 1
    return count


def _key(state: State) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, hashlib.sha256(data).digest()) for name, data in sorted(state.items()))


# ---- the spool -----------------------------------------------------------------------------------


def spool_log(folder: Path, kind: type[Spool] = Spool) -> WriteLog:
    """Record a spool that accepts games, restores some, keeps and sets aside others, and deletes the rest."""
    spool = kind(folder)
    spool.open()
    recorder = FileRecorder(folder)
    entries = recorder.log.entries
    with recorder.recording():
        for first in range(0, 4 * BATCH, BATCH):
            games = [record(number) for number in range(first, first + BATCH)]
            spool.write([(one.uid, to_bytes(one)) for one in games])
            entries += [Promised(one.uid) for one in games]
        spool.keep(uid(1), f"{Code.WRONG_SETTINGS}: other simulations", Terms("old", 0))
        spool.keep(uid(2), f"{Code.WRONG_SETTINGS}: other simulations", Terms("old", 0))
        spool.take_back(Terms("new", 0))
        for number in (0, 3):
            entries.append(Promised(uid(number), holds=False))  # the trainer has it
            spool.delete(uid(number))
        entries.append(Promised(uid(4), holds=False))
        spool.set_aside(uid(4), "rejected: illegal_action")
    return recorder.log


def check_spool(folder: Path, promised: set[bytes]) -> None:
    """Check that everything promised is there and can be sent, at once or when terms change."""
    spool = Spool(folder)
    found = set(spool.open()) | set(spool.take_back(Terms("newest", 0)))
    missing = {one.hex() for one in promised - found}
    assert not missing, f"P1: lost from the spool: {sorted(missing)}"
    for one in found:
        game = spool.read(one)
        assert game is not None or one not in promised, f"P1: {one.hex()} cannot be read"
    assert not list(folder.glob("*.tmp"))


# ---- weights -------------------------------------------------------------------------------------


def weights_log(folder: Path) -> WriteLog:
    """Record three versions of weights: one made here, two uploaded in chunks and taken into use."""
    weights = WeightsStore(folder, "tic_tac_toe", kept=1, past=0)
    recorder = FileRecorder(folder)
    with recorder.recording():
        infos = [weights.add(b"untrained" * 200, 0, 0, "tiny")]
        recorder.log.entries.append(Promised(infos[0].sha256))
        for version in (1, 2):
            data = bytes([version]) * 1500
            info = WeightsInfo(version, version, sha256(data), len(data), "tic_tac_toe", "tiny")
            weights.put(info, data)
            recorder.log.entries.append(Promised(infos[-1].sha256, holds=False))
            weights.adopt(info)
            recorder.log.entries.append(Promised(info.sha256))
            infos.append(info)
    return recorder.log


def check_weights(folder: Path, promised: set[bytes]) -> None:
    """Check that the current weights are intact and not older than promised. Only a new run may have none."""
    try:
        current = WeightsStore(folder, "tic_tac_toe").open()
    except Fatal as fatal:
        raise AssertionError(f"P6: the run cannot start: {fatal}") from fatal
    if promised:
        assert current is not None, "P6: current weights are gone"
        assert current.sha256 in promised, "P6: older weights are current again"


# ---- the store -----------------------------------------------------------------------------------


def store_log(folder: Path, commits: int = 6, pragma: str = "") -> WriteLog:
    """Record commits of games, including a rejected one and a duplicate, and a checkpoint of the log.

    `pragma`: a setting that breaks the durability.
    """
    log = _vfs.begin()
    path = folder / "games.db"

    def recorded(path: Path, *, read_only: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        return apsw.Connection(str(path), flags=flags, vfs=VFS)

    with mock.patch.object(azselfplay.store.sqlite, "connect", recorded):
        games = Store(path, "tic_tac_toe")
    if pragma:
        games._connection.execute(pragma)
    for number in range(commits):
        records = [record(BATCH * number + at) for at in range(BATCH)] + [record(0)]
        entries = [_entry(to_bytes(one), one.uid) for one in records]
        statuses = games.commit(entries, [Reject(uid(10**6), bytes(32), "clients", "rejected", "why", b"x")])
        log.entries += [
            Promised(one.uid) for one, status in zip(entries, statuses, strict=False) if status == "stored"
        ]
        if number == commits // 2:
            games._connection.execute("PRAGMA wal_checkpoint(RESTART)")
    games.close()
    return log


def _entry(data: bytes, name: bytes) -> Entry:
    return Entry(name, sha256(data), "clients", 1, 0, "ply_cap", 0, 0, data)


def check_store(folder: Path, promised: set[bytes]) -> None:
    """Check that the file is intact, and every acknowledged game is in it, once, with its original bytes."""
    path = folder / "games.db"
    games = Store(path, "tic_tac_toe")
    counted = games.totals.games.total()
    games.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = list(connection.execute("SELECT uid FROM games"))
    found = [name for (name,) in rows]
    assert promised <= set(found), f"P1: {len(promised - set(found))} acknowledged games are gone"
    assert len(found) == len(set(found)) == counted, "P2: a game counts twice"
