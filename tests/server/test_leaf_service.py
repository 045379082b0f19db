"""One client's bad rows cost the others nothing: the leaf service between a door and a virtual device."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from front_bench import GAME, random_leaves

from protocol.credits import Credits
from protocol.frames import Buffer
from protocol.messages import BatchDone, Evaluate, EvaluatorReady, Hello
from protocol.sessions import Session
from server.evaluators import Device
from server.leaves import LeafService
from server.metrics import Figures
from server.shares import Shares

TARGET_ROWS = 512
CLIENTS = 500
CURSED = np.uint64(0xBAD)
"""First word of a position that the device answers with NaN."""


class VirtualDevice:
    """Replaces port and pool: takes batches one after the other; a batch of n rows takes 1 + n / 512 units of
    time. Clients send one leaf again as soon as the last one is answered or refused."""

    def __init__(self, cursed_clients: int) -> None:
        self.now = 0.0
        self.answered = 0
        """Number of rows of honest clients."""
        self.sent: deque[tuple[int, Sequence[Buffer]]] = deque()
        self.idle: deque[Session] = deque()
        self.service = LeafService(GAME, 1, Shares(Credits(10**6)), Figures(0.0), lambda: self.now)
        self.service.port = self.service.pool = self
        self.pipeline, self.target_rows = 2, TARGET_ROWS
        self.cursed = {CLIENTS - 1 - client for client in range(cursed_clients)}
        hello = Hello(1, "client")
        self.sessions = {b"%d" % n: Session(n, b"%d" % n, hello, 0.0, 0.0) for n in range(CLIENTS)}
        self.requests = 0
        self.idle.extend(self.sessions.values())
        for session in self.sessions.values():
            self.service.join(session)

    def send_batch(self, _peer: bytes, batch: int, _rows: int, frames: Sequence[Buffer]) -> bool:
        self.sent.append((batch, frames))
        return True

    def send(self, peer: bytes, *_: object) -> bool:
        self.idle.append(self.sessions[peer])
        self.answered += self.sessions[peer].number not in self.cursed
        return True

    def refuse(self, peer: bytes, *_: object, **__: object) -> None:
        self.idle.append(self.sessions[peer])

    def index_of(self, _peer: bytes) -> int:
        """Return 0: there is one evaluator."""
        return 0

    def ask(self, rng: np.random.Generator) -> None:
        """Send a leaf from every client that waits for nothing."""
        for _ in range(len(self.idle)):
            session = self.idle.popleft()
            features, counts, actions = random_leaves(rng, 1)
            features[:, 0] = CURSED if session.number in self.cursed else 0
            self.requests += 1
            frames = [memoryview(frame.tobytes()) for frame in (features, counts, actions)]
            self.service._on_evaluate(session, Evaluate(self.requests, 1), frames)

    def compute(self) -> None:
        """Complete the oldest batch."""
        batch, frames = self.sent.popleft()
        features, counts, actions = frames
        rows = len(counts) // 2
        self.now += 1 + rows / TARGET_ROWS
        wdl = np.full((rows, 3), 0.25, np.float32)
        wdl[np.frombuffer(features, np.uint64).reshape(rows, -1)[:, 0] == CURSED] = np.nan
        priors = np.full(len(actions) // 2, 0.5, np.float16)
        done = BatchDone(batch, rows, 1)
        self.service.batch_done(b"gpu", done, [memoryview(priors.tobytes()), memoryview(wdl.tobytes())])

    def honest_rate(self, seconds: float) -> float:
        """Return the rows of honest clients that are answered in a unit of time."""
        rng = np.random.default_rng(1)
        self.ask(rng)
        ready = EvaluatorReady(0, "virtual", TARGET_ROWS, TARGET_ROWS, 2)
        self.service.evaluator_up(Device(b"gpu", ready))
        while self.now < seconds:
            self.compute()
            self.ask(rng)
        return self.answered / self.now


def test_a_client_whose_rows_have_no_answer_costs_the_others_nothing() -> None:
    """A cost model shows it: that client has a row in every batch, and each of its rows is tried twice."""
    assert VirtualDevice(1).honest_rate(40.0) > 0.97 * VirtualDevice(0).honest_rate(40.0)
