"""The weights that the server plays with, to begin with them (`--weights server`)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress

from protocol.errors import Code
from protocol.messages import AnyMessage, Chunk, GetChunk, Refused, WeightsInfo
from runtime.exits import Exit, Fatal

SERVER = "server"
"""The word for `--weights` that means these."""
ASK_AGAIN = 5.0
"""Seconds after which a chunk is asked for again."""


class ServerWeights:
    """One file, chunk after chunk: ask, take, ask for the next. No socket, no clock."""

    def __init__(self, info: WeightsInfo) -> None:
        self._info = info
        self._data = bytearray()
        self._refusal = ""

    @property
    def is_whole(self) -> bool:
        return len(self._data) == self._info.size

    def ask(self) -> GetChunk:
        """What to send, again when no answer comes. Raises Fatal(TRY_AGAIN) once the server has refused."""
        if self._refusal:
            raise Fatal(
                f"the server's weights cannot be fetched: {self._refusal}; start again", Exit.TRY_AGAIN
            )
        return GetChunk(self._info.sha256, len(self._data))

    def on_chunk(self, message: Chunk, data: bytes | memoryview) -> bool:
        """Whether this was the chunk that is asked for."""
        asked = message.sha256 == self._info.sha256 and message.offset == len(self._data)
        if not asked or not 0 < len(data) <= self._info.size - len(self._data):
            return False
        self._data += data
        return True

    def on_refused(self, message: Refused) -> bool:
        """Whether this ends the fetching: the server no longer keeps the file."""
        if message.code == Code.UNKNOWN_WEIGHTS:
            self._refusal = message.reason
        return bool(self._refusal)

    def content(self) -> bytes:
        """The whole file. Raises Fatal(BAD_DATA) when it is not what was announced."""
        data = bytes(self._data)
        if hashlib.sha256(data).digest() != self._info.sha256:
            raise Fatal(
                f"the server's weights (version {self._info.version}) came with another sha256 than it says: "
                "look at the disk of the server's run folder",
                Exit.BAD_DATA,
            )
        return data


class Fetching:
    """Around `ServerWeights`: asks, waits for the answer, asks again. `send` as in `Connection`;
    the owner passes on what arrives."""

    def __init__(self, send: Callable[..., bool]) -> None:
        self._send = send
        self._fetched: ServerWeights | None = None
        self._came = asyncio.Event()

    def on_message(self, message: AnyMessage, frames: list[memoryview]) -> bool:
        """Whether it was meant for us."""
        fetched = self._fetched
        match message:
            case Chunk() if fetched is not None and len(frames) == 1:
                mine = fetched.on_chunk(message, frames[0])
            case Refused() if fetched is not None:
                mine = fetched.on_refused(message)
            case _:
                return False
        if mine:
            self._came.set()
        return mine

    async def file(self, info: WeightsInfo, stop: asyncio.Event) -> bytes | None:
        """The bytes of these weights; None when the stop comes first. Raises Fatal as `ServerWeights`."""
        fetched = self._fetched = ServerWeights(info)
        while not fetched.is_whole:
            self._send(fetched.ask())
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN):
                    await self._came.wait()
            self._came.clear()
            if stop.is_set():
                return None
        self._fetched = None
        return fetched.content()
