"""New weights of the trainer: pulled, stored and answered, whatever happens on the way."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from front_bench import inside

from azselfplay.link import weights_downloader
from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, Refused, WeightsInfo
from server.bulk import WeightsIn
from server.metrics import Figures
from server.port import FAULT
from server.weights import WeightsStore

DATA = bytes(range(256)) * 5000
INFO = WeightsInfo(2, 100, hashlib.sha256(DATA).digest(), len(DATA), "chess")
OLDER = WeightsInfo(1, 50, b"o" * 32, 10, "chess")
OFFSETS = list(range(0, len(DATA), CHUNK))
SESSION: Any = SimpleNamespace(peer=b"trainer")


class Server:
    """`WeightsIn` with a store on the disk, and what it sends to the trainer."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[Any] = []
        self.used: list[WeightsInfo] = []
        self.objection = ""
        self.charged = 0
        self._came = asyncio.Event()
        self.store = WeightsStore(folder, "chess")
        self.figures = Figures(0.0)
        self.weights = WeightsIn("chess", self.store, self.figures, self.send)
        pool: Any = SimpleNamespace(desired=OLDER, objection=self._objection, load=self._load)
        port: Any = SimpleNamespace(refuse=self._refuse, charge=self._charge)
        self.weights.pool, self.weights.port = pool, port

    def send(self, message: Any) -> bool:
        self.sent.append(message)
        self._came.set()
        return True

    def announce(self, info: WeightsInfo = INFO) -> None:
        self.weights.on_info(SESSION, info, [])

    def chunk(self, offset: int, data: bytes = DATA) -> None:
        frame = memoryview(data[offset : offset + CHUNK])
        self.weights.on_chunk(SESSION, Chunk(hashlib.sha256(data).digest(), offset), [frame])

    def offsets(self) -> list[int]:
        """Return which chunks were requested since the last call."""
        asked = [message.offset for message in self.sent if isinstance(message, GetChunk)]
        self.sent.clear()
        return asked

    async def answer(self) -> WeightsInfo | Refused:
        """Wait for the answer to the weights."""
        async with asyncio.timeout(60):
            while not (self.sent and isinstance(self.sent[-1], WeightsInfo | Refused)):
                self._came.clear()
                await self._came.wait()
        return self.sent[-1]

    async def _objection(self, _: WeightsInfo) -> str:
        return self.objection

    def _load(self, info: WeightsInfo) -> None:
        self.used.append(info)

    def _refuse(self, _peer: bytes, code: Code, reason: str, request: int) -> None:
        self.send(Refused(code, reason, request))

    def _charge(self, _peer: bytes) -> None:
        self.charged += 1


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    server = Server(folder)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.weights.downloader.run())
        yield server
        running.cancel()


@pytest.mark.parametrize("newest", [INFO, msgspec.structs.replace(INFO, version=7, sha256=b"n" * 32)])
@inside(serving)
async def test_weights_that_are_not_newer_are_answered_with_the_newest(
    server: Server, newest: WeightsInfo
) -> None:
    """They may be the same weights again, because the answer was lost."""
    server.weights.pool.desired = newest
    server.announce()
    assert server.sent == [newest]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"game": "shogi"}, "shogi"), ({"size": 0}, "0 bytes"), ({"size": 1 << 40}, "bytes")],
)
@inside(serving)
async def test_weights_that_cannot_be_right_are_refused_at_once(
    server: Server, change: dict[str, Any], reason: str
) -> None:
    server.announce(msgspec.structs.replace(INFO, **change))
    (refused,) = server.sent
    assert (refused.code, refused.request) == (Code.WEIGHTS_REFUSED, INFO.version)
    assert reason in refused.reason


@inside(serving)
async def test_other_weights_take_the_place_of_those_under_way(server: Server) -> None:
    """Chunks that nobody wants any more are charged for."""
    other = DATA[1:]
    newer = WeightsInfo(3, 100, hashlib.sha256(other).digest(), len(other), "chess")
    server.announce()
    server.announce(newer)
    server.chunk(OFFSETS[0])
    for offset in OFFSETS:
        server.chunk(offset, other)
    assert await server.answer() == newer
    assert (server.used, server.charged) == ([newer], 1)


@inside(serving)
async def test_weights_that_players_cannot_use_are_thrown_away_and_refused(server: Server) -> None:
    server.objection = "a number that is not finite"
    for _ in range(2):  # the same weights may come again, and are looked at again
        server.announce()
        for offset in OFFSETS:
            server.chunk(offset)
        assert await server.answer() == Refused(Code.WEIGHTS_REFUSED, server.objection, INFO.version)
        server.sent.clear()
    assert (server.used, server.figures.weights_refused) == ([], 2)
    assert not server.store.has(INFO)


@inside(serving)
async def test_a_trainer_that_has_the_weights_no_longer_is_not_asked_again(server: Server) -> None:
    server.announce()
    server.weights.on_refused(SESSION, Refused(Code.UNKNOWN_WEIGHTS, "gone"), [])
    assert server.weights.downloader._pull.next_wake() is None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("a fault")])
@inside(serving)
async def test_weights_are_stored_as_soon_as_the_disk_takes_them(
    server: Server, monkeypatch, error: Exception
) -> None:
    """After a fault, in contrast, these weights are refused, and the next ones are expected."""
    monkeypatch.setattr(weights_downloader, "WRITE_AGAIN", 0.001)
    errors = [error, error]
    put = WeightsStore.put

    def failing(store: WeightsStore, info: WeightsInfo, data: bytes) -> None:
        if errors:
            raise errors.pop()
        put(store, info, data)

    monkeypatch.setattr(WeightsStore, "put", failing)
    server.announce()
    for offset in OFFSETS:
        server.chunk(offset)
    if isinstance(error, OSError):
        assert await server.answer() == INFO
        assert server.store.path(INFO).read_bytes() == DATA
    else:
        assert await server.answer() == Refused(Code.WEIGHTS_REFUSED, FAULT, INFO.version)
        assert server.figures.faults.count == 1
