"""The door on real sockets: nothing is lost, no peer keeps the others out, and memory is bounded."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from descriptors import no_descriptor_left
from free_ports import free_base_port
from locked_door import PATIENCE, until
from raw_zmtp import Cut, RawPeer, unfinished_multipart
from router_socket import dealer

from azselfplay.link.door import Door
from azselfplay.link.door_connection import DoorConnection, DoorLimits, Holdings
from azselfplay.link.sockets import Channel, new_context
from protocol.zmtp import GREETING, Incoming, Limits


class Echo:
    """A door that echoes every message; a peer that sends `join` has a session from then on."""

    def __init__(self, endpoint: str, limits: DoorLimits | None = None) -> None:
        self.endpoint = endpoint
        self.now = 0.0
        """Seconds on the door's clock, which stands still: a slow machine causes no PING."""
        self.door = Door([endpoint], limits, lambda: self.now)
        self.gone: list[str] = []
        self.heard = asyncio.Event()
        self.door.start(self.on_message, lambda _peer, why: self.gone.append(why))

    def on_message(self, peer: bytes, frames: list[memoryview]) -> None:
        self.heard.set()
        if bytes(frames[0]) == b"join":
            self.door.admit(peer)
        self.door.send(peer, frames)

    async def joined(self) -> RawPeer:
        # All choose the same name, which the door ignores.
        peer = await asyncio.to_thread(lambda: RawPeer(self.endpoint, identity=b"one name"))
        await asyncio.to_thread(peer.send_frame, b"join")
        assert await asyncio.to_thread(peer.receive_frame) == (0, b"join")
        return peer


@pytest.fixture(params=["ipc", "tcp"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/s" if request.param == "ipc" else f"tcp://127.0.0.1:{free_base_port()}"


@asynccontextmanager
async def beside(endpoint: str, limits: DoorLimits | None = None) -> AsyncIterator[Echo]:
    echo = Echo(endpoint, limits)
    try:
        yield echo
    finally:
        echo.door.close()


async def test_a_libzmq_dealer_gets_its_messages_back_in_order(endpoint: str) -> None:
    """The 10,000 messages, small ones and a few large ones, are more than the sockets hold at a time."""
    count = 10_000
    async with beside(endpoint) as echo:
        context = new_context()
        back: list[tuple[int, int]] = []
        done = asyncio.Event()
        sent = 0

        def on_message(frames: list[memoryview]) -> None:
            if bytes(frames[0]) == b"join":
                send_more()
                return
            back.append((int.from_bytes(frames[0], "big"), frames[1].nbytes))
            send_more()
            if len(back) == count:
                done.set()

        def size(number: int) -> int:
            return 300_000 if number % 500 == 0 else number % 700

        def send_more() -> None:
            nonlocal sent
            while sent < min(count, len(back) + 300):
                assert dialled.send([sent.to_bytes(4, "big"), bytes(size(sent))])
                sent += 1

        dialled = Channel(dealer(context, endpoint), on_message)
        dialled.start()
        dialled.send([b"join"])
        async with asyncio.timeout(60):
            await done.wait()
        dialled.close()
        context.term()
        assert back == [(number, size(number)) for number in range(count)]
        await until(lambda: len(echo.door) == 0)
        assert echo.gone == [""]


async def test_what_a_slow_reader_gets_is_complete_and_beyond_its_limit_nothing_is_queued(endpoint) -> None:
    async with beside(endpoint) as echo:
        peer = await echo.joined()
        (number,) = echo.door._connections
        bodies = [bytes([i]) * 500_000 for i in range(100)]
        taken = [body for body in bodies if echo.door.send(number, [b"head", body])]
        assert 8 <= len(taken) < 60
        assert echo.door._held.total <= DoorLimits().unsent + 500_000 + 100
        for body in taken:
            assert await asyncio.to_thread(peer.receive_frame) == (1, b"head")
            assert (await asyncio.to_thread(peer.receive_frame))[1] == body
        await until(lambda: echo.door._held.total == 0)
        peer.close()


@pytest.mark.parametrize("joined", [False, True], ids=["stranger", "joined"])
async def test_an_unfinished_message_is_cut_off(endpoint: str, joined: bool) -> None:
    async with beside(endpoint) as echo:
        peer = await echo.joined() if joined else await asyncio.to_thread(RawPeer, endpoint)
        sent = await asyncio.to_thread(unfinished_multipart, peer, 400_000_000)
        assert sent < 50_000_000
        await until(lambda: len(echo.door) == 0)
        assert (echo.door._held.total, echo.door.cut) == (0, 1)


async def test_connections_without_a_session_are_few_and_do_not_keep_others_out(endpoint: str) -> None:
    async with beside(endpoint, DoorLimits(strangers=5)) as echo:
        joined = await echo.joined()
        crowd = []
        for _ in range(20):
            crowd.append(await asyncio.to_thread(RawPeer, endpoint))
            assert len(echo.door) <= 5 + 2
        late = await echo.joined()
        for peer in (joined, late):
            await asyncio.to_thread(peer.send_frame, b"still here")
            assert (await asyncio.to_thread(peer.receive_frame))[1] == b"still here"
        assert await asyncio.to_thread(crowd[0].is_cut)


async def test_a_full_door_takes_a_newcomer_for_a_stranger_and_never_for_a_session(endpoint: str) -> None:
    async with beside(endpoint, DoorLimits(connections=2)) as echo:
        first = await echo.joined()
        stranger = await asyncio.to_thread(RawPeer, endpoint)
        second = await echo.joined()
        assert await asyncio.to_thread(stranger.is_cut)
        with pytest.raises((Cut, ConnectionError)):
            await asyncio.to_thread(RawPeer, endpoint)
        for peer in (first, second):
            await asyncio.to_thread(peer.send_frame, b"still here")
            assert (await asyncio.to_thread(peer.receive_frame))[1] == b"still here"


async def test_whoever_has_no_session_for_too_long_is_let_go(endpoint: str) -> None:
    async with beside(endpoint) as echo:
        joined, stranger = await echo.joined(), await asyncio.to_thread(RawPeer, endpoint)
        echo.now = 61.0
        assert await asyncio.to_thread(stranger.is_cut)
        assert (await asyncio.to_thread(joined.receive_frame))[1].startswith(b"\x04PING")
        await asyncio.to_thread(joined.send_frame, b"still here")
        assert (await asyncio.to_thread(joined.receive_frame))[1] == b"still here"


async def test_at_the_descriptor_limit_newcomers_wait_and_others_are_served(endpoint: str) -> None:
    async with beside(endpoint) as echo:
        joined = await echo.joined()
        family = socket.AF_UNIX if endpoint.startswith("ipc") else socket.AF_INET
        newcomer = socket.socket(family)
        newcomer.settimeout(PATIENCE)
        target = endpoint.removeprefix("ipc://")
        loop = asyncio.get_running_loop()
        with no_descriptor_left():
            newcomer.connect(
                target if family == socket.AF_UNIX else ("127.0.0.1", int(target.rpartition(":")[2]))
            )
            joined.send_frame(b"now")
            await loop.run_in_executor(None, joined.receive_frame)
        assert (await loop.run_in_executor(None, newcomer.recv, 64)) == GREETING
        newcomer.close()


def test_a_peer_that_answers_no_ping_is_dead() -> None:
    ours, theirs = socket.socketpair()
    connection = DoorConnection(ours, b"peer", "here", Incoming(Limits()), DoorLimits(), 100.0)
    list(connection.incoming.feed(GREETING + b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REQ"))
    assert [connection.ping_is_due(now, 5.0) for now in (104.0, 105.0, 106.0)] == [False, True, False]
    assert [connection.is_dead(now, 15.0) for now in (119.0, 120.0)] == [False, True]
    connection.last_received = 120.0
    assert not connection.is_dead(140.0, 15.0)
    assert connection.ping_is_due(125.0, 5.0)
    ours.close()
    theirs.close()


def test_answers_that_wait_for_a_slow_reader_do_not_keep_the_batches_they_came_in() -> None:
    """Only the bytes that wait are counted, so they must not keep a buffer a hundred times as large."""
    ours, theirs = socket.socketpair()
    connection = DoorConnection(ours, b"peer", "here", Incoming(Limits()), DoorLimits(), 0.0)
    batch, chunk = bytes(range(256)) * 4000, bytes(500_000)
    parts = [b"\x01\x02", memoryview(batch)[1000:1100], memoryview(batch)[:200_000], memoryview(chunk)]
    connection.queue(parts, 1)
    assert b"".join(connection.unsent) == b"".join(map(bytes, parts))[1:]
    assert connection.unsent_size == 1 + 100 + 200_000 + 500_000
    kept = {id(part.obj) for part in connection.unsent}
    assert id(batch) not in kept
    assert id(chunk) in kept, "a whole buffer is not copied"
    assert len(connection.unsent) == 2
    ours.close()
    theirs.close()


async def test_a_socket_file_left_by_a_killed_server_is_replaced(tmp_path: Path) -> None:
    path = f"{tmp_path}/s"
    socket.socket(socket.AF_UNIX).bind(path)
    async with beside(f"ipc://{path}") as echo:
        peer = await echo.joined()
        peer.close()


# ---- the pure parts -------------------------------------------------------------------------


def test_beyond_the_budget_whoever_has_made_no_progress_for_longest_goes() -> None:
    held = Holdings(100, 60.0)
    assert held.update(b"a", 40, 1.0, progress=False) == []
    assert held.update(b"b", 40, 2.0, progress=False) == []
    assert held.update(b"a", 50, 3.0, progress=True) == []
    assert held.update(b"c", 20, 4.0, progress=False) == [b"b"]
    held.forget(b"b")
    assert held.total == 70
    assert held.update(b"c", 0, 5.0, progress=True) == []
    assert (held.total, held.expire(62.9), held.expire(63.0)) == (50, [], [b"a"])
    assert held.update(b"d", 200, 64.0, progress=False) == [b"a", b"d"]
