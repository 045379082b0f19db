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
from client.remote_evaluator import RemoteEvaluator
from client.spool import Spool
from client.uploader import Delete, Instruction, Put, Uploads
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


class OneNameForTwoGames(Store):
    """A game that comes under the uid of another one is reported as stored."""

    def commit(self, entries: Sequence[Entry], rejects: Sequence[Reject] = (), *more: Any) -> list[str]:
        statuses = super().commit(entries, (), *more)
        told = ["duplicate" if status == "conflict" else status for status in statuses]
        return told + ["rejected"] * len(rejects)


class DeletesWhatItSends(Uploads):
    """A game leaves the spool when it has been sent."""

    def _offer(self, now: float) -> list[Instruction]:
        puts = super()._offer(now)
        return [*puts, *(Delete(put.uid) for put in puts if isinstance(put, Put))]


class NeverSendsAgain(Uploads):
    """A game without an answer is never offered a second time."""

    def __init__(self) -> None:
        super().__init__(timeout=1e9)


class SpinsInstead(Uploads):
    """When an answer is late, the session checks for it again and again without waiting."""

    def tick(self, now: float) -> list[Instruction]:
        return self._offer(now)


class KeepsBeforeRename(Spool):
    """A game is reported as kept while it still has its temporary name."""

    def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        for path in self.folder.glob("*.tmp"):
            game = path.rename(path.with_suffix(".game"))
            self._add(game, game.stat().st_size)
        for uid, data in records:
            (self.folder / f"{uid.hex()}.tmp").write_bytes(data)


class DropsLeavesOnReconnect(RemoteEvaluator):
    """Requests of an ended session are forgotten."""

    def lost(self) -> None:
        super().lost()
        table = self._requests
        for request in list(table._requests):
            table.give_up(request)


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


class ForgetsTheLastChunk(WeightsPull):
    """The server has received all bytes of the trainer's weights, but does not keep the last ones."""

    def chunk(
        self, sha256: bytes, offset: int, data: bytes | memoryview, now: float
    ) -> list[azselfplay.link.weights_pull.Instruction]:
        told = super().chunk(sha256, offset, data, now)
        return [replace(one, data=one.data[:offset]) if isinstance(one, Complete) else one for one in told]


class UsesHalfAFile(WeightsPull):
    """A player uses weights as soon as their first chunk is there."""

    def chunk(
        self, sha256: bytes, offset: int, data: bytes | memoryview, now: float
    ) -> list[azselfplay.link.weights_pull.Instruction]:
        told = super().chunk(sha256, offset, data, now)
        if self._pulling is None or self._settling:
            return told
        self._asked.clear()
        self._to_ask.clear()
        self._settling = True
        return [Complete(self._pulling, bytes(self._data))]


@dataclass(frozen=True)
class Mutant:
    """One planted fault."""

    kinds: Kinds
    promise: str
    """The promise that it breaks, or the words with which the checker must name what never finishes."""


MUTANTS: dict[str, Mutant] = {
    "ack before commit": Mutant(Kinds(trainer=AckBeforeCommit), "P1"),
    "a duplicate counts twice": Mutant(Kinds(store=DuplicateCountsTwice), "P2"),
    "one uid for two games": Mutant(Kinds(store=OneNameForTwoGames), "P1"),
    "deletes what it sends": Mutant(Kinds(uploads=DeletesWhatItSends), "P1"),
    "never sends again": Mutant(Kinds(uploads=NeverSendsAgain), "still waits in a spool"),
    "spins when an answer is late": Mutant(Kinds(uploads=SpinsInstead), "time stands still"),
    "kept before it is renamed": Mutant(Kinds(spool=KeepsBeforeRename), "P1"),
    "drops leaves on reconnect": Mutant(Kinds(remote=DropsLeavesOnReconnect), "leaves were never answered"),
    "answers of another row": Mutant(Kinds(evaluator=AnswersOfTheRowBefore), "P4"),
    "forgets the last chunk": Mutant(Kinds(server_pull=ForgetsTheLastChunk), "P6"),
    "uses half a file": Mutant(Kinds(pull=UsesHalfAFile), "P6"),
    "stores other bytes": Mutant(Kinds(trainer=ChangesARecord), "P3"),
}
