"""`python tests/faults/crowd_members.py PORT COUNT FIRST`: clients that join the leaves port and send one
request.

There are COUNT of them, numbered from FIRST. Prints a line for each first answer of a session: which client,
which of its sessions, and when (monotonic clock). They continue, with heartbeats, until the process is
killed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / part) for part in ("server", "."))]

import numpy as np  # noqa: E402
from front_bench import GAME  # noqa: E402

from azselfplay.link.connection import Connection  # noqa: E402
from azselfplay.link.sockets import new_context  # noqa: E402
from protocol.messages import PROTOCOL_VERSION, Evaluate, Evaluated, Hello, Message, Refused, Welcome  # noqa: E402

A_MACHINE = 50
"""Number of clients per address, because the server limits the rate of each address."""


def source(number: int) -> str:
    """The source address of a member, in ZeroMQ's notation. Only Linux has many local addresses ready."""
    return f"127.0.2.{1 + number // A_MACHINE}:0;" if sys.platform == "linux" else ""


class Member:
    """One client."""

    def __init__(self, context: object, port: int, number: int, first: int) -> None:
        self._number, self._session, self._served = number, 0, False
        hello = Hello(PROTOCOL_VERSION, "client", f"crowd {number}")
        self.connection = Connection(
            context,  # type: ignore[arg-type]
            f"tcp://{source(first + number)}127.0.0.1:{port}",
            hello,
            on_message=self._on_message,
            on_joined=self._on_joined,
        )

    def _on_joined(self, welcome: Welcome) -> None:
        self._session += 1
        self._served = False
        self._words = GAME.feature_words(welcome.self_play["history"])
        self._ask()

    def _ask(self) -> None:
        legal = np.arange(3, dtype=np.uint16)
        features = np.zeros((1, self._words), np.uint64)
        self.connection.send(Evaluate(self._session, 1), features, np.array([3], np.uint16), legal)

    def _on_message(self, message: Message, _frames: Sequence[memoryview]) -> None:
        if isinstance(message, Evaluated) and not self._served:
            self._served = True
            print(self._number, self._session, time.monotonic(), flush=True)
        elif isinstance(message, Refused):
            asyncio.get_running_loop().call_later(max(message.retry_after, 0.2), self._ask)


async def main() -> None:
    port, count, first = map(int, sys.argv[1:4])
    context = new_context()
    members = [Member(context, port, number, first) for number in range(count)]
    async with asyncio.TaskGroup() as group:
        for member in members:
            group.create_task(member.connection.run())


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
