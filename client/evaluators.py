"""Who evaluates a worker's leaves: the server, or a network of its own. One interface for `client.worker`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from client.local_net import LocalNet
from client.remote_evaluator import RemoteEvaluator
from games.legal_masks import LegalMasks
from games.spec import Game
from protocol.messages import (
    AnyMessage,
    BadMessage,
    Evaluated,
    Grant,
    Hello,
    Refused,
    Welcome,
)
from runtime.connection import Connection, ConnectionSettings
from runtime.logs import Repeated
from runtime.sockets import Context
from runtime.weights_puller import WeightsPuller
from search.evaluator import Evaluator, LocalEvaluator

FEWEST_GAMES = 64
"""Games in flight with an own network, at least."""

log = logging.getLogger(__name__)


class Source(Protocol):
    """A source of evaluations. `joined`, `lost` and `on_message` are about the bulk connection."""

    @property
    def evaluator(self) -> Evaluator: ...

    @property
    def leaves(self) -> int:
        """Leaves answered since the start."""
        ...

    @property
    def description(self) -> str: ...

    def parts(self) -> list[Coroutine[Any, Any, None]]:
        """What is to run in the worker's task group."""
        ...

    async def ready(self) -> None:
        """Returns once leaves may be asked for."""
        ...

    def games(self, wanted: int) -> int:
        """Games to have in flight; `wanted` is the server's idea when the worker joined."""
        ...

    def joined(self, welcome: Welcome) -> None: ...

    def lost(self) -> None: ...

    def on_message(self, message: AnyMessage, frames: Sequence[memoryview]) -> None: ...

    def close(self) -> None: ...


class ServersNet:
    """The server's evaluators, over the leaves port."""

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
        """`on_games(games)` is called whenever the server wants another number of games. `mask_bytes`:
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
        """Returns with the first session, which says how many games the server wants."""
        await self._joined.wait()

    def games(self, wanted: int) -> int:
        return max(1, self._wanted or wanted)

    def joined(self, welcome: Welcome) -> None:
        pass

    def lost(self) -> None:
        pass

    def on_message(self, message: AnyMessage, frames: Sequence[memoryview]) -> None:
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

    def _on_leaves_message(self, message: AnyMessage, frames: Sequence[memoryview]) -> None:
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
    """A network in this process, with the weights that the server tells us of."""

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
        self._puller = WeightsPuller(folder, self._net.load, send)
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
        """One batch computes while the next collects; `wanted` is about the server's own devices."""
        return max(FEWEST_GAMES, 2 * self._net.target_rows)

    def joined(self, welcome: Welcome) -> None:
        self._puller.joined(welcome)

    def lost(self) -> None:
        self._puller.lost()

    def on_message(self, message: AnyMessage, frames: Sequence[memoryview]) -> None:
        self._puller.on_message(message, frames)

    def close(self) -> None:
        self._evaluator.close()
