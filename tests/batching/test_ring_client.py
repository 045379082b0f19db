"""A worker's ring beside evaluators that end at any step: no row is lost or gets another row's answer."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from ring_parts import LAYOUT, EchoNetwork, Evaluator, SteppedLoop, echo, random_leaves

from azselfplay.batching.producer import AWAY, REDIAL
from azselfplay.search.evaluator import Evaluations
from client.remote_evaluator import LeafRefused
from client.sources import RingSource
from protocol.frames import LeafBatch


class Killed(Exception):
    """Stands for SIGKILL."""


class Mortal(EchoNetwork):
    """A network whose process is killed when it submits or collects, as `dies_in` says."""

    def __init__(self) -> None:
        super().__init__(target_rows=16)
        self.dies_in = ""

    def submit(self, batch: LeafBatch) -> LeafBatch:
        if self.dies_in == "submit":
            raise Killed
        return super().submit(batch)

    def collect(self, ticket: LeafBatch) -> tuple[np.ndarray, np.ndarray]:
        if self.dies_in == "collect":
            raise Killed
        return self.answers(ticket)


class Checked:
    """A search that waits for rows and checks their answers."""

    def __init__(self, leaves: LeafBatch) -> None:
        self.leaves = leaves
        self.open = set(range(len(leaves[1])))
        self.failed_rows = 0

    def answered(self, first: int, evaluations: Evaluations) -> None:
        end = first + len(evaluations.wdl)
        wanted = echo(*self.leaves.split(end)[0].split(first)[1])
        np.testing.assert_array_equal(evaluations.priors, wanted[0])
        np.testing.assert_array_equal(evaluations.wdl, wanted[1])
        assert set(range(first, end)) <= self.open, "answered twice"
        self.open -= set(range(first, end))

    def failed(self, first: int, rows: int, error: Exception) -> None:
        assert isinstance(error, LeafRefused)
        self.open -= set(range(first, first + rows))
        self.failed_rows += rows


class RingMachine(RuleBasedStateMachine):
    """A worker and two evaluators, of which the first is the worker's own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="az-")
        folder = Path(self.folder.name)
        self.paths = [folder / "0", folder / "1"]
        self.evaluators: list[Evaluator | None] = [None, None]
        self.loop = SteppedLoop()
        self.rng = np.random.default_rng(1)
        self.requests: list[Checked] = []
        self.kills = 0
        self.worker: RingSource = self.loop.run_until_complete(self._make())
        self.loop.turns()

    async def _make(self) -> RingSource:
        worker = RingSource(self.paths, LAYOUT, "a worker", lambda: None)
        worker.ring.start()
        return worker

    @rule(rows=st.integers(1, 40))
    def submit(self, rows: int) -> None:
        leaves = random_leaves(self.rng, rows)
        self.requests.append(Checked(leaves))
        self.worker.submit(leaves, self.requests[-1])

    @rule(which=st.integers(0, 1))
    def start(self, which: int) -> None:
        if self.evaluators[which] is None:
            self.evaluators[which] = Evaluator(self.paths[which], Mortal())

    @rule(which=st.integers(0, 1), where=st.sampled_from(["", "", "", "submit", "collect", "flush", "now"]))
    def step(self, which: int, where: str) -> None:
        """Make a step of an evaluator, or kill it in the middle of one."""
        evaluator = self.evaluators[which]
        if evaluator is None:
            return
        assert isinstance(evaluator.network, Mortal)
        evaluator.network.dies_in = where
        if where == "flush":
            evaluator.loop.rings.flush = _die  # type: ignore[method-assign]
        try:
            evaluator.step()
            if where != "now":
                return
        except Killed:
            pass
        evaluator.kill()
        self.kills += 1
        self.evaluators[which] = None

    @rule()
    def turn(self) -> None:
        self.loop.turns()

    @rule(seconds=st.sampled_from([REDIAL, 2 * REDIAL, AWAY + 1]))
    def wait(self, seconds: float) -> None:
        self.loop.now += seconds
        self.loop.turns()

    @precondition(lambda self: self.requests)
    @rule()
    def finish(self) -> None:
        """Beside a live evaluator, each row is answered, or refused because it has ended two evaluators."""
        self.start(0)
        for _ in range(200):
            self.wait(REDIAL)
            for which in range(2):
                self.step(which, "")
            if not any(request.open for request in self.requests):
                break
        assert not any(request.open for request in self.requests)
        assert self.kills >= 2 or not any(request.failed_rows for request in self.requests)
        assert self.worker.ring.sent_rows == 0
        self.requests.clear()

    def teardown(self) -> None:
        self.loop.turns()
        if self.requests:
            self.finish()
        self.worker.ring.close()
        for evaluator in self.evaluators:
            if evaluator is not None:
                evaluator.kill()
        self.loop.turns()
        self.loop.close()
        self.folder.cleanup()


def _die(*_: Any) -> Any:
    raise Killed


TestRing = RingMachine.TestCase
TestRing.settings = settings(deadline=None)


def a_worker_beside(evaluators: int) -> RingMachine:
    machine = RingMachine()
    for which in range(evaluators):
        machine.start(which)
    machine.wait(REDIAL)
    return machine


def connections(machine: RingMachine) -> list[int]:
    """Make a step of each evaluator and return how many rings it has."""
    for which in range(2):
        machine.step(which, "")
    return [0 if one is None else len(one.loop.rings.rings) for one in machine.evaluators]


def test_a_worker_whose_evaluator_is_away_for_a_minute_gets_another_and_returns_to_its_own() -> None:
    machine = a_worker_beside(2)
    assert connections(machine) == [1, 0]
    machine.step(0, "now")
    machine.turn()
    machine.wait(AWAY / 2)
    assert connections(machine) == [0, 0], "it may be back soon"
    machine.wait(AWAY / 2)
    assert connections(machine) == [0, 1]
    machine.submit(30)
    machine.start(0)
    machine.wait(AWAY)
    assert connections(machine) == [1, 0]
    machine.teardown()


def test_a_worker_whose_evaluator_ends_whenever_it_is_back_gets_another() -> None:
    machine = a_worker_beside(2)
    machine.step(0, "now")
    machine.turn()
    machine.wait(40)
    machine.start(0)
    machine.wait(REDIAL)
    assert connections(machine) == [1, 0]
    machine.step(0, "now")
    machine.turn()
    machine.wait(40)
    assert connections(machine) == [0, 1]
    machine.teardown()


def end_two_evaluators(machine: RingMachine) -> None:
    """Submit rows over which two evaluators end, and start the next one."""
    machine.submit(10)
    for _ in range(2):
        for _ in range(4):
            machine.wait(REDIAL)
            machine.step(0, "collect")
        assert machine.evaluators[0] is None
        machine.start(0)


def test_the_version_of_the_weights_stays_when_rows_are_refused() -> None:
    machine = a_worker_beside(1)
    machine.submit(5)
    machine.finish()
    end_two_evaluators(machine)
    machine.finish()
    assert machine.worker.version == 1
    machine.teardown()


def test_rows_that_end_every_evaluator_are_refused_after_two_and_others_are_answered() -> None:
    machine = a_worker_beside(1)
    end_two_evaluators(machine)
    machine.submit(5)
    bad, good = machine.requests
    machine.finish()
    assert (bad.failed_rows, good.failed_rows) == (10, 0)
    machine.teardown()
