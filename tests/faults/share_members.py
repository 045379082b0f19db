"""`python tests/faults/share_members.py PORT SERVER-KEY KEY-FILE...`: an honest client for each key.

They request evaluations as fast as they are answered.

Reads commands, one per line. `active N ROWS`: the first N of them send requests and have ROWS leaves in
flight each; the others are silent. `counts`: prints a line of JSON, the time (monotonic clock) and the number
of leaves answered so far for each. Ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / part) for part in ("faults", "server", "."))]

import numpy as np  # noqa: E402
from front_bench import GAME  # noqa: E402

from azselfplay.link.connection import Connection, ConnectionSettings  # noqa: E402
from azselfplay.link.keys import dial_keys  # noqa: E402
from azselfplay.link.sockets import new_context  # noqa: E402
from protocol.keys import DialKeys  # noqa: E402
from protocol.messages import PROTOCOL_VERSION, Evaluate, Evaluated, Hello, Message, Refused, Welcome  # noqa: E402

ROWS = 16
"""Leaves per request."""
RETRY = 0.2
"""Least number of seconds until a refused request is sent again."""


class Member:
    """One client."""

    def __init__(self, context: object, port: int, number: int, keys: DialKeys) -> None:
        self.answered = 0
        self._in_flight = 0
        """Number of leaves that it wants to keep unanswered."""
        self._left: dict[int, int] = {}
        """Unanswered leaves of each request."""
        self._request = 0
        hello = Hello(PROTOCOL_VERSION, "client", f"honest {number}")
        self.connection = Connection(
            context,  # type: ignore[arg-type]
            f"tcp://127.0.2.{1 + number}:0;127.0.0.1:{port}",
            hello,
            on_message=self._on_message,
            on_joined=self._on_joined,
            settings=ConnectionSettings(keys=keys),
        )

    def want(self, rows: int) -> None:
        self._in_flight = rows
        self._ask()

    def _on_joined(self, welcome: Welcome) -> None:
        words = GAME.feature_words(welcome.self_play["history"])
        self._frames = (
            np.zeros((ROWS, words), np.uint64),
            np.full(ROWS, 3, np.uint16),
            np.tile(np.arange(3, dtype=np.uint16), ROWS),
        )
        self._left.clear()
        self._ask()

    def _ask(self) -> None:
        while self.connection.welcome is not None and ROWS * (len(self._left) + 1) <= self._in_flight:
            self._request += 1
            if not self.connection.send(Evaluate(self._request, ROWS), *self._frames):
                return
            self._left[self._request] = ROWS

    def _on_message(self, message: Message, _frames: Sequence[memoryview]) -> None:
        if isinstance(message, Evaluated) and message.request in self._left:
            self.answered += message.rows
            self._left[message.request] -= message.rows
            if not self._left[message.request]:
                del self._left[message.request]
            self._ask()
        elif isinstance(message, Refused):
            self._left.pop(message.request, None)
            asyncio.get_running_loop().call_later(max(message.retry_after, RETRY), self._ask)


async def obey(members: list[Member]) -> None:
    """Carry out commands until the input ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        word, *rest = line.split()
        if word == b"active":
            active, rows = map(int, rest)
            for number, member in enumerate(members):
                member.want(rows if number < active else 0)
        else:
            print(json.dumps([time.monotonic(), [member.answered for member in members]]), flush=True)


async def main() -> None:
    port, server, files = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    context = new_context()
    members = []
    for number, file in enumerate(files):
        keys = dial_keys(server, Path(file), "client")
        assert keys is not None
        members.append(Member(context, port, number, keys))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(member.connection.run()) for member in members]
        await obey(members)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
