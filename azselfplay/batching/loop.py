"""The evaluator: gathers leaves from rings, and runs them through the network of one device.

This is the central batching evaluator: hundreds of searches, in any number of processes, await its answers.
The loop blocks and uses no asyncio, because it serves one device. Each turn reads which slots are filled,
submits batches while the device has room, and answers the oldest one. A device has two batches submitted at
once, so that copying and unpacking overlap with computing.

`server.evaluator` runs this loop for azserver, `client.evaluator` for a client with devices of its own. The
two differ in where the weights come from (`Control`).
"""

from __future__ import annotations

import logging
import selectors
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from azselfplay.batching.queue import LeafQueue, games_each, has_changed_much, rows_a_slot
from azselfplay.batching.ring import Demand, Layout
from azselfplay.batching.rings import Filled, Ring, Rings
from azselfplay.games.packed import LegalMasks
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import DEVICE_FILES, may_have_gpus
from net.weights import BadWeights
from protocol.frames import EvaluationFrames, LeafBatch, are_probabilities, check_actions, wrong_rows
from protocol.messages import BadMessage, EvaluatorReport, LoadWeights

HEARTBEAT = 5.0
"""Longest wait in seconds of an idle evaluator, which then calls `Control.alive`."""
REPORT_EVERY = 1.0
"""Least seconds between two reports, and between two calls of `Control.alive`."""
RECENT = 10.0
"""Seconds for which an owner that has sent leaves counts as playing."""
MAX_STARTS = 2
"""Evaluators that may die over the same rows before the rows are refused."""
MAX_WRONG = 2
"""How often the answer to the same row may fail to be a probability before the row is refused."""

log = logging.getLogger("evaluator")

Features = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.uint16]
"""Counts of legal actions, or the actions themselves."""
Answers = tuple[npt.NDArray[Any], npt.NDArray[np.float32]]


class Network(Protocol):
    """What the loop needs from `net.inference.Inference`."""

    target_rows: int
    max_rows: int
    in_flight: int
    """Batches submitted to the device at once."""
    out_of_memory: type[Exception]
    """What is raised if the device has no memory for a batch."""

    @property
    def device_name(self) -> str: ...
    def load(self, path: str, sha256: bytes) -> Any: ...
    def halve(self) -> None: ...
    def room_for(self, rows: int) -> Features: ...
    def run(self, batch: LeafBatch) -> Answers: ...
    def submit(self, batch: LeafBatch) -> Any: ...
    def collect(self, ticket: Any) -> Answers: ...


class Control(Protocol):
    """Tells the loop which weights to use, and receives its reports."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when `receive` may have something."""
        ...

    def receive(self) -> LoadWeights | None:
        """Return the weights to load next, without waiting; None if there are none."""
        ...

    def ready(self, network: Network) -> None:
        """Note that the device is open, or that its sizes have changed."""
        ...

    def loaded(self, weights: LoadWeights) -> None: ...

    def refused(self, weights: LoadWeights, reason: str) -> None: ...

    def report(self, report: EvaluatorReport) -> None: ...

    def alive(self) -> None:
        """Note that the evaluator has nothing to do."""
        ...


@dataclass(eq=False, slots=True)
class _Batch:
    """A batch for the device."""

    leaves: list[Filled]
    actions: list[int]
    """Number of legal actions of each slot."""
    positions: LeafBatch
    """Kept, because they are computed again if the device runs out of memory."""
    ticket: Any = None
    """From `Network.submit`."""
    began: float = 0.0
    """When it was submitted."""


@dataclass
class _Counts:
    """Counts since the last report, named as in EVALUATOR_REPORT."""

    rows: int = 0
    batches: list[int] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    redone_rows: int = 0
    wrong_rows: int = 0
    bad_batches: int = 0
    poisoned: int = 0


class EvaluatorLoop:
    """One device and its rings."""

    def __init__(
        self,
        path: Path,
        network: Network,
        game: Game,
        history: int,
        control: Control,
        workers: int = 1,
        games: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen for producers at the Unix socket `path`. `workers`: how many have this evaluator as their
        own. `games`: how many each plays at once; 0: as many as fill the batches."""
        self._network = network
        self._game = game
        self._layout = Layout.of(game, history, 1)
        self._control = control
        self._workers, self._games = workers, games
        self._clock = clock
        self._masks = LegalMasks(game.mask_bytes) if game.mask_bytes else None
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, control)
        self._queue = LeafQueue()
        self.rings = Rings(path, self._layout, self._selector, self._forget)
        self._submitted: deque[_Batch] = deque()
        self._busy_rows = 0
        """Rows on the device."""
        self._version = 0
        self._has_weights = False
        self._last_done = 0.0
        self._seen: dict[tuple[Ring, int], float] = {}
        """When each owner last sent leaves."""
        self._demand = Demand(0, 0)
        self._counts = _Counts()
        self._report_at = 0.0

    def run(self) -> None:
        """Run forever. Raises Fatal(TRY_AGAIN) if the device has no memory for a row or for weights."""
        self._control.ready(self._network)
        try:
            while True:
                self.step()
        except self._network.out_of_memory as error:
            raise Fatal(
                f"{self._network.device_name} has no memory left for a batch of one row, or for new weights: "
                "end other programs on the device",
                Exit.TRY_AGAIN,
            ) from error

    def step(self) -> None:
        """Take what has arrived, submit what the device has room for, then answer the oldest batch."""
        # With work to do, only read what has already arrived, without waiting.
        can_work = self._submitted or (self._has_weights and self._queue.rows)
        self._receive(wait=not can_work)
        while self._has_weights and len(self._submitted) < self._network.in_flight:
            leaves = self._queue.next_batch(self._network.target_rows, self._busy_rows)
            if not leaves:
                break
            if batch := self._gather(leaves):
                self._submit(batch)
        if self._submitted:
            self._answer_oldest()
        # Once a second, report what has happened, and tell the producers how much to send.
        if (now := self._clock()) >= self._report_at:
            self._report_at = now + REPORT_EVERY
            self._update_demand()
            counts, self._counts = self._counts, _Counts()
            waiting = self._queue.rows + self._busy_rows
            worked = bool(counts.batches or counts.busy)
            if worked or counts.poisoned or waiting:
                self._control.report(
                    EvaluatorReport(**vars(counts), queue_rows=self._queue.rows, sent_rows=self._busy_rows)
                )
            if not worked:
                self._control.alive()
        self.rings.flush()

    def _forget(self, ring: Ring) -> None:
        """Drop the slots of a closed ring. Those on the device are computed to the end, and dropped then."""
        self._queue.drop(ring)
        self._seen = {owner: at for owner, at in self._seen.items() if owner[0] is not ring}

    # ---- What arrives -------------------------------------------------------------------------

    def _receive(self, *, wait: bool) -> None:
        """Load new weights, and read the rings. With `wait`, return when there is something, or after a
        heartbeat."""
        # Before each wait: ZeroMQ's descriptor does not become readable again for what is left in the socket.
        self._load_weights()
        seconds = 0.0
        if wait:
            # Something is left to report: wait no longer than until the report is due.
            seconds = REPORT_EVERY if self._counts.batches or self._counts.busy else HEARTBEAT
        ready = self._selector.select(seconds)
        now = self._clock()
        for key, _ in ready:
            match key.data:
                case Ring() as ring:
                    for leaves in self.rings.read(ring, now):
                        self._put(leaves)
                    # A producer that has just said HELLO does not know the demand yet.
                    ring.send_demand(self._demand)
                case Rings() as rings:
                    rings.accept()
                case _:
                    self._load_weights()

    def _put(self, leaves: Filled) -> None:
        self._seen[leaves.owner] = leaves.arrived
        if leaves.starts >= MAX_STARTS:
            log.warning(
                "%d rows of %s are refused: %d evaluators ended over them",
                leaves.rows,
                leaves.ring.name,
                leaves.starts,
            )
            self._counts.poisoned += 1
            leaves.refuse()
            return
        if leaves.starts:
            self._counts.redone_rows += leaves.rows
        self._queue.put(leaves)

    def _load_weights(self) -> None:
        """Load the weights that control has, if any: between two batches, so batches already submitted are
        answered with the old ones."""
        while (weights := self._control.receive()) is not None:
            while self._submitted:
                self._answer_oldest()
            described, before = self._described(), self._network.max_rows
            try:
                self._network.load(weights.path, weights.sha256)
            except BadWeights as error:
                log.warning("weights %d are refused: %s", weights.version, error)
                self._control.refused(weights, str(error))
                continue
            except OSError as error:  # a disk error: the parent restarts this process
                what = f"weights {weights.version} cannot be read at the moment: {error}"
                raise Fatal(what, Exit.DISK) from error
            self._version, self._has_weights = weights.version, True
            # The sizes change with the first weights, and when the device runs short of memory.
            if self._network.max_rows < before:
                self._say_smaller(before)
            elif self._described() != described:
                self._control.ready(self._network)
            self._control.loaded(weights)
            self._update_demand()

    def _described(self) -> tuple[int, str]:
        return self._network.target_rows, self._network.device_name

    # ---- The device ---------------------------------------------------------------------------

    def _gather(self, leaves: list[Filled]) -> _Batch | None:
        """Copy slots into one batch, without those that are invalid; None if no slot is left."""
        good = self._checked(leaves)
        if not good:
            return None
        leaves = [one for one, _, _ in good]
        features = self._network.room_for(sum(one.rows for one in leaves))
        at = 0
        for one in leaves:
            features[at : at + one.rows] = one.slot.features[: one.rows]
            at += one.rows
        counts, legal_actions = good[0][1:]
        if len(good) > 1:
            counts, legal_actions = (np.concatenate([entry[kind] for entry in good]) for kind in (1, 2))
        positions = LeafBatch(features, counts, legal_actions)
        return _Batch(leaves, [len(legal) for _, _, legal in good], positions)

    def _checked(self, leaves: list[Filled]) -> list[tuple[Filled, Numbers, Numbers]]:
        """Return each slot with copies of its counts and legal actions. A producer that sent an invalid slot
        is cut off, and all its slots are left out."""
        found: list[tuple[Filled, Numbers, Numbers]] = []
        game = self._game
        for one in leaves:
            if one.ring.is_open:
                # Copied before they are checked: the producer shares this memory and may change it.
                counts = one.slot.counts[: one.rows].copy()
                raw = one.slot.legal[: one.header.legal_bytes].copy()
                try:
                    if not one.header.is_mask:
                        legal = check_actions(counts, raw.data, game.actions, game.max_legal)
                    else:
                        assert self._masks is not None  # a ring refuses masks in a game without
                        masks = check_actions(counts, raw.data, game.actions, game.max_legal, game.mask_bytes)
                        legal = self._masks.lists(counts, masks)
                    found.append((one, counts, legal))
                except BadMessage as error:
                    self.rings.cut_off(one.ring, error)
        return [entry for entry in found if entry[0].ring.is_open]

    def _submit(self, batch: _Batch) -> None:
        """Compute a batch, or begin to."""
        for one in batch.leaves:
            one.begin()
        rows, now = batch.positions.rows, self._clock()
        self._busy_rows += rows
        self._counts.batches.append(rows)
        self._counts.waited.append(sum((now - one.arrived) * one.rows for one in batch.leaves) / rows)
        batch.began = time.perf_counter()
        fits = True
        try:
            if rows > self._network.max_rows:  # a slot is larger than the device has memory for
                self._answer(batch, *self._network.run(batch.positions))
                return
            batch.ticket = self._network.submit(batch.positions)
        except self._network.out_of_memory:
            fits = False
        self._submitted.append(batch)
        if not fits:  # not in the `except`: the exception keeps the failed batch's memory
            self._halve()

    def _answer_oldest(self) -> None:
        answer: Answers | None
        try:
            answer = self._network.collect(self._submitted[0].ticket)
        except self._network.out_of_memory:
            answer = None
        if answer is None:  # not in the `except`, as above
            self._halve()
        else:
            self._answer(self._submitted.popleft(), *answer)

    def _halve(self) -> None:
        """Recover from running out of device memory: make batches smaller, and compute everything that was
        submitted again in parts. If even one row is too many, the process ends, and its producers send the
        slots again."""
        before = self._network.max_rows
        while True:
            # `halve` loses the batches on the device, so all of them are computed again.
            self._network.halve()
            try:
                answers = [self._network.run(one.positions) for one in self._submitted]
                break
            except self._network.out_of_memory:
                log.debug("%d rows are still too many", self._network.max_rows)
        self._say_smaller(before)
        for one, answer in zip(list(self._submitted), answers, strict=True):
            self._answer(one, *answer)
        self._submitted.clear()

    def _say_smaller(self, before: int) -> None:
        log.warning(
            "%s is short of memory: batches have at most %d rows from now on (before: %d). End other "
            "programs on the device, or choose a smaller --net",
            self._network.device_name,
            self._network.max_rows,
            before,
        )
        self._control.ready(self._network)

    def _answer(self, done: _Batch, priors: npt.NDArray[np.generic], wdl: npt.NDArray[np.float32]) -> None:
        """Write the answers of a batch into its slots."""
        now = time.perf_counter()
        # Count from the end of the previous batch: two batches overlap, and no time must count twice.
        self._counts.busy.append(now - max(done.began, self._last_done))
        self._last_done = now
        counts = done.positions.counts
        self._busy_rows -= len(counts)
        self._counts.rows += len(counts)
        answers = EvaluationFrames(priors.astype(np.float16, copy=False), wdl)
        wrong = None if are_probabilities(answers) else wrong_rows(answers, counts)
        if wrong is not None:
            self._counts.bad_batches += 1
            self._counts.wrong_rows += int(wrong.sum())
        at = used = 0
        for one, actions in zip(done.leaves, done.actions, strict=True):
            end = at + one.rows
            mine = answers.priors[used : used + actions], wdl[at:end]
            if wrong is None or not wrong[at:end].any():
                one.answer(*mine, self._version)
            else:
                # Some answers are not probabilities: compute the slot once more, and then refuse such rows.
                one.try_again()
                if one.wrong < MAX_WRONG:
                    self._counts.redone_rows += one.rows
                    self._queue.put(one)
                else:
                    text = "%d rows of %s are refused: their answers are no probabilities"
                    log.warning(text, int(wrong[at:end].sum()), one.ring.name)
                    self._counts.poisoned += 1
                    one.answer(*mine, self._version, wrong[at:end])
            at, used = end, used + actions

    # ---- Demand -------------------------------------------------------------------------------

    def _update_demand(self) -> None:
        """Tell the producers how many games to play, and how many rows to put into a slot. All games together
        have enough leaves for the batches on the device, one more that waits, and those still in the
        searches."""
        if not self._has_weights:
            return
        now = self._clock()
        self._seen = {owner: at for owner, at in self._seen.items() if now - at < RECENT}
        # Workers that are still starting count too, although they have sent nothing yet.
        owners = max(1, self._workers, len(self._seen))
        target = self._network.target_rows
        needed = (self._network.in_flight + 3) * target
        games = self._games or games_each(needed, owners)
        rows = rows_a_slot(target, owners)
        # A small change is not worth beginning or ending games for.
        if has_changed_much(games, self._demand.games) or has_changed_much(rows, self._demand.rows):
            self._demand = Demand(games, rows)
        for ring in self.rings.rings:
            ring.send_demand(self._demand)


def open_device(device: str, game: Game, history: int, threads: int) -> Network:
    """Return a network without weights on a device (`cpu` or `cuda:N`). `threads`: for a CPU; 0: one per
    core.

    Raises Fatal(CONFIG) if the device cannot be used, Fatal(TRY_AGAIN) if that may change."""
    from net.gpu import NotThere
    from net.inference import Inference

    try:
        return Inference(game, history, device, threads=threads, compiled=True)
    except (ValueError, RuntimeError) as error:
        # Any other ValueError is for ever: there is no code for this GPU, or a variable is wrong.
        may_come_back = isinstance(error, NotThere | RuntimeError) and device != "cpu"
        code = Exit.TRY_AGAIN if may_come_back and may_have_gpus(DEVICE_FILES) else Exit.CONFIG
        raise Fatal(f"device {device} cannot be used: {error}", code) from error
