"""P5: with N keys, each honest one keeps its part in a cost model, however many sessions another key
opens."""

from collections import Counter, deque
from dataclasses import dataclass

import pytest

from azselfplay.batching.queue import LeafQueue, rows_a_slot
from protocol.credits import LEAST_GRANT, Credits
from server.leaves import MAX_QUEUED_ROWS
from server.shares import REVISE_SECONDS, Shares

TARGET, PIPELINE = 256, 2
NEEDED = (PIPELINE + 2) * TARGET


@dataclass(frozen=True)
class Slot:
    session: int
    rows: int
    owner: str | int
    ring: int = 0
    starts: int = 0


class Model:
    """Players that ask again at once, within their limits, and one device that computes batches in turn."""

    def __init__(self, sessions_of: dict[str, int], *, by_owner: bool) -> None:
        self.owner = [owner for owner, count in sessions_of.items() for _ in range(count)]
        self.by_owner = by_owner
        self.queue: LeafQueue[Slot] = LeafQueue()
        self.shares = Shares(Credits(MAX_QUEUED_ROWS, minimum=LEAST_GRANT))
        self.games: dict[int, int] = {}
        for session in range(len(self.owner)):
            share = self.shares.join(session, NEEDED, self.owner_of(session))
            assert share is not None
            self.games[session] = share.games
        self.in_flight: Counter[int] = Counter()
        self.answered: Counter[str] = Counter()
        self.on_device: deque[list[Slot]] = deque()
        self.slot_rows = rows_a_slot(TARGET, len({self.owner_of(n) for n in range(len(self.owner))}))

    def owner_of(self, session: int) -> str | int:
        return self.owner[session] if self.by_owner else session

    def ask(self) -> None:
        """Let every player ask for as much as it may have in flight; those of a crowd come first."""
        for session in reversed(range(len(self.owner))):
            while (room := self.games[session] - self.in_flight[session]) > 0:
                rows = min(room, self.slot_rows)
                self.in_flight[session] += rows
                self.queue.put(Slot(session, rows, self.owner_of(session)))

    def run(self, batches: int) -> None:
        for _ in range(batches):
            while len(self.on_device) < PIPELINE:
                busy = sum(slot.rows for batch in self.on_device for slot in batch)
                if not (batch := self.queue.next_batch(TARGET, busy)):
                    break
                self.on_device.append(batch)
            for slot in self.on_device.popleft():
                self.in_flight[slot.session] -= slot.rows
                self.answered[self.owner[slot.session]] += slot.rows
                self.shares.answered(slot.session, slot.rows)
            self.ask()

    def settled(self) -> Counter[str]:
        """Return the rows by owner, once the shares do not change any more."""
        self.ask()
        for revision in range(8):
            self.run(60)
            for session, share in self.shares.revise(NEEDED, REVISE_SECONDS * (revision + 1)):
                self.games[session] = share.games
        self.answered.clear()
        self.run(400)
        return self.answered


@pytest.mark.parametrize("honest", [1, 4, 9])
def test_each_honest_key_keeps_its_part_beside_one_with_ninety_nine_sessions(honest: int) -> None:
    """They come last: without shares by key they would begin, and stay, at 10 to 42 % of their part."""
    crowd = {"greedy": 99} | {f"key-{number}": 1 for number in range(honest)}
    answered = Model(crowd, by_owner=True).settled()
    fair = answered.total() / (honest + 1)
    assert min(answered[f"key-{number}"] for number in range(honest)) >= 0.95 * fair


def test_by_session_the_same_crowd_would_take_nearly_all() -> None:
    answered = Model({"honest": 1, "greedy": 99}, by_owner=False).settled()
    assert answered["honest"] < 0.1 * answered.total()


def test_players_of_one_key_divide_its_share() -> None:
    shares = Shares(Credits(MAX_QUEUED_ROWS, minimum=LEAST_GRANT))
    alone = shares.join(0, NEEDED, "one")
    crowd = [shares.join(session, NEEDED, "many") for session in range(1, 5)]
    assert alone is not None
    assert alone.games == NEEDED
    assert [share.games for share in crowd if share] == [NEEDED // (2 * count) for count in range(1, 5)]
