"""Weights between trainer and server: publishing new ones, and beginning with the ones that play.

    WEIGHTS_INFO -> GET_CHUNK -> CHUNK ... -> WEIGHTS_INFO of the same bytes: the server has stored them

The server pulls them as players pull from it (`link.weights_pull`). `WeightsOut` repeats its announcement,
after a silence and in a new session, until the server has these weights or refuses them. If the server has
other weights of this version or of a later one, ours get a new number. Newer weights wait until the current
transfer is over, and only the newest ones wait. `ServerWeights` fetches the weights that play, once, for
`--weights server`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple

from azselfplay.host.aio import Stop, unless_stopped
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.connection import Connection
from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import in_cache
from azselfplay.link.weights_pull import answer
from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, Message, Refused, WeightsInfo, Welcome

if TYPE_CHECKING:  # training imports torch; tests run this file without it
    from trainer.config import TrainerConfig
    from trainer.figures import Figures
    from trainer.run_setup import Run
    from trainer.training_loop import Turn

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LAST_WEIGHTS = 20.0
"""Seconds that the server has to accept the last weights of a trainer that stops."""
SAVE_AGAIN = 30.0
"""Seconds after which a checkpoint that could not be written is tried again."""
PATIENCE = 10.0
"""Seconds without a word about announced weights after which they are announced again."""


@dataclass(frozen=True)
class Weights:
    """Weights to publish; `data` is the whole file."""

    info: WeightsInfo
    data: bytes


class Background(Protocol):
    """The part of training that publishing uses."""

    async def in_training_thread(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return the result of a call in the training thread."""
        ...

    async def save(self, run: Run) -> bool:
        """Write a checkpoint. Returns False when the disk does not take it."""
        ...

    def wake(self) -> None:
        """Make training check what is due."""
        ...


class WeightsOut:
    """One trainer's weights, as far as the server has them."""

    def __init__(
        self, config: TrainerConfig, connection: Connection, figures: Figures, background: Background
    ) -> None:
        self.server_version = 0
        """Newest version that the server has, in use or waiting to be loaded."""
        self._config = config
        self._connection = connection
        self._figures = figures
        self._background = background
        self._current: Weights | None = None
        """Weights that are announced, or will be in the next session."""
        self._next: Weights | None = None
        """The newest weights that wait."""
        self._announce_at = 0.0
        """When to announce the current ones again."""
        self._renumber = False
        self._step = 0
        """Training step of the weights offered last, or of the start."""
        self._at = 0.0
        """Time of the last offer, or of the start."""
        self._not_before = 0.0
        """When to try again, after there was no room for the first checkpoint."""
        self._is_compared = True
        """Whether the weights that the server had at the start of the session were compared with those of
        stored games."""
        self._moved = asyncio.Event()
        """Set when weights were stored or refused, or the connection was lost."""

    def begin(self, step: int, now: float) -> None:
        """Note that training begins at this step."""
        self._step, self._at = step, now
        self._figures.weights_version = self.server_version

    # ---- the connection ----

    def joined(self, welcome: Welcome, now: float) -> None:
        """Handle the beginning of a session. WELCOME says which weights play; after a restart of the server
        these may be older than the weights stored last."""
        if welcome.weights is not None:
            self.server_version = welcome.weights.version
        self._is_compared = False
        self._announce(now)

    def lost(self) -> None:
        """Handle the end of the session."""
        self._moved.set()

    def on_message(self, message: Message, now: float) -> bool:
        """Handle the server's messages about weights. Returns False for any other message."""
        current = self._current
        ours = None if current is None else current.info
        match message:
            case GetChunk():
                data = None
                if current is not None and message.sha256 == current.info.sha256:
                    data = memoryview(current.data)[message.offset : message.offset + CHUNK]
                    # The server requests chunks, so it has received the announcement.
                    self._announce_at = now + PATIENCE
                self._connection.send(*answer(message, data))
            case WeightsInfo():
                # The server has these weights: ours, or others that may have taken our number.
                self.server_version = max(self.server_version, message.version)
                if ours is not None and message == ours:
                    self._figures.weights_version = ours.version
                    log.info("published weights version %d (step %d)", ours.version, ours.step)
                    self._go_on(now)
                elif ours is not None and message.version >= ours.version:
                    log.info(
                        "the server already has weights version %d: counting on from it", message.version
                    )
                    self._current = self._next = None
                    self._renumber = True
                    self._background.wake()
                    self._moved.set()
            case Refused():
                # A refusal of earlier weights may arrive after newer ones were announced.
                if ours is not None and message.request in (0, ours.version):
                    reason = f"{message.code}: {message.reason}"
                    if message.retry_after > 0:
                        self._announce_at = now + message.retry_after
                    elif message.code == Code.WEIGHTS_REFUSED:
                        log.error("the server refused weights version %d: %s", ours.version, reason)
                        self._go_on(now)
                    else:  # of another message, or of bytes damaged on their way: announced again
                        log.warning("the server refused a message: %s", reason)
            case _:
                return False
        return True

    def tick(self, now: float) -> None:
        """Handle timeouts. To be called every second or so."""
        if now >= self._announce_at:
            self._announce(now)

    # ---- publishing ----

    async def publish_if_due(self, run: Run, turn: Turn) -> None:
        """Publish if it is due. To be called after each turn of training."""
        now, due = time.monotonic(), self._config.publishing
        if not self._is_compared and self._current is None:
            # A server that lost its weights plays older ones than those of stored games. Its games may be too
            # old to train on, so that no step would ever follow.
            self._is_compared = True
            self._renumber |= self.server_version < run.committer.newest_version
        steps, seconds = turn.step - self._step, now - self._at
        # Without a new step the weights are unchanged; publish them only under a new number.
        is_due = self._renumber or (steps > 0 and (steps >= due.steps or seconds >= due.seconds))
        if not is_due or now < self._not_before:
            return
        if await self._publish(run):
            self._at = now
        else:
            self._not_before = now + SAVE_AGAIN

    async def publish_last(self, run: Run) -> None:
        """Publish the network at a clean stop, if there were steps since the last publication, or its number
        was taken."""
        is_due = run.training.step > self._step or self._renumber
        try:
            async with asyncio.timeout(LAST_WEIGHTS):
                while self._connection.welcome is not None and (is_due or self._current is not None):
                    self._moved.clear()
                    if is_due and not await self._publish(run):
                        return
                    await self._moved.wait()
                    # If other weights have this version, publish again with a new one.
                    is_due = self._renumber
        except TimeoutError:
            log.warning("the server did not take the last weights; they are in the checkpoint")

    async def _publish(self, run: Run) -> bool:
        """Publish weights, but not before the first checkpoint: otherwise a trainer that was killed would
        find the server ahead of its run folder, and refuse to start. Returns False if the disk does not take
        that checkpoint."""
        in_thread, training = self._background.in_training_thread, run.training
        if not training.has_checkpoint and not await self._background.save(run):
            return False
        version, step, data = await in_thread(
            training.export_weights, max(self.server_version, run.committer.newest_version)
        )
        self._step, self._renumber = step, False
        await in_thread(self._figures.on_weights, training)
        digest = hashlib.sha256(data).digest()
        info = WeightsInfo(version, step, digest, len(data), run.game.name, training.architecture)
        weights = Weights(info, data)
        if self._current is not None:
            self._next = weights
        else:
            self._current = weights
            self._announce(time.monotonic())
        return True

    # ---- the transfer ----

    def _announce(self, now: float) -> None:
        if self._current is not None and self._connection.welcome is not None:
            self._connection.send(self._current.info)
            self._announce_at = now + PATIENCE

    def _go_on(self, now: float) -> None:
        """Replace the current weights by those that wait, if any, and announce them."""
        self._current, self._next = self._next, None
        self._announce(now)
        self._moved.set()


class ServerWeights:
    """Fetches the weights that play, once. `send`: as in `Connection`. The owner passes on incoming
    messages."""

    def __init__(self, send: Callable[..., bool]) -> None:
        self._send = send
        self._downloader: WeightsDownloader | None = None
        """Set while the weights are being fetched."""

    def joined(self, welcome: Welcome) -> None:
        if self._downloader is not None:
            self._downloader.joined(welcome)

    def lost(self) -> None:
        if self._downloader is not None:
            self._downloader.lost()

    def on_message(self, message: Message, frames: list[memoryview]) -> bool:
        """Handle a message. Returns whether it was for us. Raises Fatal(TRY_AGAIN) once the server no longer
        has that file."""
        if self._downloader is None:
            return False
        if isinstance(message, Refused) and message.code == Code.UNKNOWN_WEIGHTS:
            text = f"the server's weights cannot be fetched: {message.reason}; start again"
            raise Fatal(text, Exit.TRY_AGAIN)
        if isinstance(message, Chunk | Refused):
            self._downloader.on_message(message, frames)
            return True
        return False

    async def file(self, welcome: Welcome, folder: Path, stop: Stop) -> Path | None:
        """Return the file of the weights, in `folder`; None when the stop comes first.

        Raises Fatal(TRY_AGAIN) if the server has none yet, Fatal(BAD_DATA) if their bytes are repeatedly
        damaged.
        """
        if welcome.weights is None:
            raise Fatal(
                "--weights server: the server has no weights yet; start again when it has", Exit.TRY_AGAIN
            )
        whole: list[Path] = []

        def keep(path: Path, _: WeightsInfo) -> str:
            # Nothing is loaded here: training begins with the file.
            whole.append(path)
            return ""

        self._downloader = WeightsDownloader(in_cache(folder, keep), self._send)
        self._downloader.joined(welcome)
        async with asyncio.TaskGroup() as group:
            pulling = group.create_task(self._downloader.run())
            await unless_stopped(self._downloader.first(), stop)
            pulling.cancel()
        self._downloader = None
        return whole[-1] if whole else None
