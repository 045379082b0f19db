"""The evaluator processes as the front sees them: which are up, with which weights, and how to reach them.

An evaluator sends EVALUATOR_READY, gets LOAD_WEIGHTS, and computes what is in its rings
(`azselfplay.batching`) once it has answered WEIGHTS_LOADED. Players hear of new weights only after an
evaluator has loaded them. `server.evaluator_watch` finds evaluators that hang.

Where players evaluate, the server has no evaluators: the network is part of the players' search (the family
`sparse`), or clients have evaluators of their own (`--gpus none`). Then `NoEvaluators` replaces the pool, and
weights are current once their file is stored and checked.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit
from azselfplay.link.door import Door
from azselfplay.link.door_connection import DoorLimits
from net.sparse import inference_for
from net.weights import BadWeights, check_numbers, read_tensors
from protocol.messages import (
    BadMessage,
    EvaluatorReady,
    EvaluatorReport,
    LoadWeights,
    Message,
    Ping,
    Pong,
    WeightsInfo,
    WeightsLoaded,
    WeightsRefused,
    decode,
    encode,
)
from protocol.sessions import hello_first
from protocol.zmtp import Limits
from server.evaluator_watch import EvaluatorWatch, WatchTimes
from server.metrics import Figures
from server.weights import WeightsStore

log = logging.getLogger(__name__)
FRAME_LIMIT = 4 * 1024 * 1024
"""Largest frame between front and evaluators, in bytes (both sides are ours)."""
LIMITS = DoorLimits(incoming=Limits(FRAME_LIMIT, 2 * FRAME_LIMIT), unsent=FRAME_LIMIT, held=16 * FRAME_LIMIT)
"""Limits of the evaluators' socket. They are only a safeguard, because its messages are small and few."""
ENDS_WHILE_LOADING = 2
"""Newer weights are refused after this many evaluator processes ended while loading them: they may need more
memory than there is."""
NOT_THE_WEIGHTS = frozenset({Exit.OK, Exit.DISK, -signal.SIGTERM})
"""Exit codes that do not count towards ENDS_WHILE_LOADING: a stop, and a disk that could not be read."""
READ_AGAIN = 5.0
"""Seconds until the next attempt to read the first weights after a disk error."""


@dataclass
class _Evaluator:
    """One evaluator of this server. It outlives its connections and processes."""

    ready: EvaluatorReady
    """Its last description of itself."""
    peer: bytes = b""
    """Empty while it is not connected."""
    sha256: bytes = b""
    """Hash of the weights that it has loaded since it connected; empty before the first."""
    architecture: str | None = None
    """Network that its process has loaded last."""


class EvaluatorPool:
    """All evaluators of this server, by index. The next three are set by the front."""

    on_up: Callable[[], None]
    """An evaluator has loaded its first weights."""
    on_taken: Callable[[WeightsInfo], None]
    """The first evaluator has loaded the desired weights."""
    on_weights_refused: Callable[[WeightsInfo, str], None]
    """An evaluator has refused the desired weights."""

    def __init__(
        self,
        door: Door,
        store: WeightsStore,
        figures: Figures,
        watch: WatchTimes | None = None,
    ) -> None:
        self.door = door
        self.desired: WeightsInfo | None = store.current
        """The weights that all evaluators should have: the current ones, or others that none has loaded
        yet."""
        self._store = store
        self._figures = figures
        self._evaluators: dict[int, _Evaluator] = {}
        """All that have ever been up."""
        self.watch = EvaluatorWatch(watch)
        self._ends_while_loading = 0
        """Evaluator processes that ended while they loaded the desired weights."""
        self._handlers: dict[type[Message], Callable[[int, Any], object]] = {
            WeightsLoaded: self._on_loaded,
            WeightsRefused: self._on_refused,
            EvaluatorReport: lambda index, report: figures.reported(index, report, time.monotonic()),
            Ping: lambda index, _: self._send(self._evaluators[index].peer, Pong()),
        }

    def start(self) -> None:
        """Accept connections of evaluators. Must be called in the thread of the event loop."""
        self.door.start(self._on_frames, self._on_gone)

    def close(self) -> None:
        self.door.close()

    @property
    def is_ready(self) -> bool:
        """Whether players may join: once an evaluator has been up, it is known how much they should send."""
        return self.target_rows > 0

    async def begin(self) -> None:
        """Prepare the weights that the run begins with. Nothing is needed here, because the evaluators check
        them."""

    async def objection(self, info: WeightsInfo) -> str:  # noqa: ARG002
        """Return why weights in the store cannot be used, as far as this is known before an evaluator loads
        them; "" if nothing is known against them. Raises OSError if the disk cannot be read now."""
        return ""

    @property
    def target_rows(self) -> int:
        """Return the sum over all evaluators that have ever been up."""
        return sum(one.ready.target_rows for one in self._evaluators.values())

    @property
    def mean_target(self) -> float:
        """Return the mean over all evaluators that have ever been up; 0: none has."""
        return self.target_rows / max(1, len(self._evaluators))

    @property
    def pipeline(self) -> int:
        return max((one.ready.pipeline for one in self._evaluators.values()), default=2)

    @property
    def working(self) -> int:
        """Return how many evaluators are connected and have weights."""
        return sum(bool(one.sha256) for one in self._evaluators.values())

    def load(self, info: WeightsInfo) -> None:
        """Make all evaluators load weights that are in the store."""
        self.desired, self._ends_while_loading = info, 0
        for index in self._connected():
            self._send_load(index)

    def process_started(self, index: int) -> None:
        """Note that a process of this evaluator has been started."""
        self.watch.started(index, time.monotonic())

    def process_ended(self, index: int, code: int) -> None:
        """Note that the process of this evaluator has ended with this exit code; it will be restarted."""
        was_loading = self.watch.is_loading(index)
        self.watch.ended(index)
        self._disconnected(index)
        if index in self._evaluators:
            self._evaluators[index].architecture = None
        desired = self.desired
        # Only newer weights can be refused; the current ones have played already.
        if not was_loading or code in NOT_THE_WEIGHTS or desired is None or desired == self._store.current:
            return
        self._ends_while_loading += 1
        if self._ends_while_loading >= ENDS_WHILE_LOADING:
            reason = f"{self._ends_while_loading} evaluators ended while they loaded them"
            log.error("weights %d are refused: %s", desired.version, reason)
            with self._figures.faults.survived("evaluators"):
                self._refuse(desired, reason)

    def _connected(self) -> list[int]:
        return [index for index, one in self._evaluators.items() if one.peer]

    def _index_of(self, peer: bytes) -> int | None:
        return next((index for index, one in self._evaluators.items() if one.peer == peer), None)

    def _disconnected(self, index: int) -> None:
        """Note that this evaluator has no connection any more, if it had one."""
        if (evaluator := self._evaluators.get(index)) is not None and evaluator.peer:
            evaluator.peer = evaluator.sha256 = b""
            self._figures.evaluator_restarts += 1
            # The rows that waited there are sent again, to another evaluator.
            self._figures.reported_rows.pop(index, None)

    # ---- messages ---------------------------------------------------------------------------

    def _on_gone(self, peer: bytes, _why: str) -> None:
        """Handle the end of a connection. A process that is alive dials again, and is asked to identify
        itself."""
        if (index := self._index_of(peer)) is not None:
            self._disconnected(index)

    def _on_frames(self, peer: bytes, frames: list[memoryview]) -> None:
        try:
            message = decode(frames[0])
            if isinstance(message, EvaluatorReady):
                self._on_ready(peer, message)
            elif (handler := self._handlers.get(type(message))) is None:
                raise BadMessage(f"{type(message).__name__} does not belong here")
            elif (index := self._index_of(peer)) is None:
                # The evaluator's connection was cut and restored, which the evaluator cannot see. Here it is
                # a new, unknown peer.
                self._send(peer, hello_first())
            else:
                self.watch.alive(index, time.monotonic())
                handler(index, message)
        except BadMessage as error:
            if self._index_of(peer) is None:
                # The door cuts a long message of an unknown peer short; it may be such an evaluator's report.
                self._send(peer, hello_first())
            self._figures.protocol_errors += 1
            log.warning("dropped a message of an evaluator: %s", error)
        except Exception as error:
            self._figures.faults.note("evaluators", error)

    def _on_ready(self, peer: bytes, ready: EvaluatorReady) -> None:
        """Handle a new process, or one that has determined its sizes more exactly."""
        index, now = ready.index, time.monotonic()
        evaluator = self._evaluators.setdefault(index, _Evaluator(ready))
        evaluator.ready = ready
        if evaluator.peer == peer:
            self.watch.alive(index, now)
            return
        # A process that is started again has another connection.
        self._disconnected(index)
        self.watch.ready(index, now)
        evaluator.peer = peer
        # Tell the door to keep the connection; it closes those of strangers after a while.
        self.door.admit(peer)
        self._send_load(index)

    def _send(self, peer: bytes, message: Message) -> bool:
        return self.door.send(peer, (encode(message),))

    def _send_load(self, index: int) -> None:
        if (desired := self.desired) is None:
            return
        evaluator = self._evaluators[index]
        knows = evaluator.architecture == desired.architecture
        self.watch.loading(index, time.monotonic(), knows=knows)
        path = self._store.path(desired).resolve()
        if not self._send(evaluator.peer, LoadWeights(desired.version, desired.sha256, str(path))):
            log.warning("the new weights could not be sent to evaluator %d", index)

    def _on_loaded(self, index: int, loaded: WeightsLoaded) -> None:
        desired, evaluator = self.desired, self._evaluators[index]
        # Others may have become desired while it loaded these.
        more = desired is not None and loaded.sha256 != desired.sha256
        self.watch.loaded(index, time.monotonic(), more=more)
        first, evaluator.sha256 = not evaluator.sha256, loaded.sha256
        if desired is not None and not more:
            evaluator.architecture = desired.architecture
            # This is the first evaluator that has them: from now on players are told of them.
            if desired != self._store.current:
                self.on_taken(desired)
        # Log only the first weights of a process, not each change.
        if first:
            ready = evaluator.ready
            log.info("evaluator %d is ready: %s, batches of %d", index, ready.device, ready.target_rows)
            self.on_up()

    def _on_refused(self, index: int, refused: WeightsRefused) -> None:
        """Handle a refusal: the evaluator keeps its old network. A process without any gets the current
        weights."""
        desired = self.desired
        more = desired is not None and refused.version != desired.version
        self.watch.loaded(index, time.monotonic(), more=more)
        if desired is None or more:
            return
        log.warning("evaluator %d refuses weights %d: %s", index, refused.version, refused.reason)
        self._refuse(desired, refused.reason)

    def _refuse(self, refused: WeightsInfo, reason: str) -> None:
        """Go back to the current weights, unless those are the refused ones."""
        self._figures.weights_refused += 1
        current = self.desired = self._store.current
        self.on_weights_refused(refused, reason)
        if current is None or refused == current:
            return
        for index in self._connected():
            # An evaluator that is still loading the refused weights must go back as well.
            if self._evaluators[index].sha256 != current.sha256 or self.watch.is_loading(index):
                self._send_load(index)


class NoEvaluators(EvaluatorPool):
    """Replaces the evaluators where players evaluate. Call `expect` first."""

    is_checked = False
    """Whether some weights have been found good."""
    _expected: tuple[Game, int, str]

    def expect(self, game: Game, history: int, network: str) -> None:
        """Set what weights have to fit. `network`: the name of the players' network."""
        self._expected = game, history, network

    @property
    def is_ready(self) -> bool:
        return self.is_checked

    async def objection(self, info: WeightsInfo) -> str:
        path = self._store.path(info)
        return await asyncio.to_thread(objection_to, path, info, *self._expected)

    async def begin(self) -> None:
        """Check the weights that the run begins with, and use them."""
        while not self.is_checked and (info := self.desired) is not None:
            try:
                reason = await self.objection(info)
            except OSError as error:
                log.warning("weights %d cannot be read (%s), trying again", info.version, error)
                await asyncio.sleep(READ_AGAIN)
                continue
            # Newer weights may have been checked and taken meanwhile.
            if info != self.desired:
                continue
            if not reason:
                self.load(info)
            else:
                log.error("weights %d are refused: %s", info.version, reason)
                is_last = info == self._store.current
                self._refuse(info, reason)
                # There are no weights to go back to; the front ends with a message.
                if is_last:
                    return

    def load(self, info: WeightsInfo) -> None:
        """Use weights that have been checked."""
        self.desired, self.is_checked = info, True
        self.on_taken(info)


def objection_to(path: Path, info: WeightsInfo, game: Game, history: int, network: str) -> str:
    """Return why players cannot use the weights in a file; "" if they can. `network`: the name of the
    players' network, if it is part of their search. The shapes of other networks are checked only where they
    are built, because that needs torch. Raises OSError if the disk cannot be read now."""
    try:
        if own := inference_for(game, history, network):
            own.load(path, info.sha256)
            return ""
        tensors, _ = read_tensors(path, game=game, history=history, sha256=info.sha256)
        for name, tensor in tensors.items():
            check_numbers(name, tensor)
    except BadWeights as error:
        return str(error)
    return ""
