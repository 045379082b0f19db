"""Runs a worker beside a small test server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from client_server import FakeServer

from azselfplay.host.aio import Stop
from azselfplay.link.sockets import new_context
from client.worker import Worker, parse
from protocol.messages import GameAck, PutGame

TIC_TAC_TOE_WORDS = 3


class Site:
    """A server's two ports and one worker."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.stop = Stop()
        self.context = new_context()
        self.serve()
        ports = "--bulk", f"ipc://{folder}/bulk", "--leaves", f"ipc://{folder}/leaves"
        self.options = parse([*ports, "--spool", str(folder / "spool"), "--name", "here"])
        vars(self.options).update(options)

    def serve(self, **welcome: object) -> None:
        self.leaves = FakeServer(self.context, f"ipc://{self.folder}/leaves", **welcome)
        self.bulk = FakeServer(self.context, f"ipc://{self.folder}/bulk", **welcome)
        self.leaves.words = TIC_TAC_TOE_WORDS
        self.games: asyncio.Queue[PutGame] = asyncio.Queue()
        self.bulk.ack = self.take

    def take(self, message: PutGame) -> GameAck:
        self.games.put_nowait(message)
        return GameAck(message.uid, "stored")

    def close(self) -> None:
        self.leaves.close()
        self.bulk.close()


@asynccontextmanager
async def run_site(folder: Path, **options: object) -> AsyncIterator[Site]:
    """Run a worker, which is asked to end when the body of the `async with` is over."""
    site = Site(folder, **options)
    try:
        async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
            group.create_task(Worker(site.options, site.stop).run())
            yield site
            site.stop.request()
    finally:
        site.close()
        site.context.destroy(0)


def spooled(folder: Path) -> list[Path]:
    return list((folder / "spool").rglob("*.game"))
