"""The leaf queue after any history: each row is answered or refused once, and nothing remains."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from leaf_queue_parts import joined, leaves, marked
from scaled_examples import scaled

from server.leaf_queue import LeafQueue
from server.pieces import Answer, Refuse, SendBatch


class AnyHistory(RuleBasedStateMachine):
    """Whatever arrives, dies, fails or leaves: every row is answered exactly once, or refused."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = LeafQueue()
        self.now = 0.0
        self.owed: dict[tuple[str, int], set[int]] = {}
        self.devices: dict[int, tuple[int, int]] = {}
        self.running: dict[int, dict[int, SendBatch]] = {}
        self.requests = 0

    def carry_out(self, instructions: list) -> None:
        for instruction in instructions:
            if isinstance(instruction, SendBatch):
                self.send(instruction)
            elif isinstance(instruction, Refuse):
                assert self.owed.pop((instruction.session, instruction.request))

    def send(self, batch: SendBatch) -> None:
        running = self.running[batch.evaluator]
        target, pipeline = self.devices[batch.evaluator]
        running[batch.batch] = batch
        assert len(running) <= pipeline
        assert 1 <= batch.rows <= target

    def check_answers(self, batch: SendBatch, instructions: list) -> None:
        """Check that each answer has exactly the features that its request had in those rows."""
        frames = joined(batch)
        for answer in (i for i in instructions if isinstance(i, Answer)):
            tag = answer.request
            got = frames.features[answer.at : answer.at + answer.rows, 0]
            assert got.tolist() == [1000 * tag + answer.first + row for row in range(answer.rows)]
            actions = frames.actions[answer.actions_at : answer.actions_end]
            wanted = np.frombuffer(leaves(answer.first + answer.rows, tag)[2], np.uint16)
            assert actions.tolist() == wanted[len(wanted) - len(actions) :].tolist()
            rows = set(range(answer.first, answer.first + answer.rows))
            owed = self.owed[answer.session, tag]
            assert rows <= owed
            owed -= rows
            if not owed:
                del self.owed[answer.session, tag]

    @rule(session=st.sampled_from("abc"), rows=st.integers(1, 300))
    def request(self, session: str, rows: int) -> None:
        self.requests += 1
        if self.requests > 60:
            return
        self.owed[session, self.requests] = set(range(rows))
        self.carry_out(self.queue.request(session, self.requests, leaves(rows, self.requests), self.now))

    @rule(name=st.integers(0, 2), size=st.integers(1, 200), pipeline=st.integers(1, 3))
    def device_comes(self, name: int, size: int, pipeline: int) -> None:
        if name in self.devices:
            self.device_dies(name)
        self.devices[name], self.running[name] = (size, pipeline), {}
        self.carry_out(self.queue.evaluator_ready(name, size, pipeline, self.now))

    @precondition(lambda self: self.devices)
    @rule(data=st.data(), size=st.integers(1, 200))
    def device_is_resized(self, data: st.DataObject, size: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.devices)))
        self.devices[name] = (size, self.devices[name][1])
        self.carry_out(self.queue.evaluator_resized(name, size, self.now))

    @rule(name=st.integers(0, 2))
    def device_dies(self, name: int) -> None:
        self.devices.pop(name, None)
        self.running.pop(name, None)
        self.carry_out(self.queue.evaluator_died(name, self.now))

    @precondition(lambda self: any(self.running.values()))
    @rule(data=st.data(), good=st.sampled_from([True, True, True, False]))
    def batch_ends(self, data: st.DataObject, good: bool) -> None:
        name = data.draw(st.sampled_from([name for name, running in self.running.items() if running]))
        batch = self.running[name].pop(data.draw(st.sampled_from(sorted(self.running[name]))))
        self.now += 0.01
        if not good:
            self.carry_out(self.queue.batch_failed(name, batch.batch, self.now))
            return
        instructions = self.queue.batch_done(name, batch.batch, self.now)
        self.check_answers(batch, instructions)
        self.carry_out(instructions)

    @precondition(lambda self: any(self.running.values()))
    @rule(data=st.data())
    def batch_ends_with_wrong_rows(self, data: st.DataObject) -> None:
        """Good rows are answered now, wrong ones are not, and the request may be refused because of them."""
        name = data.draw(st.sampled_from([name for name, running in self.running.items() if running]))
        batch = self.running[name].pop(data.draw(st.sampled_from(sorted(self.running[name]))))
        wrong = marked(batch.rows, *data.draw(st.sets(st.integers(0, batch.rows - 1), min_size=1)))
        owed = {key: set(rows) for key, rows in self.owed.items()}
        instructions = self.queue.batch_done(name, batch.batch, self.now, wrong)
        answered = [row for i in instructions if isinstance(i, Answer) for row in range(i.at, i.at + i.rows)]
        good = [
            at
            for at, (key, row) in enumerate(
                ((piece.of.session, piece.of.request), piece.first + row)
                for piece in batch.pieces
                for row in range(piece.rows)
            )
            if row in owed.get(key, ()) and not wrong[at]
        ]
        assert answered == good
        self.check_answers(batch, instructions)
        self.carry_out(instructions)

    @rule(session=st.sampled_from("abc"))
    def session_leaves(self, session: str) -> None:
        self.queue.cancel(session)
        self.owed = {key: rows for key, rows in self.owed.items() if key[0] != session}

    @invariant()
    def no_free_device_while_rows_wait(self) -> None:
        assert not self.queue.queued_rows or all(self.running.values())

    @invariant()
    def nothing_is_lost(self) -> None:
        """All unanswered rows are queued or running (running may include rows of sessions that left)."""
        running = sum(batch.rows for device in self.running.values() for batch in device.values())
        owed = sum(len(rows) for rows in self.owed.values())
        assert self.queue.queued_rows <= owed <= self.queue.queued_rows + running

    def teardown(self) -> None:
        """In the end, one good device answers all that is left."""
        for name in list(self.devices):
            self.device_dies(name)
        self.device_comes(9, 64, 2)
        while self.running[9]:
            batch = self.running[9].pop(min(self.running[9]))
            instructions = self.queue.batch_done(9, batch.batch, self.now)
            self.check_answers(batch, instructions)
            self.carry_out(instructions)
        assert self.owed == {}
        assert self.queue.queued_rows == 0


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=scaled(40), stateful_step_count=40, deadline=None)
