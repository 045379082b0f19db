"""The three sources of a worker's evaluations: the server, a local network, or a network in the search
itself.

All have one interface, `Source`, for `client.worker`. Torch is imported only when a `LocalNet` is made.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from azselfplay.games.packed import LegalMasks
from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import may_have_gpus
from azselfplay.host.logs import Repeated
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.sockets import Context
from azselfplay.link.weights_pull import WeightsPuller, in_cache
from azselfplay.search.compiled import OwnNetwork
from azselfplay.search.evaluator import Evaluations, Evaluator, LeafBatch, LocalEvaluator
from client.remote_evaluator import RemoteEvaluator
from net.sparse import SparsePlayer
from net.weights import BadWeights
from protocol.messages import (
    BadMessage,
    Evaluated,
    Grant,
    Hello,
    Message,
    Refused,
    WeightsInfo,
    Welcome,
)

FEWEST_GAMES = 64
"""Least number of games in flight with a local network."""
GAMES_IN_SEARCH = 64
"""Games in flight with a network in the search: nothing waits for another, so more of them only take memory
and finish later."""
log = logging.getLogger(__name__)


class Source(Protocol):
    """A source of evaluations. `joined`, `lost` and `on_message` concern the bulk connection."""

    @property
    def evaluator(self) -> Evaluator: ...

    @property
    def network(self) -> OwnNetwork | None:
        """The network that the forest evaluates itself; None: leaves are submitted to `evaluator`."""
        ...

    @property
    def leaves(self) -> int:
        """Number of leaves answered since the start, without those that the forest evaluated itself."""
        ...

    @property
    def description(self) -> str: ...

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines to run in the worker's task group."""
        ...

    async def ready(self) -> None:
        """Return once leaves may be submitted."""
        ...

    def games(self, wanted: int) -> int:
        """Return how many games to have in flight; `wanted` is the server's number when the worker joined."""
        ...

    def joined(self, welcome: Welcome) -> None: ...

    def lost(self) -> None: ...

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None: ...

    def close(self) -> None: ...


class ServersNet:
    """The server's evaluators, over the leaves port."""

    network = None
    description = "the server"

    def __init__(
        self,
        context: Context,
        endpoint: str,
        hello: Hello,
        settings: ConnectionSettings | None = None,
        on_games: Callable[[int], None] = lambda _: None,
        mask_bytes: int = 0,
    ) -> None:
        """`on_games(games)` is called whenever the server asks for another number of games. `mask_bytes`:
        `Game.mask_bytes`."""
        self._on_games = on_games
        self._wanted = 0
        self._joined = asyncio.Event()
        self._connection = Connection(
            context,
            endpoint,
            hello,
            on_message=self._on_leaves_message,
            on_joined=self._on_joined,
            on_lost=lambda _: self.evaluator.lost(),
            settings=settings or ConnectionSettings(),
        )
        masks = LegalMasks(mask_bytes) if mask_bytes else None
        self.evaluator = RemoteEvaluator(self._connection.send, masks=masks)
        self._repeated = Repeated(log)
        self._now = asyncio.get_running_loop().time

    @property
    def leaves(self) -> int:
        return self.evaluator.leaves

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self._connection.run()]

    async def ready(self) -> None:
        """Return with the first session, which says how many games the server wants."""
        await self._joined.wait()

    def games(self, wanted: int) -> int:
        return max(1, self._wanted or wanted)

    def joined(self, welcome: Welcome) -> None:
        pass

    def lost(self) -> None:
        pass

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        pass

    def close(self) -> None:
        self.evaluator.close()

    def _on_joined(self, welcome: Welcome) -> None:
        self.evaluator.joined(welcome)
        self._want(welcome.games_in_flight)
        self._joined.set()

    def _want(self, games: int) -> None:
        if games != self._wanted:
            self._wanted = games
            self._on_games(max(1, games))

    def _on_leaves_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        if isinstance(message, Evaluated):
            try:
                self.evaluator.on_evaluated(message, frames)
            except BadMessage as error:
                self._repeated.warning("answer", f"dropped an answer of the server: {error}", self._now())
        elif isinstance(message, Refused):
            self.evaluator.on_refused(message)
        elif isinstance(message, Grant):
            self.evaluator.granted(message.credits)
            self._want(message.games_in_flight)


class OwnNet:
    """A network in this process, with the weights that the server announces."""

    network = None

    def __init__(
        self,
        game: Game,
        history: int,
        device: str,
        *,
        threads: int,
        folder: Path,
        send: Callable[..., bool],
    ) -> None:
        self._net = LocalNet(game, history, device, threads or None)
        self._puller = WeightsPuller(in_cache(folder, self._net.load), send)
        self._evaluator = LocalEvaluator(self._net.infer, self._net.max_rows)

    @property
    def evaluator(self) -> Evaluator:
        return self._evaluator

    @property
    def leaves(self) -> int:
        return self._evaluator.rows

    @property
    def description(self) -> str:
        return self._net.device_name

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self._puller.run()]

    async def ready(self) -> None:
        if not self._puller.ready.is_set():
            log.info("waiting for weights from the server")
        await self._puller.first()

    def games(self, wanted: int) -> int:  # noqa: ARG002
        """One batch computes while the next collects; `wanted` is meant for the server's own devices."""
        return max(FEWEST_GAMES, 2 * self._net.target_rows)

    def joined(self, welcome: Welcome) -> None:
        self._puller.joined(welcome)

    def lost(self) -> None:
        self._puller.lost()

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        self._puller.on_message(message, frames)

    def close(self) -> None:
        self._evaluator.close()


class LocalNet:
    """Answers batches in one thread while another loads; weights are swapped between two batches."""

    def __init__(self, game: Game, history: int, device: str, threads: int | None = None) -> None:
        """`device`: cpu or cuda:N. `threads`: of the CPU network; None leaves it to torch.

        Raises Fatal(CONFIG) if there is no such device, Fatal(TRY_AGAIN) if its driver is there.
        """
        from net.inference import Inference

        try:
            self._inference = Inference(game, history, device, threads=threads)
        except (ValueError, RuntimeError) as error:
            may_come_back = device != "cpu" and may_have_gpus()
            code = Exit.TRY_AGAIN if may_come_back else Exit.CONFIG
            raise Fatal(f"{error}; or use --device remote", code) from error
        self._between_batches = threading.Lock()
        self._version = 0

    @property
    def max_rows(self) -> int:
        return self._inference.max_rows

    @property
    def target_rows(self) -> int:
        """Number of rows at which the device is efficient; on a CPU it is measured when the first weights are
        loaded."""
        return self._inference.target_rows

    @property
    def device_name(self) -> str:
        return self._inference.device_name

    def load(self, path: Path, info: WeightsInfo) -> str:
        """Load the weights in a file. Returns "", or why they cannot be used (then the old ones stay)."""
        with self._between_batches:
            try:
                self._inference.load(path, info.sha256)
            except BadWeights as error:
                return str(error)
            # The announced version counts, not the file's: older weights may be announced as new ones.
            self._version = info.version
        return ""

    def infer(self, batch: LeafBatch) -> Evaluations:
        with self._between_batches:
            priors, wdl = self._inference.run(batch.features, batch.counts, batch.actions)
            return Evaluations(priors, wdl, self._version)


class NetInSearch:
    """A network that is part of this process's search, with the weights that the server announces. No leaf
    travels, and no torch is needed."""

    description = "the network in its own search"
    leaves = 0

    def __init__(self, player: SparsePlayer, *, folder: Path, send: Callable[..., bool]) -> None:
        self._player = player
        self._puller = WeightsPuller(in_cache(folder, self._load), send)

    @property
    def evaluator(self) -> Evaluator:
        return self._player

    @property
    def network(self) -> OwnNetwork:
        return self._player

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        return [self._puller.run()]

    async def ready(self) -> None:
        await self._puller.first()

    def games(self, wanted: int) -> int:
        """Return the server's number, if it was told one."""
        return wanted or GAMES_IN_SEARCH

    def joined(self, welcome: Welcome) -> None:
        self._puller.joined(welcome)

    def lost(self) -> None:
        self._puller.lost()

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        self._puller.on_message(message, frames)

    def close(self) -> None:
        pass

    def _load(self, path: Path, info: WeightsInfo) -> str:
        """Return "", or why the weights in a file cannot be used (then the old ones stay). The announced
        version counts, not the file's: older weights may be announced as new ones."""
        try:
            self._player.load(path, info.sha256, info.version)
        except BadWeights as error:
            return str(error)
        return ""
