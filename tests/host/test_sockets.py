"""The Channel under uvloop with real sockets: nothing is lost, nothing blocks, and errors are plain."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zmq
from router_socket import router

from azselfplay.host.aio import Stop, run
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import listen
from azselfplay.link.sockets import Channel, new_context


def test_a_failing_callback_does_not_stop_the_reading(tmp_path: Path) -> None:
    errors: list[str] = []
    seen: list[bytes] = []

    async def main(stop: Stop) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["message"]))
        context = new_context()

        def on_message(frames: list[memoryview]) -> None:
            seen.append(bytes(frames[1]))
            if seen[-1] == b"bad":
                raise ValueError("bad")
            if seen[-1] == b"last":
                stop.request()

        served = Channel(router(context, [f"ipc://{tmp_path}/s"]), on_message)
        served.start()
        with context.socket(zmq.DEALER) as plain:
            plain.connect(f"ipc://{tmp_path}/s")
            for text in (b"good", b"bad", b"good", b"last"):
                plain.send(text)
            async with asyncio.timeout(240):
                await stop.finishing.wait()
        served.close()
        context.term()

    run(main)
    assert seen == [b"good", b"bad", b"good", b"last"]
    assert len(errors) == 1


CUT_SHORT = """
import sys, time
from router_socket import dealer, router
from azselfplay.link.sockets import NOW, new_context

context, endpoint = new_context(), sys.argv[1]
server, client = router(context, [endpoint]), dealer(context, endpoint)
client.send(b"hello")
peer = server.recv_multipart()[0]
for _ in range(50):
    server.send_multipart([peer, b"header", b"array"])
for _ in range(99):
    client.poll()
    frame = client.recv(NOW, copy=False)
server.close(0)
time.sleep(0.5)
print(bytes(client.recv(NOW)))
"""
"""libzmq checks its connections at every hundredth frame that is read, which is here in the middle of a
message."""


def test_a_server_that_goes_in_the_middle_of_a_message_does_not_end_its_peer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CUT_SHORT, f"ipc://{tmp_path}/s"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, timeout=240, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "b'array'\n"), done.stderr


def test_an_address_that_is_not_there_may_come() -> None:
    """When a machine starts, its network comes up late, so a supervisor should try again. 192.0.2.1 is
    nobody's address (RFC 5737)."""
    with pytest.raises(Fatal, match="--listen") as caught:
        listen(["tcp://192.0.2.1:0"])
    assert caught.value.code == Exit.TRY_AGAIN


def test_a_socket_path_that_is_too_long_is_a_clear_error(tmp_path: Path) -> None:
    """ipc paths are limited to about 100 bytes by the kernel."""
    with pytest.raises(Fatal, match="TMPDIR"):
        listen([f"ipc://{tmp_path}/{'long' * 40}"])


def test_a_forgotten_context_does_not_hang_the_process(tmp_path: Path) -> None:
    """A process that fails with open sockets still ends, even if the garbage collector runs first."""
    code = (
        "import gc, zmq\nfrom azselfplay.link.sockets import dial, new_context, new_dealer\n"
        f"endpoint = 'ipc://{tmp_path}/s'\ncycle = [new_dealer(new_context(), endpoint)]\n"
        "dial(cycle[0], endpoint)\ncycle.append(cycle)\ndel cycle\ngc.collect()"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=240, check=False).returncode == 0
