"""Downloads weights as `link.weights_pull` decides, from azserver, a trainer or a web server, and uses them.

The users (azserver, workers with a network of their own, and a trainer that begins with the server's weights)
differ only in what `use` does with a complete file. Weights that cannot be used are rejected, and the old
ones stay; a file that cannot be written to the disk is kept in memory and tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.weights_files import Use
from azselfplay.link.weights_pull import (
    TRIES,
    Complete,
    Fetch,
    Instruction,
    NotFetched,
    WeightsPull,
    WrongHash,
)
from azselfplay.link.weights_web import read_file
from protocol.errors import Code
from protocol.messages import Chunk, GetChunk, GetWeights, Message, Pong, Refused, WeightsInfo, Welcome

WRITE_AGAIN = 5.0
"""Seconds between two attempts to write to a full disk."""
SERVERS_FILE = (
    ": azserver's file is damaged, or something on the way changes bytes. Run azserver doctor on that "
    "machine, and restore the file in the run's folder weights/ from a backup"
)
"""What to do when the server's weights stay damaged."""

log = logging.getLogger(__name__)


def _log_end(info: WeightsInfo, fault: str) -> None:
    if fault:
        log.error("weights version %d cannot be used, and the old ones stay: %s", info.version, fault)
    else:
        log.info("weights version %d (step %d) are in use", info.version, info.step)


class WeightsDownloader:
    """Pulls weights and uses them. The owner runs `run` and passes on the messages that arrive. `send`: as in
    `link.connection.Connection`."""

    def __init__(
        self,
        use: Use,
        send: Callable[..., bool],
        pull: WeightsPull | None = None,
        on_end: Callable[[WeightsInfo, str], None] = _log_end,
        advice: str = SERVERS_FILE,
    ) -> None:
        """`on_end(info, fault)` is called with the outcome for weights that were pulled. `advice`: the end of
        the message about bytes that stay damaged."""
        self._decided = asyncio.Event()
        """Set once some weights are in use, or were given up for the reason `_damage`."""
        self._damage = ""
        self._use = use
        self._send = send
        self._pull = pull or WeightsPull()
        self._on_end = on_end
        self._advice = advice
        self._wake = asyncio.Event()
        self._fetch: Fetch | None = None
        """A read from a web server that has not begun yet."""
        self._fetching: asyncio.Task[None] | None = None
        self._complete: Complete | None = None
        """A complete download that is to be used at `_settle_at` or as soon as possible."""
        self._settle_at = 0.0

    async def first(self) -> None:
        """Wait until some weights are in use. Raises Fatal(BAD_DATA) if the available ones cannot be
        downloaded."""
        await self._decided.wait()
        if self._pull.in_use is None:
            raise Fatal(self._damage, Exit.BAD_DATA)

    def joined(self, welcome: Welcome) -> None:
        self._react(self._pull.joined(welcome.weights, self._now(), welcome.weights_url))

    def lost(self) -> None:
        self._pull.lost()

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        """Handle what a player receives on the bulk port, as far as it is about weights."""
        match message:
            case Chunk():
                self.on_chunk(message, frames)
            case WeightsInfo():
                self._react(self._pull.offered(message, self._now()))
            case Refused(code=Code.UNKNOWN_WEIGHTS | Code.BUSY | Code.INTERNAL):
                self.on_refused(message)
            case Pong(version) if self._pull.is_new(version):
                self._send(GetWeights())
            case _:
                pass

    def wanted(self, info: WeightsInfo) -> None:
        """Pull these weights from the side that announced them, even if they were refused before."""
        self._react(self._pull.wanted(info, self._now()))

    def on_chunk(self, message: Chunk, frames: Sequence[memoryview]) -> bool:
        """Handle a chunk. Returns False for one that was not requested."""
        return len(frames) == 1 and self._take(message.sha256, message.offset, frames[0])

    def _take(self, sha256: bytes, offset: int, data: bytes | memoryview) -> bool:
        if not self._pull.expects(sha256, offset, len(data)):
            return False
        self._react(self._pull.chunk(sha256, offset, data, self._now()))
        return True

    def on_refused(self, message: Refused) -> None:
        """Request the chunk again at the time that a busy server names; otherwise start the file again."""
        log.warning("the server refuses a piece of the weights: %s", message.reason)
        now = self._now()
        if message.retry_after > 0:
            self._pull.chunk_postponed(message.request, now + message.retry_after)
        else:
            self._pull.chunk_refused(message.request, now)
        self._wake.set()

    async def run(self) -> None:
        """Download and load until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                waits = (self._pull.next_wake(), self._settle_at if self._complete is not None else None)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min((at for at in waits if at is not None), default=None)):
                        await self._wake.wait()
                # Clear the event before looking at the time: later events set it again.
                self._wake.clear()
                self._carry_out(self._pull.tick(self._now()))
                if self._fetch is not None:
                    begun = self._read(self._fetch)
                    # At most one task reads: what an earlier one reads is no longer wanted.
                    self._end_fetching()
                    self._fetching = group.create_task(begun)
                if self._complete is None or self._now() < self._settle_at:
                    continue
                info = self._complete.info
                try:
                    fault = await self._use(info, self._complete.data)
                except OSError as error:
                    # A full disk: the bytes stay in memory, and are tried again.
                    self._settle_at = self._now() + WRITE_AGAIN
                    text = "weights version %d cannot be written (%s), trying again"
                    log.warning(text, info.version, error)
                    continue
                self._complete, self._settle_at = None, 0.0
                self._on_end(info, fault)
                # Newer weights may have been announced meanwhile; the next turn begins with them.
                self._react(self._pull.settled(not fault, self._now()))
                if not fault:
                    self._decided.set()

    async def _read(self, fetch: Fetch) -> None:
        """Read a file from a web server, or report why that failed."""
        info = fetch.info
        try:
            await read_file(
                fetch.url,
                info,
                partial(self._take, info.sha256),
                lambda: self._pull.arriving(info, self._now()),
            )
        except (ValueError, OSError) as error:
            self._react(self._pull.not_fetched(info, str(error), self._now()))

    def _end_fetching(self) -> None:
        self._fetch = None
        if self._fetching is not None:
            self._fetching.cancel()

    def _react(self, instructions: list[Instruction]) -> None:
        """Carry out the instructions of an outside event, and make `run` check the time again."""
        self._carry_out(instructions)
        self._wake.set()

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case GetChunk():
                    self._send(instruction)
                case Fetch():
                    self._fetch = instruction
                case NotFetched(info, reason):
                    self._end_fetching()
                    text = "weights version %d do not come from %s (%s): fetching them from the server"
                    log.warning(text, info.version, self._pull.url, reason)
                case Complete():
                    self._complete = instruction
                case WrongHash(info, tries, 0.0):
                    fault = f"they came {tries} times with another SHA-256 than announced{self._advice}"
                    self._damage = f"weights version {info.version} cannot be used: {fault}"
                    self._decided.set()
                    self._on_end(info, fault)
                case WrongHash(info, tries, pause):
                    log.warning(
                        "weights version %d came with another SHA-256 than announced (%d of %d tries); "
                        "fetching weights again in %.0f s",
                        *(info.version, tries, TRIES, pause),
                    )

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
