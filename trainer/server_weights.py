"""Fetches the weights that the server plays with, to begin training with them (`--weights server`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from protocol.errors import Code
from protocol.messages import Chunk, Message, Refused, WeightsInfo, Welcome
from runtime.exits import Exit, Fatal
from runtime.weights_puller import WeightsPuller, in_cache

SERVER = "server"
"""The value of `--weights` that stands for them."""


class ServerWeights:
    """Fetches them once. `send` as in `Connection`; the owner passes on what arrives."""

    def __init__(self, send: Callable[..., bool]) -> None:
        self._send = send
        self._puller: WeightsPuller | None = None
        """Set while they are being fetched."""

    def joined(self, welcome: Welcome) -> None:
        if self._puller is not None:
            self._puller.joined(welcome)

    def lost(self) -> None:
        if self._puller is not None:
            self._puller.lost()

    def on_message(self, message: Message, frames: list[memoryview]) -> bool:
        """Handle a message. Returns whether it was for us. Raises Fatal(TRY_AGAIN) once the server no longer
        has that file."""
        if self._puller is None:
            return False
        if isinstance(message, Refused) and message.code == Code.UNKNOWN_WEIGHTS:
            text = f"the server's weights cannot be fetched: {message.reason}; start again"
            raise Fatal(text, Exit.TRY_AGAIN)
        if isinstance(message, Chunk | Refused):
            self._puller.on_message(message, frames)
            return True
        return False

    async def file(self, welcome: Welcome, folder: Path, stop: asyncio.Event) -> Path | None:
        """Return their file, in `folder`; None when the stop comes first.

        Raises Fatal(TRY_AGAIN) if there are none yet, Fatal(BAD_DATA) if their bytes are repeatedly damaged.
        """
        if welcome.weights is None:
            raise Fatal(
                "--weights server: the server has no weights yet; start again when it has", Exit.TRY_AGAIN
            )
        whole: list[Path] = []

        def keep(path: Path, _: WeightsInfo) -> str:
            whole.append(path)
            return ""

        self._puller = WeightsPuller(in_cache(folder, keep), self._send)
        self._puller.joined(welcome)
        async with asyncio.TaskGroup() as group:
            pulling = group.create_task(self._puller.run())
            ends = [group.create_task(end) for end in (self._puller.first(), stop.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (pulling, *ends):
                task.cancel()
        self._puller = None
        return whole[-1] if whole else None
