"""Learns which weights are current, downloads them and has them loaded.

For workers with a local network, and for a trainer that begins with the server's weights. This is the I/O
around `WeightsPull`. Weights that cannot be used are rejected, and the old ones stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from protocol.errors import Code
from protocol.messages import (
    AnyMessage,
    Chunk,
    GetChunk,
    GetWeights,
    Pong,
    Refused,
    WeightsInfo,
    Welcome,
)
from runtime.exits import Exit, Fatal
from runtime.logs import Repeated
from runtime.runs import write_atomically
from runtime.weights_pull import TRIES, Ask, Complete, Damaged, Instruction, WeightsPull

WRITE_AGAIN = 5.0
"""Seconds between two attempts to write to a full disk."""
KEPT_FILES = 2
"""Weights files left in the cache folder: the one in use, and the previous one for inspection."""

log = logging.getLogger(__name__)

Load = Callable[[Path, WeightsInfo], str]
"""Blocks; returns "" if the weights in this file are now in use, else why they are not."""


class WeightsPuller:
    """The owner runs `run` and passes on what arrives. `send` as in `runtime.connection.Connection`."""

    def __init__(
        self, folder: Path, load: Load, send: Callable[..., bool], pull: WeightsPull | None = None
    ) -> None:
        self.ready = asyncio.Event()
        """Set once some weights are in use."""
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set to the reason when some weights were given up."""
        self._folder = folder
        self._load = load
        self._send = send
        self._pull = pull or WeightsPull()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._complete: Complete | None = None
        """A complete download that is to be written to disk at `_settle_at` or as soon as possible."""
        self._settle_at = 0.0
        self._repeated = Repeated(log)

    @property
    def version(self) -> int:
        """Version of the weights in use, 0 before there are any."""
        return 0 if self._pull.in_use is None else self._pull.in_use.version

    async def first(self) -> None:
        """Wait until some weights are in use. Raises Fatal(BAD_DATA) if the available ones cannot be
        downloaded."""
        async with asyncio.TaskGroup() as group:
            ready = group.create_task(self.ready.wait())
            either: set[asyncio.Future[Any]] = {ready, self._end}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
        if not self.ready.is_set():
            raise Fatal(self._end.result(), Exit.BAD_DATA)

    def joined(self, welcome: Welcome) -> None:
        self._obey(self._pull.joined(welcome.weights, self._loop.time()))

    def lost(self) -> None:
        self._pull.lost()

    def on_message(self, message: AnyMessage, frames: Sequence[memoryview]) -> None:
        """Handle what a player receives on the bulk port, as far as it is about weights."""
        match message:
            case Chunk():
                self.on_chunk(message, frames)
            case WeightsInfo():
                self.on_info(message)
            case Refused(code=Code.UNKNOWN_WEIGHTS | Code.BUSY | Code.INTERNAL):
                self.on_refused(message)
            case Pong(version) if self._pull.is_new(version):
                self._send(GetWeights())
            case _:
                pass

    def on_info(self, info: WeightsInfo | None) -> None:
        self._obey(self._pull.offered(info, self._loop.time()))

    def on_chunk(self, message: Chunk, frames: Sequence[memoryview]) -> None:
        if len(frames) == 1:
            self._obey(self._pull.chunk(message.sha256, message.offset, frames[0], self._loop.time()))

    def on_refused(self, message: Refused) -> None:
        """Request this chunk again when the server says so (it is busy), else start again."""
        log.warning("the server refuses a piece of the weights: %s", message.reason)
        now = self._loop.time()
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
            self._carry_out(self._pull.tick(self._loop.time()))
            if self._complete is not None and self._loop.time() >= self._settle_at:
                await self._settle(self._complete)

    async def _settle(self, complete: Complete) -> None:
        """Store and load a complete download; later, if it cannot be written now."""
        info = complete.info
        try:
            fault = await asyncio.to_thread(self._store_and_load, complete)
        except OSError as error:
            self._settle_at = self._loop.time() + WRITE_AGAIN
            text = f"weights version {info.version} cannot be written ({error}), trying again"
            self._repeated.warning("write", text, self._loop.time())
            return
        self._complete, self._settle_at = None, 0.0
        if fault:
            log.error("weights version %d cannot be used, and the old ones stay: %s", info.version, fault)
        else:
            log.info("weights version %d (step %d) are in use", info.version, info.step)
            self.ready.set()
        self._carry_out(self._pull.settled(not fault, self._loop.time()))

    def _store_and_load(self, complete: Complete) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{complete.info.sha256.hex()}.safetensors"
        write_atomically(path, complete.data)
        fault = self._load(path, complete.info)
        if fault:
            path.rename(path.with_suffix(".refused"))
        files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for old in files[KEPT_FILES:]:
            old.unlink()
        return fault

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
        text = (
            f"weights version {version} came {damaged.tries} times with another SHA-256 than azserver "
            "announced: its file is damaged, or something on the way changes bytes. Run azserver doctor on "
            "that machine, and restore the file in the run's folder weights/ from a backup"
        )
        log.error("%s", text)
        if not self._end.done():
            self._end.set_result(text)
