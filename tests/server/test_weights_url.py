"""Weights from a web server: a real front, a real player's connection, and a plain file server."""

import asyncio
import dataclasses
import logging
import os
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest
from file_server import FileServer, file_server
from front_bench import PATIENCE, Bench, Peer, publish, running_front

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.sockets import BULK_LIMIT
from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import in_cache, weights_path
from azselfplay.link.weights_pull import WeightsPull
from protocol.messages import CHUNK, PROTOCOL_VERSION, Hello, WeightsInfo
from server.config import ServerConfig
from server.front import FrontSettings

DATA = os.urandom(3 * CHUNK + 5)


async def pull(bench: Bench, folder: Path, info: WeightsInfo, patience: float) -> bytes:
    """Act as a player until it has these weights; return the bytes that it would load."""
    got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def on_end(about: WeightsInfo, fault: str) -> None:
        assert (about, fault) == (info, "")
        got.set_result((folder / f"{info.sha256.hex()}.safetensors").read_bytes())

    connection = Connection(
        bench.context,
        bench.endpoints["bulk"],
        Hello(PROTOCOL_VERSION, "client", "box"),
        on_message=lambda message, frames: downloader.on_message(message, frames),
        on_joined=lambda welcome: downloader.joined(welcome),
        settings=ConnectionSettings(limit=BULK_LIMIT),
    )
    use = in_cache(folder, lambda _path, _info: "")
    downloader = WeightsDownloader(use, connection.send, WeightsPull(timeout=patience), on_end)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in (connection, downloader)]
        data = await got
        for task in tasks:
            task.cancel()
    return data


async def chunks_sent(folder: Path, web: FileServer, patience: float = 10.0, other: bytes = b"") -> int:
    """Publish weights, and have a player pull them. Returns how many chunks the front sent. `other`: the
    bytes under their name in the folder `other`, if any."""
    sent: list[int] = []

    def settings(usual: FrontSettings) -> FrontSettings:
        return dataclasses.replace(usual, weights_url=web.url)

    async with running_front(folder, settings=settings) as bench:
        await bench.evaluator()
        trainer = await bench.peer("bulk", "trainer")
        info = await publish(trainer, DATA, 1)
        while bench.store.current != info:
            await trainer.status()
        if other:
            weights_path(folder / "other", info).write_bytes(other)
        from_disk = bench.store.chunk

        def chunk(sha256: bytes, offset: int) -> bytes | None:
            sent.append(offset)
            return from_disk(sha256, offset)

        bench.store.chunk = chunk  # type: ignore[method-assign]
        assert (await Peer(bench, "bulk").join("worker")).weights_url == "", "it has the files beside it"
        assert await pull(bench, folder / "box", info, patience) == DATA
    return len(sent)


async def test_the_front_sends_no_chunk_of_what_a_plain_file_server_has(tmp_path: Path, caplog) -> None:
    with file_server(tmp_path) as web:
        assert await chunks_sent(tmp_path, web) == 0
    ((path, code),) = web.answers
    assert (path.startswith("/000001-"), code) == (True, 200)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("damaged", "it has another SHA-256 than announced"),
        ("too short", "the file there has 9 bytes instead of"),
        ("missing", "the answer is '404 File not found'"),
        ("silent", "nothing came for"),
        ("away", "refused|Connect call failed"),
        ("no address", "is no folder on a web server"),
    ],
)
async def test_what_it_does_not_have_comes_from_the_front_and_is_said_once(
    tmp_path: Path, caplog, place: str, reason: str
) -> None:
    """A damaged file, another one or none, a silent server or none, and no address all lead to the front."""
    (tmp_path / "other").mkdir()
    other = {"damaged": bytes(len(DATA)), "too short": bytes(9)}.get(place, b"")
    # Only the kernel accepts connections to this listener, so no answer comes.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = "file:///etc" if place == "no address" else f"http://127.0.0.1:{listener.getsockname()[1]}/"
        if place == "away":
            listener.close()
        has_server = other or place == "missing"
        with file_server(tmp_path / "other") if has_server else nullcontext(FileServer(url)) as web:
            assert await chunks_sent(tmp_path, web, 0.3 if place == "silent" else 10.0, other) >= 4
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert line.startswith(f"weights version 1 do not come from {web.url} (")
    assert line.endswith("): fetching them from the server")
    assert any(part in line for part in reason.split("|"))


NO_ADDRESSES = ("ftp://hub/weights", "hub:8000", "http://", "http://hub:99999", "https://me:secret@hub/")


@pytest.mark.parametrize("url", [*NO_ADDRESSES, "http://a/?b", "x y"])
def test_an_address_that_is_none_ends_azserver_with_a_sentence(url: str) -> None:
    with pytest.raises(Fatal, match="--weights-url: ") as caught:
        ServerConfig(weights_url=url).check()
    assert caught.value.code == Exit.CONFIG
