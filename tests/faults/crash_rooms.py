"""Scenarios for crash points, and their checks. A small part of the system works in a folder, so that the
successor of a killed process can continue there.

A process notes its promises in a ledger in that folder, with an fsync: they must hold afterwards.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from client_records import record, uid
from ledger import OnDisk

from azselfplay.store.archive import Archive, open_archive
from azselfplay.store.sqlite import Entry, Reject, Store
from client.spool import Spool, Terms, claim
from client.uploader import Uploader
from protocol.errors import Code
from protocol.messages import GameAck, PutGame, WeightsInfo
from protocol.records import FORMAT, sha256, to_bytes
from server.weights import WeightsStore

GAMES = 14
BREAKS_RULES, OTHER_TERMS = 3, 5
"""Remainders modulo 7 of the games that are refused: for good, and until the terms have changed."""


class Notes:
    """A ledger on disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notes"

    def add(self, *words: object) -> None:
        with self._path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def all(self, kind: str) -> list[str]:
        """Return everything noted under this kind."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]


# ---- games: from the end of a game to the acknowledgement ------------------------------------------


class GamesRoom:
    """An Uploader on a real Spool, and behind it a real Store that answers."""

    def __init__(self, folder: Path, *, acknowledges_first: bool = False, loses_disk: bool = False) -> None:
        """`acknowledges_first` is the fault that the check must catch. With `loses_disk` it begins without
        the games.db of its last life, and has an archive."""
        self._notes = Notes(folder)
        self._archive: Archive | None = None
        if loses_disk:
            self._store, self._archive = on_empty_disk(folder)
        else:
            self._store = Store(folder / "games.db", "tic_tac_toe")
        self._spool = Spool(folder / "spool")
        self._terms = Terms("old", 0)
        self._acknowledges_first = acknowledges_first

    async def live(self) -> None:
        uploader = self._uploader = Uploader(self._spool, self._send)
        running = asyncio.create_task(uploader.run())
        await uploader.room.wait()  # the files of an earlier run have been found
        uploader.joined(self._terms)
        kept = set(self._notes.all("kept"))
        for number in range(GAMES):
            if str(number) not in kept:
                await uploader.save(record(number))
                self._notes.add("kept", number)
        await self._rest()
        self._terms = Terms("new", 0)
        uploader.joined(self._terms)
        while self._spool.kept:
            await _turn()
        await self._rest()
        while self._spool.games or self._spool.kept:
            await _turn()
        running.cancel()
        self._store.close()

    async def _rest(self) -> None:
        while self._spool.games:
            await self._uploader.quiet.wait()
            await _turn()

    def _send(self, put: PutGame, data: bytes) -> bool:
        asyncio.get_running_loop().call_soon(self._answer, put, data)
        return True

    def _answer(self, put: PutGame, data: bytes) -> None:
        number = int.from_bytes(put.uid, "big") % 7
        refusal = ""
        # Rejected games are lost with the disk.
        if number == BREAKS_RULES and self._archive is None:
            refusal = "illegal_action: ply 1"
        elif number == OTHER_TERMS and self._terms.settings == "old":
            refusal = f"{Code.WRONG_SETTINGS}: other simulations"
        if self._acknowledges_first and not refusal:
            self._tell(GameAck(put.uid, "stored"))
        entry = Entry(put.uid, put.sha256, "clients", 1, 0, "ply_cap", 0, 0, data)
        reject = Reject(put.uid, put.sha256, "clients", "rejected", refusal, data)
        (status,) = self._store.commit([] if refusal else [entry], [reject] if refusal else [])
        assert self._archive is None or self._archive.archive_games(self._store)
        if not self._acknowledges_first or refusal:
            self._tell(GameAck(put.uid, status, refusal))

    def _tell(self, ack: GameAck) -> None:
        if ack.status in ("stored", "duplicate"):
            self._notes.add("stored", int.from_bytes(ack.uid, "big"))
        self._uploader.acknowledged(ack)


async def _turn() -> None:
    """Let other tasks run."""
    await asyncio.sleep(0)


def games(folder: Path) -> None:
    asyncio.run(GamesRoom(folder).live())


def on_empty_disk(folder: Path) -> tuple[Store, Archive]:
    for file in folder.glob("games.db*"):
        file.unlink()
    (folder / "archive").mkdir(exist_ok=True)
    store, archive = Store(folder / "games.db", "tic_tac_toe"), open_archive(str(folder / "archive"))
    assert archive is not None
    archive.begin({"format": FORMAT, "game": "tic_tac_toe", "id": ""}, store)
    return store, archive


def check_archived(folder: Path, *, at_end: bool) -> list[str]:
    store, _ = on_empty_disk(folder)
    store.close()
    return check_games(folder, at_end=at_end)


def games_archived(folder: Path) -> None:
    for _ in range(2):  # the second reads back what the first has archived
        asyncio.run(GamesRoom(folder, loses_disk=True).live())


def games_acknowledged_first(folder: Path) -> None:
    asyncio.run(GamesRoom(folder, acknowledges_first=True).live())


def check_games(folder: Path, *, at_end: bool) -> list[str]:
    disk = OnDisk.read(folder / "games.db", [folder / "spool"])
    stored = [name for name, _ in disk.stored]
    kept = {uid(int(number)) for number in Notes(folder).all("kept")}
    acknowledged = {uid(int(number)) for number in Notes(folder).all("stored")}
    refused = {name for name, _ in disk.refused}
    found = [f"finished and nowhere: {name.hex()}" for name in kept - set(stored) - disk.spooled - refused]
    found += [f"acknowledged and not stored: {name.hex()}" for name in acknowledged - set(stored)]
    if len(stored) != len(set(stored)):
        found.append("a game is stored twice")
    if at_end:
        honest = {uid(number) for number in range(GAMES) if number % 7 != BREAKS_RULES}
        found += [f"not stored in the end: {name.hex()}" for name in honest - set(stored)]
        found += [f"still in the spool: {name.hex()}" for name in disk.spooled]
    return found


# ---- a folder without an owner ---------------------------------------------------------------------


def takeover(folder: Path) -> None:
    root = folder / "run"
    other = root / "worker-1"
    if not Notes(folder).all("begun"):
        for part in (other, other / "kept"):
            part.mkdir(parents=True, exist_ok=True)
        for number in range(4):
            (other / f"{uid(number).hex()}.game").write_bytes(to_bytes(record(number)))
        (other / "kept" / f"{uid(9).hex()}.game").write_bytes(to_bytes(record(9)))
        Notes(folder).add("begun", 1)
    claim(root, 0)[1].close()


def check_takeover(folder: Path, *, at_end: bool) -> list[str]:
    if not Notes(folder).all("begun"):
        return []
    mine = folder / "run" / "worker-0"
    owners = [mine] if at_end else [mine, folder / "run" / "worker-1"]
    found = OnDisk.read(folder / "none", owners).spooled
    return [f"gone: {name.hex()}" for name in {*map(uid, range(4)), uid(9)} - found]


# ---- weights ---------------------------------------------------------------------------------------


def weights(folder: Path) -> None:
    notes, store = Notes(folder), WeightsStore(folder, "tic_tac_toe", kept=1, past=0)
    current = store.open()
    if current is None:
        current = store.add(b"untrained", 0, 0, "tiny")
        notes.add("current", 0)
    for version in range(current.version + 1, 4):
        data = bytes([version]) * 1500
        info = WeightsInfo(version, version, sha256(data), len(data), "tic_tac_toe", "tiny")
        store.put(info, data)
        store.adopt(info)
        notes.add("current", version)


def check_weights(folder: Path, *, at_end: bool) -> list[str]:
    current = WeightsStore(folder, "tic_tac_toe").open()
    promised = max(map(int, Notes(folder).all("current")), default=-1)
    version = -1 if current is None else current.version
    found = [] if version >= promised else [f"weights {version} are current again, {promised} were"]
    if at_end and (version != 3 or list(folder.glob("*.partial"))):
        found.append(f"weights {version} in the end, and parts are left: {list(folder.glob('*.partial'))}")
    return found


# ---- checkpoints -----------------------------------------------------------------------------------


def _network() -> tuple[Any, bytes]:
    from azselfplay.games import get_game
    from net.architectures.network import build
    from net.architectures.registry import named
    from net.weights import WeightsMeta, to_bytes

    game, architecture = get_game("tic_tac_toe"), named("tiny")
    return game, to_bytes(build(architecture, game, 1), WeightsMeta(game.name, 1, architecture))


def checkpoint(folder: Path) -> None:
    from trainer import checkpoint as checkpoints

    game, weights = _network()
    newest = checkpoints.load_newest(folder, game, 1)
    step = 0 if newest is None else newest.progress.step
    for later in range(step + 1, 5):
        progress = checkpoints.Progress(later, 0, 0, 0, "sgd")
        checkpoints.save(folder, progress, weights, {}, np.random.default_rng(later))
        Notes(folder).add("saved", later)


def check_checkpoint(folder: Path, *, at_end: bool) -> list[str]:
    from trainer import checkpoint as checkpoints

    game, _ = _network()
    newest = checkpoints.load_newest(folder, game, 1)
    step = 0 if newest is None else newest.progress.step
    promised = 4 if at_end else max(map(int, Notes(folder).all("saved")), default=0)
    lost = f"the newest whole checkpoint is step {step}, {promised} was written"
    found = [] if step >= promised else [lost]
    if list(folder.glob("*.partial")):
        found.append("parts are left")
    return found


# ---- all of them -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """A scenario. `work(folder)` may be killed anywhere and called again; `check(folder, at_end)` lists what
    is wrong."""

    work: Callable[[Path], None]
    check: Callable[..., list[str]]
    points: tuple[str, ...]
    """Prefixes of the names of the crash points that it reaches."""


ROOMS = {
    "games": Room(games, check_games, ("spool.", "uploader.", "store.")),
    "games_archived": Room(games_archived, check_archived, ("store.", "archive.")),
    "takeover": Room(takeover, check_takeover, ("takeover.",)),
    "weights": Room(weights, check_weights, ("weights.", "atomic.")),
    "checkpoint": Room(checkpoint, check_checkpoint, ("checkpoint.", "atomic.")),
    "games_acknowledged_first": Room(games_acknowledged_first, check_games, ("store.",)),
}
IN_PROCESSES = ("trainer.acknowledged",)
"""Points that only a whole process reaches: see test_crash_points.py."""
