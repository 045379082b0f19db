"""A Connection to a server that runs in the same loop and may go away."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from client_server import FakeServer
from in_process import ends

from azselfplay.host.aio import Stop, run
from azselfplay.host.exits import Exit
from azselfplay.link import connection as connection_module
from azselfplay.link import connection as redial
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.sockets import Channel, Context, new_context
from protocol.curve import CURVE_GREETING
from protocol.messages import PROTOCOL_VERSION, Bye, Chunk, GetChunk, Goodbye, Hello, Message

HELLO = Hello(PROTOCOL_VERSION, "watcher", "test")
watcher = partial(Connection, hello=HELLO, on_message=lambda *_: None)
"""Makes a connection that ignores all messages."""


def server_at(context: Context, endpoint: str) -> FakeServer:
    return FakeServer(context, endpoint, heartbeat=0.05, lease=5.0)


def in_loop(script: Callable[[Context], Coroutine[Any, Any, None]]) -> None:
    async def main(stop: Stop) -> None:
        context = new_context()
        async with asyncio.timeout(240):
            await script(context)
        context.destroy(0)

    run(main)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def test_it_joins_asks_and_is_answered(tmp_path: Path) -> None:
    answers: list[tuple[Message, bytes]] = []
    ask = GetChunk(bytes(32), 0)

    async def script(context: Context) -> None:
        endpoint, answered = f"ipc://{tmp_path}/s", asyncio.Event()
        server = server_at(context, endpoint)

        def on_message(message: Message, frames: list[memoryview]) -> None:
            answers.append((message, bytes(frames[0])))
            answered.set()

        connection = Connection(
            context, endpoint, HELLO, on_message=on_message, on_joined=lambda _: connection.send(ask) and None
        )
        server.weights = b"frame"
        assert not connection.send(ask), "nothing goes out before WELCOME"
        task = asyncio.create_task(connection.run())
        await answered.wait()
        assert connection.welcome == server.welcome
        await ended(task)
        await server.until(Bye)
        server.close()

    in_loop(script)
    assert answers == [(Chunk(bytes(32), 0), b"frame")]


def test_it_joins_again_when_the_server_restarts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The end is logged at once. A new server does not know the session and says so at the next PING; then
    the connection sends HELLO."""

    async def script(context: Context) -> None:
        endpoint, events = f"ipc://{tmp_path}/s", asyncio.Queue[str]()
        note, server = events.put_nowait, server_at(context, endpoint)
        connection = watcher(
            context, endpoint, on_joined=lambda _: note("joined"), on_lost=lambda _: note("lost")
        )
        task = asyncio.create_task(connection.run())
        assert await events.get() == "joined"
        server.close()
        server = server_at(context, endpoint)
        assert [await events.get(), await events.get()] == ["lost", "joined"]
        await ended(task)
        server.close()

    in_loop(script)
    assert caplog.messages[0] == f"the connection to ipc://{tmp_path}/s has ended; dialling again"


@pytest.mark.parametrize(
    ("code", "exit_code"), [("protocol_too_old", Exit.PROTOCOL), ("role_not_allowed", Exit.REFUSED)]
)
def test_a_final_goodbye_ends_with_the_servers_reason(tmp_path: Path, code: str, exit_code: Exit) -> None:
    """The server's message says what to do about it; the exit code tells supervisors not to retry."""

    async def script(context: Context) -> None:
        server = server_at(context, f"ipc://{tmp_path}/s")
        server.refusal = Goodbye(code, "upgrade the client")
        try:
            await watcher(context, f"ipc://{tmp_path}/s").run()
        finally:
            server.close()

    with ends(exit_code, "upgrade the client"):
        in_loop(script)


def test_a_server_that_asks_for_a_key_at_once_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """libzmq reports a refused handshake only once, so the watch begins before the dial."""
    ended = threading.Event()

    def ask_for_a_key() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(CURVE_GREETING)
            while peer.recv(64):
                pass
        ended.set()

    def channel(*args: Any) -> Channel:
        ended.wait(0.3)  # long enough for a handshake, if one had begun
        return Channel(*args)

    async def script(context: Context) -> None:
        settings = ConnectionSettings(max_wait=60.0)
        endpoint = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        await watcher(context, endpoint, settings=settings).run()

    monkeypatch.setattr(connection_module, "Channel", channel)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=ask_for_a_key)
        server.start()
        with ends(Exit.REFUSED, "azclient keygen"):
            in_loop(script)
        server.join()


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"
NO_FRAME = b"\xff" * 9
"""No frame has these flags."""


def test_bytes_that_libzmq_does_not_forgive_do_not_end_it_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a meaningless frame, libzmq closes the connection and never dials again; we do."""
    monkeypatch.setattr(redial, "FIRST_REDIAL", 0.1)
    closed = threading.Event()

    def speak_nonsense() -> None:
        with listener, listener.accept()[0] as peer:
            peer.sendall(GREETING + READY + NO_FRAME)
            with suppress(ConnectionError):
                while peer.recv(64):
                    pass
        closed.set()

    async def script(context: Context) -> None:
        joined = asyncio.Event()
        connection = watcher(context, endpoint, on_joined=lambda _: joined.set())
        task = asyncio.create_task(connection.run())
        await asyncio.to_thread(closed.wait)
        server = server_at(context, endpoint)
        await joined.wait()
        await ended(task)
        server.close()

    listener = socket.create_server(("127.0.0.1", 0))
    endpoint = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=speak_nonsense)
    thread.start()
    in_loop(script)
    thread.join()


def test_a_server_that_does_not_answer_is_told_of_soon_by_the_address_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notice comes long before the wait is over. It does not name the second port, which nobody typed."""
    monkeypatch.setattr(connection_module, "FIRST_NOTICE", 0.0)
    said: list[str] = []

    async def script(context: Context) -> None:
        def pass_the_wait(text: str, *values: object) -> None:
            said.append(text % values)
            connection._alone_since -= 60.0

        monkeypatch.setattr(connection_module.log, "info", pass_the_wait)
        settings = ConnectionSettings("gpu-box:5700", max_wait=60.0)
        connection = watcher(context, f"ipc://{tmp_path}/5701", settings=settings)
        await connection.run()

    with ends(Exit.UNREACHABLE, "answered at gpu-box:5700 for") as caught:
        in_loop(script)
    assert said[0].startswith("no azserver answers at gpu-box:5700 yet; trying for 60 s (check host and port")
    assert "5701" not in f"{said} {caught.value}"


def test_a_name_without_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "FIRST_NOTICE", 0.0)

    async def script(context: Context) -> None:
        said: asyncio.Queue[str] = asyncio.Queue()
        monkeypatch.setattr(connection_module.log, "warning", lambda text, *of: said.put_nowait(text % of))
        settings, endpoint = ConnectionSettings("nohost.invalid"), "tcp://nohost.invalid:5601"
        connection = watcher(context, endpoint, settings=settings)
        task = asyncio.create_task(connection.run())
        assert (await said.get()).startswith("the name 'nohost.invalid' is not known")
        await ended(task)

    in_loop(script)


def test_it_says_what_it_waits_for_and_joins_when_it_may(tmp_path, monkeypatch) -> None:
    """It says so at once and every minute; a GOODBYE with a retry time does not end it."""
    monkeypatch.setattr(connection_module, "WAIT_NOTICE", 0.1)

    async def script(context: Context) -> None:
        said: asyncio.Queue[str] = asyncio.Queue()
        for level in ("info", "warning"):
            monkeypatch.setattr(connection_module.log, level, lambda text, *of: said.put_nowait(text % of))
        endpoint = f"ipc://{tmp_path}/s"
        server = server_at(context, endpoint)
        server.refusal = Goodbye("trainer_already_present", "another one is there", 0.01)
        joined = asyncio.Event()
        connection = watcher(context, endpoint, on_joined=lambda _: joined.set())
        task = asyncio.create_task(connection.run())
        waiting = f"{endpoint} does not accept this process yet: another one is there; asking again"
        while (line := await said.get()) != waiting:
            assert line.startswith("no azserver at")
        assert (await said.get()).startswith(f"{endpoint} makes this process wait: another one is there")
        server.refusal = None
        await joined.wait()
        await ended(task)
        server.close()

    in_loop(script)
