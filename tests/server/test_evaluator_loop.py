"""The evaluator process's loop over a real socket, with a network that only counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import zmq

from azselfplay.link.sockets import new_context
from protocol.messages import (
    Batch,
    BatchDone,
    EvaluatorReady,
    LoadWeights,
    Message,
    WeightsLoaded,
    WeightsRefused,
    decode,
    encode,
)
from server.evaluator import EvaluatorLoop

PATIENCE_MS = 10_000


class BadFile(Exception):
    pass


class CountingNetwork:
    """Records what is submitted and collected; answers each row with its own number."""

    target_rows = 4
    max_rows = 8
    in_flight = 2
    device_name = "counter"

    def __init__(self) -> None:
        self.events: list[str] = []
        self.submitted = 0

    def load(self, path: str, sha256: bytes) -> None:
        assert sha256 == b"s" * 32
        if path == "bad":
            raise BadFile("not finite")
        self.target_rows = 8
        self.events.append(f"load {path}")

    def submit(self, features: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> tuple:
        assert features.flags.writeable
        assert counts.sum() == len(actions)
        self.submitted += 1
        self.events.append(f"submit {self.submitted}")
        return self.submitted, features, actions

    def collect(self, ticket: tuple) -> tuple[np.ndarray, np.ndarray]:
        number, features, actions = ticket
        self.events.append(f"collect {number}")
        return actions.astype(np.float16), np.repeat(features[:, :1], 3, axis=1).astype(np.float32)


class Front:
    """The other end of the socket."""

    def __init__(self, socket: zmq.Socket) -> None:
        self.socket = socket
        self.peer = b""

    def receive(self) -> tuple[Message, list[bytes]]:
        assert self.socket.poll(PATIENCE_MS)
        self.peer, header, *frames = self.socket.recv_multipart()
        return decode(header), frames

    def send(self, message: Message, *frames: np.ndarray) -> None:
        self.socket.send_multipart([self.peer, encode(message), *frames])

    def send_batch(self, batch: int, value: int) -> None:
        features = np.full((1, 2), value, np.uint64)
        self.send(Batch(batch, 1), features, np.array([2], np.uint16), np.array([3, 5], np.uint16))


@pytest.fixture
def joined() -> Iterator[tuple[Front, EvaluatorLoop, CountingNetwork, zmq.Socket]]:
    """Make a front and a loop that has introduced itself.

    The sockets are joined within the process: what the front has sent has arrived.
    """
    context = new_context()
    router, socket = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    router.bind("inproc://front")
    socket.connect("inproc://front")
    network = CountingNetwork()
    loop = EvaluatorLoop(socket, network, feature_words=2, index=3, bad_weights=BadFile)
    loop.say_ready()
    front = Front(router)
    assert front.receive()[0] == EvaluatorReady(3, "counter", 4, 8, 3)
    yield front, loop, network, socket
    context.destroy(0)


def test_two_batches_are_submitted_before_the_first_is_collected(joined: tuple) -> None:
    front, loop, network, socket = joined
    for batch in (1, 2, 3):
        front.send_batch(batch, 10 * batch)
    for _ in range(3):
        assert network.submitted == 3 or socket.poll(PATIENCE_MS)
        loop.step()
    answers = [front.receive() for _ in range(3)]
    assert [message.batch for message, _ in answers] == [1, 2, 3]
    assert [np.frombuffer(frames[1], np.float32)[0] for _, frames in answers] == [10, 20, 30]
    assert network.events.index("submit 2") < network.events.index("collect 1")


def test_new_weights_are_loaded_after_all_batches_before_them_and_named_in_those_behind(
    joined: tuple,
) -> None:
    front, loop, network, socket = joined
    front.send_batch(1, 1)
    front.send(LoadWeights(7, b"s" * 32, "file"))
    front.send_batch(2, 2)
    while network.events.count("collect 2") == 0:
        assert network.submitted == 2 or socket.poll(PATIENCE_MS)
        loop.step()
    got = [front.receive()[0] for _ in range(4)]
    assert isinstance(got[0], BatchDone)
    assert got[1] == EvaluatorReady(3, "counter", 8, 8, 3)
    assert got[2] == WeightsLoaded(7, b"s" * 32)
    assert isinstance(got[3], BatchDone)
    assert (got[0].version, got[3].version) == (0, 7)
    assert network.events.index("collect 1") < network.events.index("load file")


def test_bad_weights_are_refused_with_the_reason_and_the_loop_goes_on(joined: tuple) -> None:
    front, loop, network, _ = joined
    front.send(LoadWeights(7, b"s" * 32, "bad"))
    front.send_batch(1, 1)
    while network.submitted == 0:
        loop.step()
    assert front.receive()[0] == WeightsRefused(7, "not finite")
    assert front.receive()[0].version == 0


class NoRoom(Exception):
    pass


class ShortOfMemory(CountingNetwork):
    """Has memory for so many rows in all, submitted or being computed; records what it computes."""

    def __init__(self, room: int, *, fails_late: bool = False) -> None:
        super().__init__()
        self.room = room
        self.fails_late = fails_late
        self.computed: list[int] = []
        self.lost: list[tuple] = []
        """Tickets from before the memory was freed."""

    def submit(self, features: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> tuple:
        assert len(counts) <= self.max_rows
        if len(counts) > self.room and not self.fails_late:
            raise NoRoom
        return super().submit(features, counts, actions)

    def collect(self, ticket: tuple) -> tuple[np.ndarray, np.ndarray]:
        assert not any(ticket is one for one in self.lost)
        if len(ticket[1]) > self.room:
            raise NoRoom
        self.computed.append(len(ticket[1]))
        return super().collect(ticket)

    def halve(self) -> None:
        if self.max_rows == 1:
            raise NoRoom
        self.max_rows //= 2
        self.target_rows = min(self.target_rows, self.max_rows)

    def run(self, features: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> tuple:
        parts = []
        for at in range(0, len(counts), self.max_rows):
            rows = slice(at, at + self.max_rows)
            parts.append(self.collect((0, features[rows], actions[rows])))
            if len(counts[rows]) > self.room:
                raise NoRoom
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def send_rows(front: Front, batch: int, rows: int) -> None:
    """Send rows; row r has the features (r, r) and the only legal action r."""
    numbers = np.arange(rows, dtype=np.uint64)
    arrays = (np.stack([numbers, numbers], axis=1), np.ones(rows, np.uint16), numbers.astype(np.uint16))
    front.send(Batch(batch, rows), *arrays)


@pytest.mark.parametrize("fails_late", [False, True])
def test_without_memory_batches_become_smaller_once_and_no_row_is_lost(
    joined: tuple, fails_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The device may report it at once or when the batch is collected; the front learns the new size."""
    front, _, _, socket = joined
    network = ShortOfMemory(3, fails_late=fails_late)
    loop = EvaluatorLoop(socket, network, 2, 3, BadFile, out_of_memory=NoRoom)
    for batch in (1, 2, 3):
        send_rows(front, batch, 8)
    messages = []
    while len(messages) < 4:
        if not front.socket.poll(10):
            if loop.is_busy or socket.poll(0):
                loop.step()
            continue
        message, frames = front.receive()
        messages.append(message)
        if isinstance(message, BatchDone):
            assert np.frombuffer(frames[0], np.float16).tolist() == list(range(8))
    assert messages[0] == EvaluatorReady(3, "counter", 2, 2, 3)
    assert [one.batch for one in messages[1:]] == [1, 2, 3]
    assert set(network.computed) == {2}, "8 and 4 rows were too many"
    assert [one.getMessage() for one in caplog.records if "short of memory" in one.getMessage()] == [
        "counter is short of memory: batches have at most 2 rows from now on (before: 8). End other "
        "programs on the device, or choose a smaller --net"
    ]


def test_a_device_without_room_for_one_row_ends_its_process(joined: tuple) -> None:
    """The front then gives its rows to another evaluator."""
    front, _, _, socket = joined
    loop = EvaluatorLoop(socket, ShortOfMemory(0), 2, 3, BadFile, out_of_memory=NoRoom)
    send_rows(front, 1, 1)
    with pytest.raises(NoRoom):
        loop.step()


class Asserting(CountingNetwork):
    """Its device has failed for good, as CUDA's does after an assertion."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def submit(self, features: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> tuple:
        if self.where == "submit":
            raise RuntimeError(ASSERTED)
        return super().submit(features, counts, actions)

    def collect(self, ticket: tuple) -> tuple[np.ndarray, np.ndarray]:
        if self.where == "collect":
            raise RuntimeError(ASSERTED)
        return super().collect(ticket)

    def halve(self) -> None:
        raise AssertionError("smaller batches mend no device")


ASSERTED = "CUDA error: device-side assert triggered"


@pytest.mark.parametrize("where", ["submit", "collect"])
def test_a_device_that_has_failed_for_good_ends_its_process_and_answers_nothing(
    joined: tuple, where: str
) -> None:
    """No such device works again in its process; azserver starts another, and others get the rows."""
    front, _, _, socket = joined
    loop = EvaluatorLoop(socket, Asserting(where), 2, 3, BadFile, out_of_memory=NoRoom)
    front.send_batch(1, 10)
    with pytest.raises(RuntimeError, match="device-side assert"):
        loop.step()
    assert not front.socket.poll(0)
