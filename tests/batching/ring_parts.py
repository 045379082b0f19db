"""Both ends of a ring for tests: a producer driven by hand, and an evaluator whose network echoes.

The echo of a row depends on the whole row, so that an answer to another row is noticed.
"""

import asyncio
import os
import socket
from collections import deque
from pathlib import Path

import numpy as np

from azselfplay.batching.loop import EvaluatorLoop
from azselfplay.batching.ring import LOOK_AT_HEAD, Header, Layout, create, hello
from azselfplay.games import get_game
from net.weights import BadWeights
from protocol.frames import LeafBatch
from protocol.messages import EvaluatorReport, LoadWeights

GAME = get_game("tic_tac_toe")
WORDS = GAME.feature_words(1)
LAYOUT = Layout.of(GAME, 1, 4)


def random_leaves(rng: np.random.Generator, rows: int) -> LeafBatch:
    counts = rng.integers(1, 10, rows).astype(np.uint16)
    features = rng.integers(0, 2**62, (rows, WORDS)).astype(np.uint64)
    features[:, -1] = rng.random(rows, np.float32).view(np.uint32)  # the scalars, which a front looks at
    return LeafBatch(features, counts, rng.integers(0, 9, int(counts.sum())).astype(np.uint16))


def echo(features: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return priors and wdl that differ for other rows."""
    rows = np.repeat(features.sum(axis=1) % np.uint64(97), counts)
    ends = np.cumsum(counts, dtype=np.int64)
    sums = np.add.reduceat(actions.astype(np.uint64), ends - counts) + features[:, 0]
    wdl = np.stack([(sums >> np.uint64(shift)) % np.uint64(256) for shift in (0, 8, 16)], axis=1) / 256
    return ((rows + actions) % 128 / 128).astype(np.float16), wdl.astype(np.float32)


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits; the test sets its time."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def turns(self, count: int = 4) -> None:
        for _ in range(count):
            self.run_until_complete(asyncio.sleep(0))


class NoRoom(Exception): ...


class EchoNetwork:
    """A network that answers each row with its echo and records what is submitted and collected."""

    device_name = "echo"
    in_flight = 2
    out_of_memory: type[Exception] = NoRoom

    def __init__(self, target_rows: int = 4, max_rows: int = 512) -> None:
        self.target_rows, self.max_rows = target_rows, max_rows
        self.events: list[str] = []
        self.submitted: list[LeafBatch] = []
        self.cursed: set[int] = set()
        """First words of positions that are answered with NaN."""

    def load(self, path: str, sha256: bytes) -> None:
        assert sha256 == b"s" * 32
        if path == "bad":
            raise BadWeights("not finite")
        self.events.append(f"load {path}")

    def room_for(self, rows: int) -> np.ndarray:
        self._room = np.empty((rows, WORDS), np.uint64)
        return self._room

    def submit(self, batch: LeafBatch) -> LeafBatch:
        assert batch.features is self._room, "gathered elsewhere: a GPU would have to copy it again"
        assert batch.counts.sum() == len(batch.actions)
        self.submitted.append(batch)
        self.events.append(f"submit {len(self.submitted)}")
        return self.submitted[-1]

    def collect(self, ticket: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
        number = next(n for n, one in enumerate(self.submitted, 1) if one is ticket)
        self.events.append(f"collect {number}")
        return self.answers(ticket)

    def answers(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
        priors, wdl = echo(*batch)
        wdl[np.isin(batch.features[:, 0], list(self.cursed))] = np.nan
        return priors, wdl

    def run(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
        return self.answers(batch)

    def halve(self) -> None:
        raise NoRoom


class Orders:
    """A `Control` whose orders the test gives. Its descriptor is always readable, so that no step waits."""

    def __init__(self) -> None:
        self.orders: deque[LoadWeights] = deque()
        self.said: list[object] = []
        self.reports: list[EvaluatorReport] = []
        self._end, self._other = socket.socketpair()
        self._other.send(b"x")

    def fileno(self) -> int:
        return self._end.fileno()

    def receive(self) -> LoadWeights | None:
        return self.orders.popleft() if self.orders else None

    def ready(self, network: EchoNetwork) -> None:
        self.said.append(("ready", network.target_rows, network.max_rows))

    def loaded(self, weights: LoadWeights) -> None:
        self.said.append(("loaded", weights.version))

    def refused(self, weights: LoadWeights, reason: str) -> None:
        self.said.append(("refused", weights.version, reason))

    def report(self, report: EvaluatorReport) -> None:
        self.reports.append(report)

    def alive(self) -> None:
        self.said.append("alive")


class Evaluator:
    """An evaluator at `path` whose steps the test makes. It gets weights unless `loads` is false."""

    def __init__(self, path: Path, network: EchoNetwork | None = None, *, loads: bool = True) -> None:
        self.path = path
        self.network = network or EchoNetwork()
        self.control = Orders()
        self.now = 0.0
        if loads:
            self.control.orders.append(LoadWeights(1, b"s" * 32, "file"))
        self.loop = EvaluatorLoop(path, self.network, GAME, 1, self.control, clock=lambda: self.now)
        self.step()

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.step()

    def kill(self) -> None:
        """End the evaluator as SIGKILL does: whatever is in flight stays as it is."""
        for ring in list(self.loop.rings.rings):
            ring.connection.close()
            self.loop.rings.rings.discard(ring)
        self.loop.rings._listener.close()


class Producer:
    """A producer without asyncio, which can also write rubbish."""

    def __init__(self, path: Path) -> None:
        self.memory, descriptor = create(LAYOUT)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))
        self.socket.setblocking(False)
        socket.send_fds(self.socket, [hello(LAYOUT, "a producer")], [descriptor])
        os.close(descriptor)
        self.sent: dict[int, LeafBatch] = {}
        self.looks = 0

    def fill(self, index: int, leaves: LeafBatch, *, owner: int = 0, starts: int = 0, **changes: int) -> None:
        """Send leaves. `changes` replace fields of the header."""
        header = Header(len(leaves[1]), leaves[2].nbytes, 0, owner, starts)
        self.memory.slots[index].write(header, leaves)
        self.memory.slots[index].header = header._replace(**changes)
        self.sent[index] = leaves
        self.socket.send(bytes([index]))

    def read(self) -> list[int]:
        """Return the slots that came back. Raises ConnectionError if the evaluator has hung up."""
        try:
            data = self.socket.recv(256)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("hung up")
        self.looks += data.count(LOOK_AT_HEAD)
        return [index for index in data if index != LOOK_AT_HEAD]

    def is_cut_off(self) -> bool:
        """Return whether the evaluator has hung up; skip what it sent before."""
        try:
            while self.socket.recv(256):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True

    def check(self, index: int) -> None:
        """Check that a slot holds the echo of what was sent in it."""
        priors, wdl = echo(*self.sent.pop(index))
        slot = self.memory.slots[index]
        np.testing.assert_array_equal(slot.priors[: len(priors)], priors)
        np.testing.assert_array_equal(slot.wdl[: len(wdl)], wdl)
