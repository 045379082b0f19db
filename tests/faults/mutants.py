"""Parts with one planted fault each: a checker that does not catch them is worthless.

Each is the real part with one method changed for the worse, as a careless edit would.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulated_parts import Kinds, SimulatedEvaluator, SimulatedTrainer

import azselfplay.link.weights_pull
from azselfplay.link.weights_pull import Complete, WeightsPull
from azselfplay.store.sqlite import DUPLICATE, STORED, Entry, Reject, Store
from client.uploader import Uploads
from protocol.records import BadRecord, from_bytes, sha256, to_bytes
from trainer.ingest import Done, Job


class AckBeforeCommit(SimulatedTrainer):
    """The trainer answers `stored` before the game is stored."""

    async def take(self, jobs: list[Job], loop: asyncio.AbstractEventLoop) -> None:
        self.acknowledge([Done(job.uid, STORED) for job in jobs])
        await loop.run_in_executor(None, self.committer.process, jobs, 1)


class DuplicateCountsTwice(Store):
    """A game that is already there is counted, and trained on, once more."""

    def commit(self, entries: Sequence[Entry], rejects: Sequence[Reject] = (), *more: Any) -> list[str]:
        statuses = super().commit(entries, rejects, *more)
        for entry, status in zip(entries, statuses, strict=False):
            if status == DUPLICATE:
                self.totals.count(entry)
        return [STORED if status == DUPLICATE else status for status in statuses]


class NeverSendsAgain(Uploads):
    """A game without an answer is never offered a second time."""

    def __init__(self) -> None:
        super().__init__(timeout=1e9)


class AnswersOfTheRowBefore(SimulatedEvaluator):
    """An evaluator that answers every eighth slot with the rows shifted by one."""

    batches = 0

    def answer(self, asked: tuple[bytes, bytes], leaves: Any) -> None:
        AnswersOfTheRowBefore.batches += 1
        if AnswersOfTheRowBefore.batches % 8:
            super().answer(asked, leaves)
        else:
            super().answer(asked, type(leaves)(leaves.features[::-1], leaves.counts, leaves.actions))


class ChangesARecord(SimulatedTrainer):
    """The trainer stores other bytes than it received."""

    async def take(self, jobs: list[Job], loop: asyncio.AbstractEventLoop) -> None:
        changed = [_with_other_seed(job) for job in jobs]
        await super().take(changed, loop)


def _with_other_seed(job: Job) -> Job:
    try:
        record = from_bytes(job.data)
    except BadRecord:
        return job
    data = to_bytes(replace(record, seed=record.seed ^ 1))
    return replace(job, data=data, sha256=sha256(data))


class UsesHalfAFile(WeightsPull):
    """A player uses weights as soon as their first chunk is there."""

    def chunk(
        self, sha256: bytes, offset: int, data: bytes | memoryview, now: float
    ) -> list[azselfplay.link.weights_pull.Instruction]:
        told = super().chunk(sha256, offset, data, now)
        if (download := self._download) is None or self._settling:
            return told
        download.asked.clear()
        download.to_ask.clear()
        self._settling = True
        return [Complete(download.info, bytes(download.data))]


@dataclass(frozen=True)
class Mutant:
    """One planted fault."""

    kinds: Kinds
    promise: str
    """The promise that it breaks, or the words with which the checker must name what never finishes."""


MUTANTS: dict[str, Mutant] = {
    "ack before commit": Mutant(Kinds(trainer=AckBeforeCommit), "P1"),
    "a duplicate counts twice": Mutant(Kinds(store=DuplicateCountsTwice), "P2"),
    "never sends again": Mutant(Kinds(uploads=NeverSendsAgain), "still waits in a spool"),
    "answers of another row": Mutant(Kinds(evaluator=AnswersOfTheRowBefore), "P4"),
    "uses half a file": Mutant(Kinds(pull=UsesHalfAFile), "P6"),
    "stores other bytes": Mutant(Kinds(trainer=ChangesARecord), "P3"),
}
