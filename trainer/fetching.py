"""Around `ServerWeights`: asks, waits for the answer, asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from protocol.messages import AnyMessage, Chunk, Refused, WeightsInfo
from trainer.server_weights import ServerWeights

ASK_AGAIN = 5.0
"""Seconds after which a chunk is asked for again."""


class Fetching:
    """Fetches one file. `send` as in `Connection`; the owner passes on what arrives."""

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
