"""The three sources of a worker's evaluations: an evaluator of this machine, the server, or a network in the
search itself. All have one interface, `Source`, for `client.worker`. None imports torch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from azselfplay.batching.producer import Events, Leaves, RingClient, answered_runs
from azselfplay.batching.ring import Demand, Layout
from azselfplay.games.packed import LegalMasks
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.sockets import Context
from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import in_cache
from azselfplay.search.compiled import OwnNetwork
from azselfplay.search.evaluator import Evaluations, Evaluator, Reply, WaitingLeaves, deliver, fail
from client.remote_evaluator import LeafRefused, RemoteEvaluator, rows_per_message
from client.warm import Run
from net.sparse import SparseInference
from net.weights import BadWeights
from protocol.frames import LeafBatch
from protocol.messages import BadMessage, Evaluated, Grant, Hello, Message, Refused, WeightsInfo, Welcome

GAMES_IN_SEARCH = 64
"""Games in flight with a network in the search: no search waits for a batch, so more games gain nothing."""
log = logging.getLogger(__name__)


class Source:
    """A source of evaluations. `joined`, `lost` and `on_message` report on the bulk connection; a source that
    does not need it ignores them."""

    evaluator: Evaluator
    network: OwnNetwork | None = None
    """The network that the forest evaluates itself; None: leaves are submitted to `evaluator`."""
    description: str

    def __init__(self, on_games: Callable[[], None]) -> None:
        """`on_games()` is called whenever server or evaluator ask for another number of games."""
        self._on_games = on_games
        self._evaluator_asks = 0
        """Games in flight that the evaluator, or the server's leaves port, asks for; 0: not known yet."""
        self._joined = asyncio.Event()

    @property
    def leaves(self) -> int:
        """Leaves that were answered since the start, not counting those that the forest evaluated itself."""
        return 0

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines to run in the worker's task group."""
        raise NotImplementedError

    async def ready(self) -> None:
        """Return once leaves may be submitted, and it is known how many games to play."""
        await self._joined.wait()

    def games_to_play(self, server_asks: int) -> int:
        """Return how many games to have in flight. `server_asks`: the number in the bulk port's last WELCOME,
        which the server's user has set; 0: none."""
        raise NotImplementedError

    def joined(self, welcome: Welcome) -> None:
        """Note the beginning of a session."""

    def lost(self) -> None:
        """Note the end of a session."""

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        """Handle any other message."""

    def close(self) -> None:
        """Stop what was started."""

    def _note_demand(self, games: int) -> None:
        """Note that `games` games are asked for."""
        if games != self._evaluator_asks:
            self._evaluator_asks = games
            self._on_games()
        self._joined.set()


class ServerSource(Source):
    """The server's evaluators, over the leaves port."""

    evaluator: RemoteEvaluator
    description = "the server"

    def __init__(
        self,
        context: Context,
        endpoint: str,
        hello: Hello,
        settings: ConnectionSettings,
        on_games: Callable[[], None],
        run: Run,
    ) -> None:
        super().__init__(on_games)
        self._run = run.identity
        self._connection = Connection(
            context,
            endpoint,
            hello,
            on_message=self._on_leaves_message,
            on_joined=self._on_joined,
            on_lost=lambda _: self.evaluator.lost(),
            settings=settings,
        )
        game, history = run.game, run.settings.history
        self.evaluator = RemoteEvaluator(
            self._connection.send,
            masks=LegalMasks(game.mask_bytes) if game.mask_bytes else None,
            most_rows=rows_per_message(game, history),
        )

    @property
    def leaves(self) -> int:
        return self.evaluator.leaves

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self._connection.run()]

    def games_to_play(self, server_asks: int) -> int:
        # The leaves port's number counts first: it is what the server's user has set, else our share.
        return max(1, self._evaluator_asks or server_asks)

    def close(self) -> None:
        self.evaluator.close()

    def _on_joined(self, welcome: Welcome) -> None:
        if not self._is_this_run(welcome):
            return
        self.evaluator.joined(welcome)
        # The server's number of games may have changed while there was no session.
        self._note_demand(welcome.games_in_flight)

    def _is_this_run(self, welcome: Welcome | None) -> bool:
        """Return whether credits are taken. Another run has another network; the bulk connection soon ends
        this worker."""
        return welcome is not None and welcome.run_id == self._run

    def _on_leaves_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        if isinstance(message, Evaluated):
            try:
                self.evaluator.on_evaluated(message, frames)
            # Drop the answer: the request stays unanswered, and is sent again.
            except BadMessage as error:
                log.warning("dropped an answer of the server: %s", error)
        elif isinstance(message, Refused):
            self.evaluator.on_refused(message)
        elif isinstance(message, Grant) and self._is_this_run(self._connection.welcome):
            self.evaluator.granted(message.credits)
            self._note_demand(message.games_in_flight)


def own_first(rings: Sequence[Path], worker: int) -> list[Path]:
    """Return the evaluators' sockets in the order in which worker number `worker` prefers them. Neighbouring
    workers begin with different evaluators; each goes on to the next one if its own is away."""
    # The workers of a machine are spread evenly over its evaluators.
    own = worker % len(rings)
    return [*rings[own:], *rings[:own]]


class RingSource(Source):
    """An evaluator of this machine, over a ring (`azselfplay.batching`). It is its own `evaluator`."""

    evaluator: RingSource
    description = "an evaluator on this machine"
    leaves = 0

    def __init__(
        self, paths: Sequence[Path], layout: Layout, name: str, on_games: Callable[[], None]
    ) -> None:
        """`paths`: the evaluators' sockets, our own evaluator first."""
        super().__init__(on_games)
        self.evaluator = self
        self.version = 0
        self._waiting = WaitingLeaves()
        """Leaves not yet in a slot; bounded by the number of searches."""
        self._again: deque[Leaves] = deque()
        """Leaves that an evaluator had not answered when it ended."""
        events = Events(self._on_answer, self._on_demand, self._on_lost, self._flush)
        self.ring = RingClient(paths, layout, name, events)

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        self.ring.start()
        return []

    def games_to_play(self, server_asks: int) -> int:
        # The server's number counts first: an evaluator does not know what the server's user has set.
        return server_asks or self._evaluator_asks

    def close(self) -> None:
        self.ring.close()

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        """Request the evaluation of some leaves. `reply.failed` gets LeafRefused for leaves that will never
        be evaluated."""
        self._waiting.put(batch, reply)
        self._flush()

    def _flush(self) -> None:
        """Put waiting leaves into free slots."""
        ring = self.ring
        while ring.room and (rows := ring.demand.rows):
            # First send what an ended evaluator left undone: those searches have waited longest.
            if self._again:
                ring.send(self._again.popleft())
            elif self._waiting:
                batch, parts = self._waiting.take(rows)
                frames = batch.features, batch.counts, batch.actions
                ring.send(Leaves((batch, parts), frames, batch.rows, len(batch.actions)))
            else:
                break
        ring.flush()

    def _on_answer(self, leaves: Leaves, evaluations: Evaluations, refused: int) -> None:
        """Pass the answers to the searches that wait for them, before the slot is used again."""
        batch, parts = leaves.payload
        if refused < batch.rows:  # else no weights have answered
            self.version = evaluations.version
        self.leaves += batch.rows - refused
        if not refused:
            deliver(parts, batch.counts, 0, evaluations)
            return
        text = "%d leaves are refused: evaluators ended over them, or gave no probabilities, twice"
        log.warning(text, refused)
        # A negative probability of a win marks a row that is never answered (`batching.ring.REFUSED`).
        fail(parts, np.flatnonzero(evaluations.wdl[:, 0] < 0).tolist(), LeafRefused(text % refused))
        for first, some in answered_runs(leaves, evaluations):
            deliver(parts, batch.counts, first, some)

    def _on_demand(self, demand: Demand) -> None:
        # An evaluator without weights asks for no games yet.
        if demand.games:
            self._note_demand(demand.games)
        self._flush()

    def _on_lost(self, returned: list[Leaves]) -> None:
        # These leaves go first, to another evaluator or to the same one after its restart.
        self._again.extend(returned)
        self._flush()


class OwnNetworkSource(Source):
    """A network that is part of this process's search, with the weights that the server announces. No leaf
    leaves the process, and torch is not needed."""

    description = "the network in its own search"

    def __init__(self, own: SparseInference, *, folder: Path, send: Callable[..., bool]) -> None:
        super().__init__(lambda: None)
        # One object serves as all three. Nothing is ever submitted to it, because the forest evaluates by
        # itself.
        self._own = self.evaluator = self.network = own
        self._downloader = WeightsDownloader(in_cache(folder, self._load), send)

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self._downloader.run()]

    async def ready(self) -> None:
        await self._downloader.first()

    def games_to_play(self, server_asks: int) -> int:
        return server_asks or GAMES_IN_SEARCH

    def joined(self, welcome: Welcome) -> None:
        self._downloader.joined(welcome)

    def lost(self) -> None:
        self._downloader.lost()

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        self._downloader.on_message(message, frames)

    def _load(self, path: Path, info: WeightsInfo) -> str:
        """Return "", or why the weights in a file cannot be used (then the old ones stay). The announced
        version counts, not the one in the file: older weights may be announced as new ones."""
        try:
            self._own.load(path, info.sha256, info.version)
        except BadWeights as error:
            return str(error)
        return ""
