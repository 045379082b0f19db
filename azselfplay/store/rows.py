"""Rows of a games.db, checked before anything uses them.

A disk may return other bytes than were written, and a file may be edited by hand. Training replays records in
jitted code, which does not check where an action leads. So this module hands out a record only if its bytes
have the hash they were stored with and its numbers are possible in the game.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import zstandard

from azselfplay.games.spec import Game
from protocol.messages import MAX_RECORD
from protocol.records import BadRecord, GameRecord, check_bounds, from_bytes, sha256

log = logging.getLogger(__name__)

COLUMNS = (
    "seq, CAST(uid AS BLOB), CAST(sha256 AS BLOB), CAST(source AS BLOB), plies, outcome, "
    "CAST(reason AS BLOB), version_min, version_max, received_at"
)
"""The columns that `Stored.of` takes, of the table `games`; `CAST(data AS BLOB)` follows where records are
wanted. Blobs, because damaged text need not be UTF-8 and would end the query."""
DATA = "CAST(data AS BLOB)"
HAS_RECORD = (
    "NOT (length(data) = 0 AND "
    "seq <= coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'dropped'), 0))"
)
"""SQL: whether a game has a record. One whose record was dropped (`Store`) has none; one that is empty by
damage counts as a record."""
NAMED_IN_LOG = 100
"""Damaged games that are named one by one; later ones are only counted."""
REMEMBERED = 100_000
"""Damaged games that are remembered, so that a game that is read twice counts once."""

_LOCAL = threading.local()


def readable(text: bytes) -> str:
    """Return text of the store, with a mark for each byte that damage made unreadable."""
    return text.decode("utf-8", "replace")


@dataclass(frozen=True)
class Stored:
    """A row of the table: what the trainer noted when it stored the game."""

    seq: int
    uid: bytes
    sha256: bytes
    source: str
    plies: int
    outcome: int
    reason: str
    version_min: int
    version_max: int
    received_at: float
    data: bytes = b""
    """Compressed record, if it was requested."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> Stored:
        """Make a `Stored` from a row of COLUMNS, with or without DATA. Damaged numbers stay as they are."""
        # The columns that the query casts to BLOB: uid, sha256, source, reason, data.
        blobs = {1, 2, 3, 6, 10}
        columns: list[Any] = [bytes(value or b"") if at in blobs else value for at, value in enumerate(row)]
        columns[3], columns[6] = readable(columns[3]), readable(columns[6])
        return cls(*columns)

    def unpacked(self) -> bytes:
        """Return the record's bytes. Raises BadRecord unless they have the hash that they were stored
        with."""
        try:
            # Otherwise a damaged header could make the decompressor allocate any amount of memory.
            if zstandard.get_frame_parameters(self.data).content_size > MAX_RECORD:
                raise BadRecord(f"cannot be unpacked: it claims to have more than {MAX_RECORD} bytes")
            # One per thread, because creating one costs more than unpacking a game.
            unpacker: zstandard.ZstdDecompressor | None = getattr(_LOCAL, "decompressor", None)
            if unpacker is None:
                unpacker = _LOCAL.decompressor = zstandard.ZstdDecompressor()
            data = unpacker.decompress(self.data, max_output_size=MAX_RECORD)
        except zstandard.ZstdError as error:
            raise BadRecord(f"cannot be unpacked: {error}") from error
        if sha256(data) != self.sha256:
            raise BadRecord("its hash is not the one it was stored with")
        return data

    def record(self, game: Game) -> GameRecord:
        """Return the game's record. Raises BadRecord unless it is intact, agrees with the other columns, and
        is of `game`."""
        record = from_bytes(self.unpacked())
        versions = int(record.versions.min()), int(record.versions.max())
        pairs = (
            ("game", game.name, record.game),
            ("uid", self.uid.hex(), record.uid.hex()),
            ("plies", self.plies, record.plies),
            ("outcome", self.outcome, record.outcome),
            ("reason", self.reason, record.reason),
            ("weights versions", (self.version_min, self.version_max), versions),
        )
        for name, noted, found in pairs:
            if noted != found:
                raise BadRecord(f"{name} is {found!r} in the record, but {noted!r} in the table")
        # Jitted code relies on this last check.
        check_bounds(record, game.actions, game.max_legal)
        return record


@dataclass(frozen=True)
class Row:
    """A game, with its data from the other tables."""

    game: Stored
    player: str
    is_old: bool


@dataclass
class DamagedGames:
    """The rows that could not be used: each is named in the log, and counted once however often it is
    read."""

    count: int = 0
    _known: set[int] = field(default_factory=set)

    def note(self, stored: Stored, error: Exception) -> None:
        """Note that a row was left out."""
        if stored.seq in self._known:
            return
        self.count += 1
        # Beyond REMEMBERED some games may be counted twice; that is better than using unbounded memory.
        if len(self._known) < REMEMBERED:
            self._known.add(stored.seq)
        if self.count <= NAMED_IN_LOG:
            uid = stored.uid.hex()
            log.error("game %d of the store (uid %s) is damaged and left out: %s", stored.seq, uid, error)
        if self.count == NAMED_IN_LOG:
            log.error("further damaged games are only counted; `azplay games RUN verify` names them all")
