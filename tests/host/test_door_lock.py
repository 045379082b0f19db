"""A door that needs keys, on real sockets, with libzmq's own CURVE on the other side."""

import asyncio
import logging
import socket
import time

import pytest
import zmq
from locked_door import CLIENT, LAB, PATIENCE, SERVER, STRANGER, Dialled, locked_door, until
from raw_zmtp import RawPeer

from azselfplay.link.door import Door
from protocol.curve import CURVE_GREETING


async def test_messages_of_every_size_go_both_ways_and_the_key_has_its_name() -> None:
    async with locked_door() as locked:
        client = locked.dial()
        await client.exchange([b"join"])
        for message in (
            [b""],
            [b"head", bytes(200), b"", bytes(70_000)],
            [b"big", bytes(range(256)) * 16384],
        ):
            assert await client.exchange(message) == message
        assert set(locked.owners) == {LAB}
        client.close()
        await until(lambda: len(locked.door) == 0)
        assert locked.door.cut == 0


async def test_libzmqs_own_pings_are_answered() -> None:
    """libzmq cuts a connection on which nobody answers its pings."""
    async with locked_door() as locked:
        quick = locked.context.socket(zmq.DEALER)
        for option, value in ((zmq.HEARTBEAT_IVL, 20), (zmq.HEARTBEAT_TIMEOUT, 5_000), (zmq.LINGER, 0)):
            quick.set(option, value)
        quick.curve_serverkey, quick.curve_publickey, quick.curve_secretkey = map(
            zmq.utils.z85.encode, (SERVER.public, CLIENT.public, CLIENT.secret)
        )
        quick.connect(locked.endpoint)
        client = Dialled(quick)
        await client.exchange([b"join"])
        (connection,) = locked.door._connections.values()
        for _ in range(20):
            heard = connection.last_received
            await until(lambda heard=heard: connection.last_received > heard)
        assert await client.exchange([b"still here"]) == [b"still here"]
        assert [event for event, _ in client.events] == [zmq.EVENT_HANDSHAKE_SUCCEEDED]
        client.close()


async def test_a_key_that_is_not_allowed_is_refused_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with locked_door() as locked:
            client = locked.dial(STRANGER)
            await until(lambda: client.events != [])
            assert client.events == [(zmq.EVENT_HANDSHAKE_FAILED_AUTH, 400)]
            assert locked.owners == []
            assert locked.door.refused == 1
            client.close()
    assert "azserver allow" in caplog.text


async def test_nothing_that_is_said_can_be_read_on_the_wire() -> None:
    """Somebody who relays all traffic learns neither the messages nor who the client is."""
    async with locked_door() as locked:
        host, port = locked.endpoint.removeprefix("tcp://").split(":")
        seen, word, pipes = bytearray(), b"a move that nobody else knows", set[asyncio.Task[None]]()

        async def pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(1 << 16):
                seen.extend(data)
                target.write(data)

        async def between(source: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            answers, target = await asyncio.open_connection(host, int(port))
            pipes.update(map(asyncio.ensure_future, (pipe(source, target), pipe(answers, back))))

        listener = await asyncio.start_server(between, host, 0)
        locked.endpoint = "tcp://{}:{}".format(*listener.sockets[0].getsockname())
        client = locked.dial()
        await client.exchange([b"join"])
        assert await client.exchange([b"head", word * 100]) == [b"head", word * 100]
        assert len(seen) > 2 * 100 * len(word)
        assert not any(known in seen for known in (word, CLIENT.public, CLIENT.secret, b"lab-3"))
        client.close()
        listener.close()
        for task in pipes:
            task.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)


async def test_an_unfinished_handshake_ends_after_ten_seconds() -> None:
    async with locked_door() as locked:
        host, port = locked.endpoint.removeprefix("tcp://").split(":")
        loop = asyncio.get_running_loop()
        peer = await loop.run_in_executor(None, socket.create_connection, (host, int(port)), PATIENCE)
        assert await loop.run_in_executor(None, peer.recv, 64) == CURVE_GREETING
        client = locked.dial()
        await client.exchange([b"join"])
        locked.ahead = 10.0
        await until(lambda: len(locked.door) == 1)
        assert locked.gone == ["it has not finished its handshake in time"]
        peer.close()
        client.close()


async def test_a_fault_in_looking_for_a_key_lets_nobody_in_and_ends_nothing_else(caplog) -> None:
    """libzmq's ZAP does not ensure this when its handler is dead."""
    async with locked_door() as locked:
        ended: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: ended.append(context))
        early = locked.dial()
        await early.exchange([b"join"])
        locked.fails = True
        late = locked.dial()
        await until(lambda: locked.door.faults.count > 0)
        assert await early.exchange([b"still here"]) == [b"still here"]
        assert (late.events, len(locked.owners)) == ([], 2)
        locked.fails = False
        assert await late.exchange([b"now"]) == [b"now"]
        assert ended == []  # an uncaught fault would end the process (`host.aio`)
        early.close()
        late.close()
    assert "a bug in azselfplay; only this event is lost" in caplog.text


async def test_what_a_revoked_key_has_sent_already_is_not_handled() -> None:
    """These messages came together with the one during which the key was revoked."""
    async with locked_door() as locked:
        client, handled = locked.dial(), list[bytes]()
        await client.exchange([b"join"])

        def revoking(_peer: bytes, frames: list[memoryview]) -> None:
            handled.append(bytes(frames[0]))
            locked.allowed.clear()
            locked.door.revoke(lambda _: None)

        locked.door._on_message = revoking
        for number in range(20):
            assert client.channel.send([b"%d" % number])
        await until(lambda: len(locked.door) == 0)
        assert handled == [b"0"]
        client.close()


async def test_a_door_with_keys_lets_this_users_own_processes_in_without(tmp_path) -> None:
    lock = SERVER, lambda _: None
    door = Door([f"ipc://{tmp_path}/s"], None, time.monotonic, lock)
    heard = asyncio.Event()
    door.start(lambda peer, _: (heard.set(), door.send(peer, [b"yes"]))[0], lambda *_: None)
    peer = await asyncio.to_thread(RawPeer, f"ipc://{tmp_path}/s")
    await asyncio.to_thread(peer.send_frame, b"own")
    assert await asyncio.to_thread(peer.receive_frame) == (0, b"yes")
    peer.close()
    door.close()
