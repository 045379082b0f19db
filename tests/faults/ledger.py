"""Records what clients finished and were told, and checks that every game is in a store, in a spool or among
the rejected ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from azselfplay.store.sqlite import connect
from client.spool import KEPT, SUFFIX
from protocol.messages import GameAck
from protocol.records import sha256


class Announced(Protocol):
    """Weights by their version and hash."""

    @property
    def version(self) -> int: ...

    @property
    def sha256(self) -> bytes: ...


Game = tuple[bytes, bytes]
"""Uid and sha256, because two games may have the same uid."""


class Ledger:
    """Notes kept outside all processes, so that they survive them."""

    def __init__(self) -> None:
        self.uids: list[tuple[str, bytes]] = []
        """Client and uid of finished games, in order."""
        self.made: set[Game] = set()
        """Games that reached their end: they may or may not be on a disk."""
        self.finished: dict[Game, str] = {}
        """The client of each game that it was told is safe on its disk."""
        self.answers: Counter[str] = Counter()
        """Answers by status."""
        self.promised: set[bytes] = set()
        """Uids of games that a client was told are stored."""
        self.learned: Counter[bytes] = Counter()
        """How often each game was passed to training."""
        self.published: dict[bytes, int] = {}
        """Version of each published file of weights, by its hash."""
        self.wrong_weights: list[str] = []
        """Who used weights other than those announced."""
        self.used_weights = 0
        self.answered_leaves = self.wrong_leaves = 0

    def played(self, client: str, uid: bytes, digest: bytes) -> None:
        self.uids.append((client, uid))
        self.made.add((uid, digest))

    def kept(self, client: str, uid: bytes, digest: bytes) -> None:
        self.finished[uid, digest] = client

    def acknowledged(self, ack: GameAck) -> None:
        self.answers[ack.status] += 1
        if ack.status in ("stored", "duplicate"):
            self.promised.add(ack.uid)

    def trained(self, uids: Iterable[bytes]) -> None:
        self.learned.update(uids)

    def uses(self, who: str, info: Announced, data: bytes) -> None:
        """Note that `who` uses these bytes as the weights that `info` announces."""
        self.used_weights += 1
        if sha256(data) != info.sha256:
            self.wrong_weights.append(f"{who} uses other bytes than version {info.version} has")
        elif self.published.get(info.sha256) != info.version:
            self.wrong_weights.append(f"{who} uses version {info.version}, which nobody has published")

    def leaves(self, rows: int, *, is_mine: bool) -> None:
        self.answered_leaves += rows
        self.wrong_leaves += 0 if is_mine else rows


@dataclass(frozen=True)
class OnDisk:
    """Where games are now."""

    stored: list[Game]
    refused: set[Game]
    """In the store's table of rejected games."""
    spooled: set[bytes]
    """Uids in any spool, waiting or kept for other terms."""
    counted: int = 0
    """Number of games according to the trainer."""

    @classmethod
    def read(cls, database: Path, spools: Iterable[Path], counted: int | None = None) -> OnDisk:
        """`counted`: the running trainer's count, if there is one."""
        stored: list[Game] = []
        refused: set[Game] = set()
        if database.exists():
            with closing(connect(database, read_only=True)) as connection:
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
                if "games" in tables:  # missing after a kill before the first transaction
                    stored = list(connection.execute("SELECT uid, sha256 FROM games"))
                    refused = set(connection.execute("SELECT uid, sha256 FROM rejects"))
        folders = [one for spool in spools for one in (spool, spool / KEPT)]
        waiting = {bytes.fromhex(path.stem) for one in folders for path in one.glob(f"*{SUFFIX}")}
        return cls(stored, refused, waiting, len(stored) if counted is None else counted)


def faults(ledger: Ledger, disk: OnDisk) -> list[str]:
    """Return every broken promise, at any moment: what was lost, counted twice, or given to the wrong
    peer."""
    stored = set(disk.stored)
    uids = [uid for uid, _ in disk.stored]
    found = [
        f"P1: game {uid.hex()[:8]} of {client} was finished and is nowhere"
        for (uid, digest), client in ledger.finished.items()
        if (uid, digest) not in stored | disk.refused and uid not in disk.spooled
    ]
    lost = ledger.promised - set(uids)
    found += [f"P1: game {uid.hex()[:8]} was acknowledged and is not stored" for uid in lost]
    if twice := len(uids) - len(set(uids)):
        found.append(f"P2: {twice} games are stored twice")
    if disk.counted != len(uids):
        found.append(f"P2: the trainer counts {disk.counted} games, and has {len(uids)}")
    learned = ledger.learned.items()
    found += [f"P2: game {uid.hex()[:8]} was trained on {n} times" for uid, n in learned if n > 1]
    found += [f"P3: game {uid.hex()[:8]} is stored and was never played" for uid, _ in stored - ledger.made]
    found += [f"P6: {what}" for what in ledger.wrong_weights]
    if ledger.wrong_leaves:
        found.append(f"P4: {ledger.wrong_leaves} leaves got an answer that belongs to others")
    return found


def unfinished(disk: OnDisk) -> list[str]:
    """Return what should have finished by now, when all parts run and the network works."""
    return [f"game {uid.hex()[:8]} still waits in a spool" for uid in disk.spooled]
