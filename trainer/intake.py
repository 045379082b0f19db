"""Decodes, verifies and commits games. Runs in a thread of its own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from games.spec import Game
from protocol.errors import Code
from protocol.records import BadRecord, GameRecord, from_bytes, sha256
from store.players import player_of
from store.sqlite import CONFLICT, DUPLICATE, REJECTED, RETRY, STORED, Entry, Reject, Store
from trainer.ingest import Done, Job
from trainer.verify import Expected, Rejection, Verifier

log = logging.getLogger(__name__)

_REASONS = {
    STORED: "",
    DUPLICATE: "",
    CONFLICT: "another game is stored under this uid",
    RETRY: "the trainer's disk does not take it at the moment",
}


@dataclass(frozen=True)
class Committed:
    """The result of one batch of jobs."""

    done: list[Done]
    """One result for every job."""
    games: list[GameRecord]
    """Newly stored games that are trained on, in the order of the store."""
    players: list[str]
    """The player of each of them."""
    old: int
    """Number of newly stored games that are too old to be trained on."""
    last_seq: int
    """`seq` of the newest game in the store."""


class Intake:
    """Checks and stores games. One thread at a time may use it."""

    def __init__(
        self,
        game: Game,
        expected: Expected,
        store: Store,
        stale_versions: int = 0,
    ) -> None:
        """`stale_versions`: as in `TrainerConfig`; 0: games of any age are trained on."""
        self._expected = expected
        self._stale_versions = stale_versions
        self._store = store
        self._verifier = Verifier(game)
        self.rejected: Counter[str] = Counter()
        """Games refused since the start, by code."""

    def warm(self, record: GameRecord) -> None:
        """Compile now (some seconds the first time) rather than at the first game."""
        self._verifier.check(record, self._expected, 0)

    @property
    def newest_version(self) -> int:
        """Newest weights version in any stored game."""
        return self._store.totals.newest_version

    def process(self, jobs: Sequence[Job], newest_version: int) -> Committed:
        """Check all jobs and commit them together. Once this returns they may be acknowledged."""
        records: list[GameRecord] = []
        entries: list[Entry] = []
        rejects: list[Reject] = []
        for job in jobs:
            checked = self._check(job, newest_version)
            if isinstance(checked, Rejection):
                rejects.append(
                    Reject(job.uid, job.sha256, job.source, checked.code, checked.reason, job.data)
                )
            else:
                records.append(checked)
                entries.append(self._entry(job, checked))
        statuses = self._store.commit(entries, rejects)
        of_entries, of_rejects = statuses[: len(entries)], statuses[len(entries) :]
        done = [
            Done(entry.uid, status, _REASONS[status])
            for entry, status in zip(entries, of_entries, strict=True)
        ]
        done += map(self._refuse, rejects, of_rejects)
        stored = [
            (record, entry)
            for record, entry, status in zip(records, entries, of_entries, strict=True)
            if status == STORED
        ]
        fresh = [(record, entry.player) for record, entry in stored if not entry.is_old]
        games, players = [record for record, _ in fresh], [player for _, player in fresh]
        old = sum(entry.is_old for _, entry in stored)
        return Committed(done, games, players, old, self._store.newest)

    def _refuse(self, reject: Reject, status: str) -> Done:
        """Refuse a game. A refusal counts, and is sent, once it is on the disk; otherwise the game is sent
        back."""
        if status != REJECTED:
            return Done(reject.uid, status, _REASONS[status])
        self.rejected[str(reject.code)] += 1
        return Done(reject.uid, status, f"{reject.code}: {reject.reason}")

    def _check(self, job: Job, newest_version: int) -> GameRecord | Rejection:
        try:
            if sha256(job.data) != job.sha256:
                return Rejection(Code.BAD_HASH, "the bytes are not those its sha256 was made of")
            record = from_bytes(job.data)
            if record.uid != job.uid:
                return Rejection(Code.BAD_RECORD, "the uid in the record is not that of the message")
            return self._verifier.check(record, self._expected, newest_version) or record
        except BadRecord as error:
            return Rejection(error.code, str(error))
        except Exception:
            # A game must not end the trainer: it would come again after every restart.
            log.exception("checking the game %s failed; it is refused and kept in `rejects`", job.uid.hex())
            return Rejection(Code.INTERNAL, "checking this game failed, see the trainer's log")

    def _entry(self, job: Job, record: GameRecord) -> Entry:
        oldest, newest = int(record.versions.min()), int(record.versions.max())
        behind = self._store.totals.newest_version - newest
        return Entry(
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
