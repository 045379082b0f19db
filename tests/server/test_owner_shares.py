"""P5: with N keys each honest one keeps its part, however many sessions another key opens; by a cost
model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_leaf_queue import leaves

from protocol.credits import LEAST_GRANT, Credits
from server.leaf_queue import MAX_QUEUED_ROWS, FairQueue, LeafQueue
from server.pieces import Answer, Piece, Request, SendBatch
from server.shares import REVISE_SECONDS, Shares

TARGET, PIPELINE = 256, 2
NEEDED = (PIPELINE + 2) * TARGET
MESSAGE = 128


class Model:
    """Players that ask again at once, within their limits, and one device: n rows take 1 + n / 512
    thousandths of a second."""

    def __init__(self, sessions_of: dict[str, int], *, by_owner: bool) -> None:
        names = [owner for owner, count in sessions_of.items() for _ in range(count)]
        self.owner: dict[Hashable, Hashable] = dict(enumerate(names))
        self.by_owner = by_owner
        self.queue = LeafQueue(owner_of=self.owner_of)
        self.shares = Shares(Credits(MAX_QUEUED_ROWS, minimum=LEAST_GRANT))
        self.games: dict[int, int] = {}
        for session in range(len(names)):
            share = self.shares.join(session, NEEDED, self.owner_of(session))
            assert share is not None
            self.games[session] = share.games
        self.in_flight: Counter[int] = Counter()
        self.answered: Counter[Hashable] = Counter()
        self.requests = 0
        self.now = 0.0
        self.sent: list[SendBatch] = []

    def owner_of(self, session: Hashable) -> Hashable:
        return self.owner[session] if self.by_owner else session

    def ask(self) -> None:
        """Let every player ask for as much as it may have in flight; those of a crowd come first."""
        for session in reversed(range(len(self.owner))):
            while room := self.games[session] - self.in_flight[session]:
                rows = min(room, MESSAGE)
                self.requests += 1
                self.in_flight[session] += rows
                self.note(self.queue.request(session, self.requests, leaves(rows), self.now))

    def note(self, instructions: list) -> None:
        for one in instructions:
            if isinstance(one, SendBatch):
                self.sent.append(one)
            elif isinstance(one, Answer):
                assert isinstance(one.session, int)
                self.in_flight[one.session] -= one.rows
                self.answered[self.owner[one.session]] += one.rows
                self.shares.answered(one.session, one.rows)

    def run(self, batches: int) -> None:
        for _ in range(batches):
            batch = self.sent.pop(0)
            self.now += 0.001 * (1 + batch.rows / 512)
            self.note(self.queue.batch_done("gpu", batch.batch, self.now))
            self.ask()

    def settled(self) -> Counter[Hashable]:
        """Return the rows by owner, once the shares do not change any more."""
        self.note(self.queue.evaluator_ready("gpu", TARGET, PIPELINE, 0.0))
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


@given(st.integers(0, 2**32))
def test_every_row_comes_out_once_or_is_dropped_with_its_session(seed: int) -> None:
    rng = random.Random(seed)
    queue = FairQueue(lambda session: int(session) % 3)  # type: ignore[call-overload]
    left: Counter[int] = Counter()
    for number in range(60):
        session = rng.randrange(8)
        match rng.randrange(4):
            case 0:
                for piece in queue.take(rng.randrange(1, 400)):
                    left[piece.of.session] -= piece.rows  # type: ignore[index]
            case 1 if rng.random() < 0.3:
                queue.drop_session(session)
                left[session] = 0
            case _:
                rows = rng.randrange(1, 300)
                queue.append(Piece(Request(session, number, leaves(rows), 0.0), 0, rows))
                left[session] += rows
        assert queue.rows == left.total()
    assert min(left.values(), default=0) >= 0
    while pieces := queue.take(1000):
        for piece in pieces:
            left[piece.of.session] -= piece.rows  # type: ignore[index]
    assert set(left.values()) <= {0}


def test_local_workers_send_whole_messages_and_get_no_more_than_their_share() -> None:
    """Beside one key, in batches of 512 rows that give each of 33 owners room for 16."""
    queue = FairQueue(lambda session: session, is_local=lambda owner: owner != "key")
    sent: Counter[Hashable] = Counter()
    waiting: Counter[Hashable] = Counter()
    sizes: list[int] = []
    for _ in range(200):
        for session in ("key", *range(32)):
            while waiting[session] < 2 * MESSAGE:
                queue.append(Piece(Request(session, sent.total(), leaves(MESSAGE), 0.0), 0, MESSAGE))
                waiting[session] += MESSAGE
        for piece in queue.take(512):
            sent[piece.of.session] += piece.rows
            waiting[piece.of.session] -= piece.rows
            sizes += [piece.rows] * (piece.of.session != "key")
    assert set(sizes) == {MESSAGE}
    fair = sent.total() / 33
    assert all(0.9 * fair <= rows <= 1.1 * fair for rows in sent.values())
