"""Downloads weights and has them taken into use: the I/O around `WeightsPull`.

azserver pulls from the trainer with it, workers with a network of their own pull from azserver, and so does a
trainer that begins with the server's weights. They differ only in what `use` does with a whole file. Weights
that cannot be used are rejected, and the old ones stay; while the disk does not take a file, it is kept in
memory and tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.logs import Repeated
from azselfplay.host.runs import write_atomically
from azselfplay.link.weights_pull import TRIES, Ask, Complete, Damaged, Instruction, WeightsPull
from protocol.errors import Code
from protocol.messages import (
    Chunk,
    GetChunk,
    GetWeights,
    Message,
    Pong,
    Refused,
    WeightsInfo,
    Welcome,
)

WRITE_AGAIN = 5.0
"""Seconds between two attempts to write to a full disk."""
KEPT_FILES = 2
"""Weights files left in the cache folder: the one in use, and the previous one for inspection."""
SERVERS_FILE = (
    ": azserver's file is damaged, or something on the way changes bytes. Run azserver doctor on that "
    "machine, and restore the file in the run's folder weights/ from a backup"
)
"""What to do when the server's weights stay damaged."""

log = logging.getLogger(__name__)

Use = Callable[[WeightsInfo, bytes | bytearray], Awaitable[str]]
"""Returns "" if these weights, whose hash is right, are now in use, else why they are not. Raises OSError
while the disk does not take them."""
Load = Callable[[Path, WeightsInfo], str]
"""Blocks; returns "" if the weights in this file are now in use, else why they are not."""


def in_cache(folder: Path, load: Load) -> Use:
    """Return a `Use` that loads weights from a file in `folder`, which keeps the newest few."""

    def store_and_load(info: WeightsInfo, data: bytes | bytearray) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{info.sha256.hex()}.safetensors"
        write_atomically(path, data)
        fault = load(path, info)
        if fault:
            path.rename(path.with_suffix(".refused"))
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for old in files[KEPT_FILES:]:
            old.unlink()
        return fault

    async def use(info: WeightsInfo, data: bytes | bytearray) -> str:
        return await asyncio.to_thread(store_and_load, info, data)

    return use


def _log_end(info: WeightsInfo, fault: str) -> None:
    if fault:
        log.error("weights version %d cannot be used, and the old ones stay: %s", info.version, fault)
    else:
        log.info("weights version %d (step %d) are in use", info.version, info.step)


class WeightsPuller:
    """The owner runs `run` and passes on what arrives. `send` as in `link.connection.Connection`."""

    def __init__(
        self,
        use: Use,
        send: Callable[..., bool],
        pull: WeightsPull | None = None,
        on_end: Callable[[WeightsInfo, str], None] = _log_end,
        advice: str = SERVERS_FILE,
    ) -> None:
        """`on_end(info, fault)` hears what became of weights that were pulled. `advice`: the end of the
        sentence about bytes that stay damaged."""
        self.ready = asyncio.Event()
        """Set once some weights are in use."""
        self._decided = asyncio.Event()
        """Set once some weights are in use, or were given up for the reason `_damage`."""
        self._damage = ""
        self._use = use
        self._send = send
        self._pull = pull or WeightsPull()
        self._on_end = on_end
        self._advice = advice
        self._wake = asyncio.Event()
        self._complete: Complete | None = None
        """A complete download that is to be used at `_settle_at` or as soon as possible."""
        self._settle_at = 0.0
        self._repeated = Repeated(log)

    @property
    def version(self) -> int:
        """Version of the weights in use, 0 before there are any."""
        return 0 if self._pull.in_use is None else self._pull.in_use.version

    async def first(self) -> None:
        """Wait until some weights are in use. Raises Fatal(BAD_DATA) if the available ones cannot be
        downloaded."""
        await self._decided.wait()
        if not self.ready.is_set():
            raise Fatal(self._damage, Exit.BAD_DATA)

    def joined(self, welcome: Welcome) -> None:
        self._obey(self._pull.joined(welcome.weights, self._now()))

    def lost(self) -> None:
        self._pull.lost()

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        """Handle what a player receives on the bulk port, as far as it is about weights."""
        match message:
            case Chunk():
                self.on_chunk(message, frames)
            case WeightsInfo():
                self._obey(self._pull.offered(message, self._now()))
            case Refused(code=Code.UNKNOWN_WEIGHTS | Code.BUSY | Code.INTERNAL):
                self.on_refused(message)
            case Pong(version) if self._pull.is_new(version):
                self._send(GetWeights())
            case _:
                pass

    def wanted(self, info: WeightsInfo) -> None:
        """Pull these weights from whoever announced them, whatever became of them before."""
        self._obey(self._pull.wanted(info, self._now()))

    def on_chunk(self, message: Chunk, frames: Sequence[memoryview]) -> bool:
        """Handle a chunk. Returns False for one that was not requested."""
        if len(frames) != 1 or not self._pull.expects(message.sha256, message.offset, len(frames[0])):
            return False
        self._obey(self._pull.chunk(message.sha256, message.offset, frames[0], self._now()))
        return True

    def on_refused(self, message: Refused) -> None:
        """Request this chunk again when the server says so (it is busy), else start again."""
        log.warning("the server refuses a piece of the weights: %s", message.reason)
        now = self._now()
        if message.retry_after > 0:
            self._pull.chunk_postponed(message.request, now + message.retry_after)
        else:
            self._pull.chunk_refused(now)
        self._wake.set()

    async def run(self) -> None:
        """Download and load until cancelled."""
        while True:
            waits = (self._pull.next_wake(), self._settle_at if self._complete is not None else None)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min((at for at in waits if at is not None), default=None)):
                    await self._wake.wait()
            self._wake.clear()
            self._carry_out(self._pull.tick(self._now()))
            if self._complete is not None and self._now() >= self._settle_at:
                await self._settle(self._complete)

    async def _settle(self, complete: Complete) -> None:
        """Use a complete download; later, if it cannot be written now."""
        info = complete.info
        try:
            fault = await self._use(info, complete.data)
        except OSError as error:
            self._settle_at = self._now() + WRITE_AGAIN
            text = f"weights version {info.version} cannot be written ({error}), trying again"
            self._repeated.warning("write", text, self._now())
            return
        self._complete, self._settle_at = None, 0.0
        self._on_end(info, fault)
        if not fault:
            self.ready.set()
            self._decided.set()
        self._carry_out(self._pull.settled(not fault, self._now()))

    def _obey(self, instructions: list[Instruction]) -> None:
        """Carry out the instructions of an outside event, and make `run` check the time again."""
        self._carry_out(instructions)
        self._wake.set()

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Ask):
                self._send(GetChunk(instruction.sha256, instruction.offset))
            elif isinstance(instruction, Damaged):
                self._tell_damaged(instruction)
            else:
                self._complete = instruction

    def _tell_damaged(self, damaged: Damaged) -> None:
        version = damaged.info.version
        if damaged.pause:
            log.warning(
                "weights version %d came with another SHA-256 than announced (%d of %d tries); fetching them "
                "again in %.0f s",
                *(version, damaged.tries, TRIES, damaged.pause),
            )
            return
        fault = f"they came {damaged.tries} times with another SHA-256 than announced{self._advice}"
        self._damage = f"weights version {version} cannot be used: {fault}"
        self._decided.set()
        self._on_end(damaged.info, fault)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
