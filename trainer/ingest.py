"""How a game gets into the store: accept it, check it, commit it, acknowledge it.

`IngestTable` knows which relayed games are being processed, and which senders wait for the answer. It is
pure: events in, instructions out. Delivery is at-least-once: a client that gets no answer sends a game again,
perhaps while the first copy is still being checked. So only one copy of a uid is processed at a time, and all
its senders get the answer.

`Committer` decodes and verifies games and commits many of them in one transaction, in a thread of its own.
Only what it returns may be acknowledged: from then on the game survives a power loss, and with an archive the
loss of the disk.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
from msgspec import UNSET, UnsetType

from azselfplay.store.archive import Archive
from azselfplay.store.players import player_of
from azselfplay.store.sqlite import CONFLICT, DUPLICATE, REJECTED, RETRY, STORED, Entry, Reject, Store
from protocol.credits import BYTES_OF_ALL, LEAST_GAME_BYTES
from protocol.errors import Code
from protocol.messages import GameAck, RelayAck, RelayGame, Uid, encode
from protocol.records import BadRecord, GameRecord, from_bytes, sha256
from trainer.verify import Rejection, Verifier

log = logging.getLogger(__name__)

MESSAGE_BYTES = 48 * 1024
"""Most bytes of acknowledgements in one RELAY_ACK. Even with one more of the largest, it stays below
`MAX_HEADER`."""
ACK_OVERHEAD = 8
"""Most bytes that MessagePack adds to a pair of peer and acknowledgement."""
IN_FLIGHT_LIMIT = BYTES_OF_ALL // LEAST_GAME_BYTES
"""Most games being processed: as many as the front passes on. Further ones are sent back."""
RETRY_AFTER = 1.0
"""Seconds after which a game that was sent back may be sent again."""
DISK_RETRY_AFTER = 10.0
"""Like `RETRY_AFTER`, after a failed commit: a full disk is not freed within a second."""
REASONS = {
    STORED: "",
    DUPLICATE: "",
    CONFLICT: "another game is stored under this uid",
    RETRY: "the trainer stores no games at the moment: its disk or archive does not take them",
}
"""The reason sent with an answer, by the status that the store gave the game."""


@dataclass(frozen=True)
class Job:
    """A game to check and store."""

    uid: bytes
    sha256: bytes
    source: str
    data: bytes
    key: str = ""
    """Name of its player's key, as the server knows it; "" where no keys are used."""


@dataclass(frozen=True)
class Done:
    """The result of a job; `status` is a status of GAME_ACK."""

    uid: bytes
    status: str
    reason: str = ""


class _Relayed(msgspec.Struct, tag_field="type", tag=RelayGame.__struct_config__.tag):
    """The fields that an answer to a RELAY_GAME needs."""

    peer: bytes
    uid: Uid


_relayed = msgspec.msgpack.Decoder(_Relayed)


class IngestTable:
    """The games in flight, by uid."""

    def __init__(self, limit: int = IN_FLIGHT_LIMIT) -> None:
        self._limit = limit
        self._in_flight: dict[bytes, tuple[bytes, list[bytes]]] = {}
        """By uid: the hash of the game, and the peers that wait for the answer."""

    def on_game(self, message: RelayGame, data: bytes, *, has_room: bool = True) -> Job | RelayAck | None:
        """Handle a game that arrived. Returns a job, an answer to send, or None if the game is already being
        processed.

        `has_room`: whether training can accept further games at the moment.
        """
        known, peers = self._in_flight.get(message.uid, (b"", []))
        if known == message.sha256:
            # The game was sent again, perhaps over another session: both senders get the answer.
            if message.peer not in peers:
                peers.append(message.peer)
            return None
        if known:
            # Not a conflict yet: the game being checked may be refused.
            return self._not_now(message, Code.BUSY, "another game with this uid is being checked")
        if not has_room or len(self._in_flight) >= self._limit:
            return self._not_now(message, Code.TRAINER_BUSY, "more games than can be taken in at once")
        self._in_flight[message.uid] = message.sha256, [message.peer]
        return Job(message.uid, message.sha256, message.source, data, message.key)

    def on_done(self, results: Sequence[Done], resign_value: float | UnsetType = UNSET) -> list[RelayAck]:
        """Handle the results of one commit. Returns the acknowledgements to send, with the resignation
        threshold if any."""
        messages: list[RelayAck] = []
        room = 0
        for done in results:
            retry_after = DISK_RETRY_AFTER if done.status == RETRY else 0.0
            ack = GameAck(done.uid, done.status, done.reason[:2000], retry_after, resign_value)
            for peer in self._in_flight.pop(done.uid)[1]:
                # Make as few messages as the limit in bytes allows.
                size = len(peer) + len(encode(ack)) + ACK_OVERHEAD
                if size > room:
                    messages.append(RelayAck([]))
                    room = MESSAGE_BYTES
                messages[-1].acks.append((peer, ack))
                room -= size
        return messages

    @staticmethod
    def on_unreadable(header: bytes | memoryview, reason: str) -> RelayAck | None:
        """Return the answer to a RELAY_GAME that cannot be read. The answer frees the game's place at the
        front.

        The game is sent again, because most likely only the header was damaged on its way; the server writes
        the header, so it says nothing about the game. Returns None if the header does not say whom to answer.
        """
        try:
            game = _relayed.decode(header)
        except (msgspec.MsgspecError, RecursionError, ValueError):  # ValueError: text that is not UTF-8
            return None
        return IngestTable._not_now(game, Code.INTERNAL, reason)

    @staticmethod
    def _not_now(game: RelayGame | _Relayed, code: Code, why: str) -> RelayAck:
        return RelayAck([(game.peer, GameAck(game.uid, RETRY, f"{code}: {why}"[:2000], RETRY_AFTER))])


@dataclass(frozen=True)
class Committed:
    """The result of one batch of jobs."""

    done: list[Done]
    """One result for every job."""
    games: list[GameRecord]
    """Newly stored games that are trained on, in the order of the store."""
    players: list[str]
    """The player of each game in `games`."""
    old: int
    """Number of newly stored games that are too old to be trained on."""
    last_seq: int
    """`seq` of the newest game in the store; of games that wait for the archive, that before them."""


class Committer:
    """Checks and stores games. One thread at a time may use it."""

    def __init__(
        self,
        verifier: Verifier,
        store: Store,
        stale_versions: int = 0,
        archive: Archive | None = None,
    ) -> None:
        """`stale_versions`: as in `TrainerConfig`; 0: games of any age are trained on. `archive`: gets all
        games of the store."""
        self._verifier = verifier
        self._stale_versions = stale_versions
        self._store = store
        self._archive = archive
        self._waiting: Committed | None = None
        """Games that were stored but not archived, and so were sent back."""
        self._last_seq = store.last_seq
        """`last_seq` of the last result; not beyond the games that wait, which training does not know."""
        self.rejected: Counter[str] = Counter()
        """Games refused since the start, by code."""

    def warm(self, record: GameRecord) -> None:
        """Compile now (some seconds the first time) rather than at the first game."""
        self._verifier.check(record, 0)

    @property
    def newest_version(self) -> int:
        """Newest weights version in any stored game."""
        return self._store.totals.newest_version

    @property
    def error(self) -> str:
        """Why no game can be stored at the moment; "" if the last commit succeeded."""
        return self._store.error or (self._archive.error if self._archive else "")

    def process(self, jobs: Sequence[Job], newest_version: int) -> Committed:
        """Check all jobs, commit and archive them together. Once this returns they may be acknowledged.

        Raises Fatal(TRY_AGAIN) if another trainer has gone on with the archive.
        """
        if self._archive is None:
            return self._commit(jobs, newest_version)
        # Store nothing more until the archive has all that is stored.
        if self._archive.archive_games(self._store):
            result, before = self._commit(jobs, newest_version), self._waiting
            if before is not None:
                games, players = before.games + result.games, before.players + result.players
                result = replace(result, games=games, players=players, old=before.old + result.old)
            if self._archive.archive_games(self._store):
                self._waiting, self._last_seq = None, result.last_seq
                return result
            self._waiting = result
        done = [Done(job.uid, RETRY, REASONS[RETRY]) for job in jobs]
        return Committed(done, [], [], 0, self._last_seq)

    def _commit(self, jobs: Sequence[Job], newest_version: int) -> Committed:
        records: list[GameRecord] = []
        entries: list[Entry] = []
        rejects: list[Reject] = []
        for job in jobs:
            record = self._check(job, newest_version)
            if isinstance(record, Rejection):
                rejects.append(Reject(job.uid, job.sha256, job.source, record.code, record.reason, job.data))
                continue
            oldest, newest = int(record.versions.min()), int(record.versions.max())
            # Compared with the newest weights that have played, because published ones may wait at a gate.
            behind = self._store.totals.newest_version - newest
            records.append(record)
            entries.append(
                Entry(
                    uid=job.uid,
                    sha256=job.sha256,
                    source=job.source,
                    plies=record.plies,
                    outcome=record.outcome,
                    reason=record.reason,
                    version_min=oldest,
                    version_max=newest,
                    data=job.data,
                    is_old=0 < self._stale_versions < behind,
                    player=player_of(job.source, record.source, job.key),
                )
            )
        statuses = self._store.commit(entries, rejects)
        done: list[Done] = []
        stored: list[tuple[GameRecord, Entry]] = []
        for record, entry, status in zip(records, entries, statuses[: len(entries)], strict=True):
            done.append(Done(entry.uid, status, REASONS[status]))
            if status == STORED:
                stored.append((record, entry))
        for reject, status in zip(rejects, statuses[len(entries) :], strict=True):
            # A refusal counts and is sent only once it is on the disk; otherwise the game is sent back.
            if status == REJECTED:
                self.rejected[str(reject.code)] += 1
                done.append(Done(reject.uid, status, f"{reject.code}: {reject.reason}"))
            else:
                done.append(Done(reject.uid, status, REASONS[status]))
        fresh = [(record, entry.player) for record, entry in stored if not entry.is_old]
        games, players = [record for record, _ in fresh], [player for _, player in fresh]
        return Committed(done, games, players, len(stored) - len(fresh), self._store.last_seq)

    def _check(self, job: Job, newest_version: int) -> GameRecord | Rejection:
        try:
            # Check the hash first: damaged bytes say nothing about the game.
            if sha256(job.data) != job.sha256:
                return Rejection(Code.BAD_HASH, "the bytes are not those its sha256 was made of")
            record = from_bytes(job.data)
            if record.uid != job.uid:
                return Rejection(Code.BAD_RECORD, "the uid in the record is not that of the message")
            return self._verifier.check(record, newest_version) or record
        except BadRecord as error:
            return Rejection(error.code, str(error))
        except Exception:
            # A game must not end the trainer, because it would come again after every restart.
            log.exception("checking the game %s failed; it is refused and kept in `rejects`", job.uid.hex())
            return Rejection(Code.INTERNAL, "checking this game failed, see the trainer's log")
