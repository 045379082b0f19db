"""The evaluator's loop over real rings, with a network that echoes and a producer driven by hand."""

import errno
import gc
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from in_process import ends
from ring_parts import GAME, LAYOUT, WORDS, EchoNetwork, Evaluator, NoRoom, Producer, random_leaves

from azselfplay.batching.loop import HEARTBEAT, EvaluatorLoop
from azselfplay.batching.ring import REFUSED, Demand, Layout, create, hello
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.folders import own_folder
from protocol.frames import LeafBatch
from protocol.messages import LoadWeights

RNG = np.random.default_rng(1)
WEIGHTS = LoadWeights(7, b"s" * 32, "file 7")
OTHER = Layout(WORDS + 1, 9, 0, 4)
"""The ring of another game."""


@pytest.fixture
def path() -> Iterator[Path]:
    """Return a short path: the path of a Unix socket has at most 107 bytes."""
    with own_folder() as folder:
        yield folder / "ring"


def answered(producer: Producer, evaluator: Evaluator, slots: int, steps: int = 20) -> list[int]:
    """Make steps until `slots` slots have come back. Check them and return them in order."""
    found: list[int] = []
    for _ in range(steps):
        evaluator.step()
        for index in producer.read():
            producer.check(index)
            found.append(index)
        if len(found) == slots:
            return found
    raise AssertionError(f"only slots {found} came back")


def test_every_row_gets_its_own_answer_and_the_version_of_the_weights(path: Path) -> None:
    evaluator = Evaluator(path)
    producer = Producer(path)
    for index, rows in enumerate((1, 4, 128)):
        producer.fill(index, random_leaves(RNG, rows))
    assert sorted(answered(producer, evaluator, 3)) == [0, 1, 2]
    assert [producer.memory.slots[index].header.version for index in range(3)] == [1, 1, 1]
    producer.fill(1, random_leaves(RNG, 7))
    assert answered(producer, evaluator, 1) == [1]


def test_two_batches_are_submitted_before_the_first_is_collected(path: Path) -> None:
    evaluator = Evaluator(path)
    producer = Producer(path)
    evaluator.step(2)
    for index in range(3):
        producer.fill(index, random_leaves(RNG, 4))
    answered(producer, evaluator, 3)
    events = evaluator.network.events
    assert events.index("submit 2") < events.index("collect 1") < events.index("submit 3")


def test_leaves_wait_until_there_are_weights(path: Path) -> None:
    evaluator = Evaluator(path, loads=False)
    producer = Producer(path)
    producer.fill(0, random_leaves(RNG, 4))
    evaluator.step(4)
    assert (evaluator.network.events, producer.memory.demand) == ([], Demand(0, 0))
    evaluator.control.orders.append(WEIGHTS)
    assert answered(producer, evaluator, 1) == [0]
    assert producer.memory.demand.games > 0


def test_new_weights_are_loaded_after_all_batches_before_them_and_named_in_those_behind(path: Path) -> None:
    evaluator = Evaluator(path)
    producer = Producer(path)
    evaluator.step(2)
    for index in range(2):
        producer.fill(index, random_leaves(RNG, 4))
    evaluator.step()  # submits both, answers one
    evaluator.control.orders.append(WEIGHTS)
    answered(producer, evaluator, 2)
    producer.fill(2, random_leaves(RNG, 4))
    answered(producer, evaluator, 1)
    assert [producer.memory.slots[index].header.version for index in range(3)] == [1, 1, 7]
    assert evaluator.network.events[-3:] == ["load file 7", "submit 3", "collect 3"]
    assert evaluator.control.said[-1] == ("loaded", 7)


def test_bad_weights_are_refused_with_the_reason_and_the_loop_goes_on(path: Path) -> None:
    evaluator = Evaluator(path)
    evaluator.control.orders.append(LoadWeights(7, b"s" * 32, "bad"))
    producer = Producer(path)
    producer.fill(0, random_leaves(RNG, 1))
    answered(producer, evaluator, 1)
    assert evaluator.control.said[-1] == ("refused", 7, "not finite")
    assert producer.memory.slots[0].header.version == 1


# ---- What a device and its rows may do ----------------------------------------------------------


class ShortOfMemory(EchoNetwork):
    """A network with memory for `room` rows at once; it records the sizes of the batches it computes."""

    def __init__(self, room: int, *, fails_late: bool = False) -> None:
        super().__init__(target_rows=4, max_rows=8)
        self.room, self.fails_late = room, fails_late
        self.computed: list[int] = []

    def submit(self, batch: LeafBatch) -> LeafBatch:
        assert batch.rows <= self.max_rows
        if batch.rows > self.room and not self.fails_late:
            raise NoRoom
        return super().submit(batch)

    def collect(self, ticket: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
        if ticket.rows > self.room:
            raise NoRoom
        self.computed.append(ticket.rows)
        return super().collect(ticket)

    def halve(self) -> None:
        if self.max_rows == 1:
            raise NoRoom
        self.max_rows //= 2
        self.target_rows = min(self.target_rows, self.max_rows)

    def run(self, batch: LeafBatch) -> tuple:
        parts = []
        while batch.rows:
            first, batch = batch.split(self.max_rows)
            if first.rows > self.room:
                raise NoRoom
            self.computed.append(first.rows)
            parts.append(self.answers(first))
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


@pytest.mark.parametrize("fails_late", [False, True])
def test_without_memory_batches_become_smaller_once_and_no_row_is_lost(
    path: Path, fails_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The device may report the lack at once or when a batch is collected; the front learns the new size."""
    network = ShortOfMemory(3, fails_late=fails_late)
    evaluator = Evaluator(path, network)
    producer = Producer(path)
    for index in range(3):
        producer.fill(index, random_leaves(RNG, 8))
    answered(producer, evaluator, 3)
    assert evaluator.control.said[-1] == ("ready", 2, 2)
    assert set(network.computed) == {2}, "8 and 4 rows were too many"
    said = [one.getMessage() for one in caplog.records if "short of memory" in one.getMessage()]
    assert len(said) == 1
    assert "at most 2 rows from now on (before: 8)" in said[0]


def test_a_slot_larger_than_the_memory_is_halved_again_when_memory_shrinks(path: Path) -> None:
    network = ShortOfMemory(3)
    evaluator, producer = Evaluator(path, network), Producer(path)
    producer.fill(0, random_leaves(RNG, 8))
    answered(producer, evaluator, 1)
    network.room = 1
    producer.fill(1, random_leaves(RNG, 8))
    answered(producer, evaluator, 1)
    assert evaluator.control.said[-1] == ("ready", 1, 1)


def test_a_device_without_room_for_one_row_ends_its_process(path: Path) -> None:
    evaluator = Evaluator(path, ShortOfMemory(0))
    producer = Producer(path)
    producer.fill(0, random_leaves(RNG, 1))
    with ends(Exit.TRY_AGAIN, "has no memory left"):
        evaluator.loop.run()


def test_a_device_without_room_for_new_weights_ends_its_process(path: Path, monkeypatch) -> None:
    """It may have room later, so its parent starts it again."""

    def load(*_: object) -> None:
        raise NoRoom

    evaluator = Evaluator(path)
    monkeypatch.setattr(evaluator.network, "load", load)
    evaluator.control.orders.append(WEIGHTS)
    with ends(Exit.TRY_AGAIN, "has no memory left"):
        evaluator.loop.run()


@pytest.mark.parametrize("where", ["submit", "collect"])
def test_a_device_that_has_failed_for_good_ends_its_process_and_answers_nothing(
    path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed assertion, a CUDA device never works again in its process."""

    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    evaluator = Evaluator(path)
    monkeypatch.setattr(evaluator.network, where, fail)
    producer = Producer(path)
    producer.fill(0, random_leaves(RNG, 1))
    with pytest.raises(RuntimeError, match="device-side assert"):
        evaluator.step(9)
    assert producer.read() == []
    assert producer.memory.slots[0].header.starts == 1


def test_a_row_without_a_proper_answer_is_tried_again_and_then_refused_alone(path: Path) -> None:
    evaluator = Evaluator(path)
    honest, odd = Producer(path), Producer(path)
    leaves = random_leaves(RNG, 3)
    evaluator.network.cursed = {int(leaves[0][1, 0])}
    odd.fill(0, leaves)
    honest.fill(0, random_leaves(RNG, 2))
    answered(honest, evaluator, 1)
    for _ in range(6):
        evaluator.now += 2.0
        evaluator.step()
    assert odd.read() == [0]
    wdl = odd.memory.slots[0].wdl
    assert (wdl[1] == REFUSED).all()
    wanted = evaluator.network.answers(leaves)[1]
    np.testing.assert_array_equal(wdl[[0, 2]], wanted[[0, 2]])
    names = ("wrong_rows", "bad_batches", "redone_rows", "poisoned")
    assert [sum(getattr(one, name) for one in evaluator.control.reports) for name in names] == [2, 2, 3, 1]


def test_it_waits_for_nothing_while_rows_could_be_computed(path: Path, monkeypatch) -> None:
    """Two suspects are computed one after the other, whether or not anything else arrives."""
    evaluator = Evaluator(path)
    producer = Producer(path)
    evaluator.step(2)
    waits: list[float] = []
    select = evaluator.loop._selector.select
    monkeypatch.setattr(evaluator.loop._selector, "select", lambda wait: waits.append(wait) or select(0))
    for index in range(2):
        producer.fill(index, random_leaves(RNG, 2), starts=1)
    assert answered(producer, evaluator, 2) == [0, 1]
    assert [wait > 0 for wait in waits] == [True, False]
    evaluator.step()
    assert waits[-1] > 0


def test_an_idle_evaluator_says_that_it_lives_although_something_arrives_all_the_time(path: Path) -> None:
    """Workers may come and go that send no leaves."""
    evaluator = Evaluator(path)
    del evaluator.control.said[:]
    for _ in range(3):
        Producer(path).socket.close()
        evaluator.now += HEARTBEAT
        evaluator.step()
    assert evaluator.control.said == ["alive"] * 3


# ---- Rubbish ------------------------------------------------------------------------------------


def change(field: str, value: int) -> Callable[[Producer], None]:
    return lambda producer: producer.fill(0, random_leaves(RNG, 3), **{field: value})


def write(array: str, value: int) -> Callable[[Producer], None]:
    def rubbish(producer: Producer) -> None:
        getattr(producer.memory.slots[0], array)[:] = value
        producer.memory.slots[0].header = producer.memory.slots[0].header._replace(rows=2, legal_bytes=20)
        producer.socket.send(b"\0")

    return rubbish


def twice(producer: Producer) -> None:
    producer.fill(0, random_leaves(RNG, 3))
    producer.socket.send(b"\0")


RUBBISH = {
    "no rows": change("rows", 0),
    "too many rows": change("rows", 129),
    "negative rows": change("rows", -1),
    "huge rows": change("rows", 2**62),
    "a negative count of starts": change("starts", -1),
    "a count that would overflow": change("wrong", 2**63 - 1),
    "no actions": change("legal_bytes", 0),
    "half an action": change("legal_bytes", 7),
    "actions beyond the slot": change("legal_bytes", 2**40),
    "negative bytes": change("legal_bytes", -4),
    "masks in a game without": change("is_mask", 1),
    "more rows than actions": change("rows", 128),
    "no legal actions": write("counts", 0),
    "too many legal actions": write("counts", 65535),
    "an action that is none": write("legal", 255),
    "a slot that does not exist": lambda producer: producer.socket.send(b"\x04"),
    "a slot twice": twice,
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH.keys())
def test_a_producer_that_writes_rubbish_is_named_and_cut_off_and_others_are_served(
    path: Path, rubbish: Callable[[Producer], None], caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = Evaluator(path)
    vandal, honest = Producer(path), Producer(path)
    evaluator.step(2)
    rubbish(vandal)
    honest.fill(0, random_leaves(RNG, 3))
    answered(honest, evaluator, 1)
    evaluator.step(3)
    assert vandal.is_cut_off()
    assert not honest.is_cut_off()
    assert any("a producer is cut off" in one.getMessage() for one in caplog.records)
    honest.fill(1, random_leaves(RNG, 3))
    answered(honest, evaluator, 1)


def open_files() -> int:
    gc.collect()  # closes what earlier tests have left open
    return len(list(Path("/proc/self/fd").iterdir()))


def memory_that_shrinks() -> int:
    descriptor = os.memfd_create("open")
    os.ftruncate(descriptor, LAYOUT.size)
    return descriptor


HELLOS = {
    "nothing": lambda: (b"x", []),
    "no memory": lambda: (hello(LAYOUT, "x"), []),
    "memory that may shrink": lambda: (hello(LAYOUT, "x"), [memory_that_shrinks()]),
    "an ordinary file": lambda: (hello(LAYOUT, "x"), [os.open(__file__, os.O_RDONLY)]),
    "another game": lambda: (hello(OTHER, "x"), [create(OTHER)[1]]),
    "too many slots": lambda: (hello(Layout(WORDS, 9, 0, 251), "x"), [create(LAYOUT)[1]]),
    "memory of another size": lambda: (hello(LAYOUT, "x"), [create(Layout(WORDS, 9, 0, 5))[1]]),
    "another version": lambda: (b"azring99" + hello(LAYOUT, "x")[8:], [create(LAYOUT)[1]]),
}


@pytest.mark.parametrize("make", HELLOS.values(), ids=HELLOS.keys())
def test_a_wrong_hello_is_cut_off_and_leaves_no_descriptor_open(path: Path, make: Callable) -> None:
    evaluator = Evaluator(path)
    before = open_files()
    data, descriptors = make()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
        socket.send_fds(connection, [data], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        evaluator.step(3)
        assert connection.recv(1) == b""
    assert open_files() == before
    assert not evaluator.loop.rings.rings


def test_another_users_process_is_not_let_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Evaluator(path)
    user = os.getuid()
    monkeypatch.setattr("azselfplay.batching.rings.os.getuid", lambda: user + 1)
    stranger = Producer(path)
    evaluator.step(2)
    assert stranger.is_cut_off()
    assert not evaluator.loop.rings.rings


def test_memory_that_cannot_be_had_is_a_sentence_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("azselfplay.batching.ring.os.ftruncate", refuse)
    before = open_files()
    with pytest.raises(Fatal, match=r"a ring of 64 slots \(1 MiB\): .*Cannot allocate .*fewer workers"):
        create(Layout(WORDS, 9, 0, 64))
    assert open_files() == before


def test_a_producer_that_ends_in_the_middle_of_a_slot_costs_nothing(path: Path) -> None:
    evaluator = Evaluator(path)
    ended, honest = Producer(path), Producer(path)
    for index in range(2):
        ended.fill(index, random_leaves(RNG, 4))
    ended.memory.slots[2].features[:] = 7  # the byte that announces this slot is never sent
    evaluator.step(3)
    assert evaluator.network.events[-2:] == ["submit 2", "collect 1"], "the other batch is on the device"
    ended.socket.close()
    honest.fill(0, random_leaves(RNG, 3))
    answered(honest, evaluator, 1)
    assert len(evaluator.loop.rings.rings) == 1


def test_a_thousand_connections_leave_neither_memory_nor_descriptors(path: Path) -> None:
    evaluator = Evaluator(path)

    def connect() -> None:
        producer = Producer(path)
        producer.fill(0, random_leaves(RNG, 3))
        evaluator.step(3)
        producer.socket.close()
        evaluator.step()

    def mapped() -> int:
        return sum("azselfplay-ring" in line for line in Path("/proc/self/maps").read_text().splitlines())

    connect()
    before = open_files(), mapped()
    for _ in range(1000):
        connect()
    assert (open_files(), mapped()) == before


# ---- Wishes -------------------------------------------------------------------------------------


def test_producers_are_told_how_much_fills_the_batches_and_again_when_more_of_them_play(path: Path) -> None:
    """Their rows fill five batches: two on the device, and three that wait or are searched."""
    evaluator = Evaluator(path, EchoNetwork(target_rows=256))
    producers = [Producer(path) for _ in range(4)]
    evaluator.step(2)
    assert {producer.memory.demand for producer in producers} == {Demand(5 * 256, 256)}
    for producer in producers:
        producer.fill(0, random_leaves(RNG, 1))
    evaluator.step(2)
    evaluator.now += 2.0
    evaluator.step()
    assert {producer.memory.demand for producer in producers} == {Demand(5 * 256 // 4, 128)}
    assert all(producer.read() is not None and producer.looks == 2 for producer in producers)
    evaluator.now += 20.0  # nobody has played for so long
    evaluator.step()
    assert producers[0].memory.demand == Demand(5 * 256, 256)


def test_the_expected_workers_count_before_they_have_come(path: Path) -> None:
    evaluator = Evaluator(path.with_name("other"), loads=False)
    loop = EvaluatorLoop(path, EchoNetwork(256), GAME, 1, evaluator.control, 8, clock=lambda: 0.0)
    evaluator.control.orders.append(WEIGHTS)
    producer = Producer(path)
    for _ in range(3):
        loop.step()
    assert producer.memory.demand == Demand(5 * 256 // 8, 64)
