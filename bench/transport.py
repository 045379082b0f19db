"""Leaves per second over ZeroMQ between two processes, codec included: our door,
and three ways of reading a ROUTER.

A DEALER keeps 4 messages of 128 chess leaves in flight; a ROUTER checks them and answers with priors and
values; the DEALER checks those. Ways of reading under uvloop: `drain` (ours, `runtime.sockets.Channel`),
`zmq_asyncio` (one future a message), `thread` (poller in a thread, `call_soon_threadsafe` once a burst).
With `door` the server listens with `runtime.door.Door` instead of a ROUTER, and the DEALER drains.
CPU time per leaf is of both processes together, and is the steadier figure on a busy machine.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import uvloop
import zmq
import zmq.asyncio

from bench.turns import TURNS, Spread, ratio
from protocol.frames import check_evaluations, check_leaves
from protocol.messages import Evaluate, Evaluated, decode, encode
from runtime.door import Door
from runtime.ports import find_base_port
from runtime.sockets import Channel, Context, Frame, Socket, dealer, new_context, plain, receive, router

ROWS, WORDS, ACTIONS, LEGAL = 128, 119, 4672, 32
IN_FLIGHT = 4
WARM_UP, MEASURED = 0.4, 1.6
"""Seconds."""
CPU_QUESTION = b"cpu"

OnMessage = Callable[[list[memoryview]], None]


class Reader(Protocol):
    """A socket that is read by the loop in one way or another."""

    def start(self) -> None: ...
    def send(self, frames: Sequence[Frame]) -> bool: ...
    def close(self) -> None: ...


class AsyncioReader:
    """`zmq.asyncio`: one long-lived task that awaits each message."""

    def __init__(self, socket: Socket, on_message: OnMessage) -> None:
        self._plain = socket
        self._socket = zmq.asyncio.Socket.shadow(socket)
        self._on_message = on_message
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._read())

    def send(self, frames: Sequence[Frame]) -> bool:
        self._socket.send_multipart(frames)
        return True

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._socket.close(0)
        self._plain.close(0)

    async def _read(self) -> None:
        while True:
            parts = await self._socket.recv_multipart(copy=False)
            self._on_message([part.buffer for part in parts])


class ThreadReader:
    """A thread owns the socket; the loop hands it what to send and is called once for each burst."""

    def __init__(self, socket: Socket, on_message: OnMessage) -> None:
        self._socket = socket
        self._on_message = on_message
        self._outbox: deque[Sequence[Frame]] = deque()
        self._wake = socket.context.socket(zmq.PAIR)
        self._woken = socket.context.socket(zmq.PAIR)
        self._wake.bind(f"inproc://{id(self)}")
        self._woken.connect(f"inproc://{id(self)}")
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def send(self, frames: Sequence[Frame]) -> bool:
        self._outbox.append(frames)
        self._wake.send(b"")
        return True

    def close(self) -> None:
        self._wake.send(b"end")
        self._thread.join()
        self._wake.close(0)

    def _work(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        ended = False
        while not ended:
            ready = dict(poller.poll())
            if self._woken in ready:
                ended = self._woken.recv() == b"end"
            while self._outbox:
                self._socket.send_multipart(list(self._outbox.popleft()))  # type: ignore[arg-type]
            messages = []
            while (frames := receive(self._socket)) is not None:
                messages.append(frames)
            if messages and self._loop is not None:
                self._loop.call_soon_threadsafe(self._hand_over, messages)
        self._socket.close(0)
        self._woken.close(0)

    def _hand_over(self, messages: list[list[memoryview]]) -> None:
        for frames in messages:
            self._on_message(frames)


class DoorReader:
    """`runtime.door.Door` as the server's end; every peer counts as one with a session."""

    def __init__(self, endpoint: str, on_message: OnMessage) -> None:
        self._door = Door([endpoint])
        self._on_message = on_message

    def start(self) -> None:
        self._door.start(self._read, lambda _peer, _why: None)

    def send(self, frames: Sequence[Frame]) -> bool:
        return self._door.send(bytes(plain(frames[0])), [plain(frame) for frame in frames[1:]])

    def close(self) -> None:
        self._door.close()

    def _read(self, peer: bytes, frames: list[memoryview]) -> None:
        self._door.admit(peer)
        self._on_message([memoryview(peer), *frames])


DOOR = "door"
READERS: dict[str, Callable[[Socket, OnMessage], Reader]] = {
    DOOR: Channel,
    "drain": Channel,
    "zmq_asyncio": AsyncioReader,
    "thread": ThreadReader,
}


def make_leaves() -> list[memoryview]:
    """Frames of one EVALUATE as large as chess makes them: 952 bytes and 32 legal actions a leaf."""
    rng = np.random.default_rng(1)
    features = rng.integers(0, 2**63, (ROWS, WORDS), dtype=np.uint64)
    counts = np.full(ROWS, LEGAL, np.uint16)
    features.flags.writeable = False  # sent in place
    actions = rng.integers(0, ACTIONS, ROWS * LEGAL, dtype=np.uint16)
    return [array.data.cast("B") for array in (features, counts, actions)]


async def serve(kind: str, endpoint: str) -> None:
    """Answer EVALUATE until killed."""
    priors = np.full(ROWS * LEGAL, 1 / LEGAL, np.float16)
    wdl = np.full((ROWS, 3), 1 / 3, np.float32)

    def on_message(frames: list[memoryview]) -> None:
        peer = bytes(frames[0])
        if frames[1] == CPU_QUESTION:
            reader.send([peer, CPU_QUESTION, np.float64(time.process_time()).tobytes()])
            return
        message = decode(frames[1])
        assert isinstance(message, Evaluate)
        leaves = check_leaves(message.rows, WORDS, ACTIONS, frames[2:])
        answer = encode(Evaluated(message.request, 0, len(leaves.counts), 1))
        reader.send([peer, answer, priors.data.cast("B"), wdl.data.cast("B")])

    reader: Reader
    if kind == DOOR:
        reader = DoorReader(endpoint, on_message)
    else:
        reader = READERS[kind](router(new_context(), [endpoint]), on_message)
    reader.start()
    await asyncio.Event().wait()


class Asker:
    """The DEALER's end, which counts."""

    def __init__(self, context: Context, kind: str, endpoint: str) -> None:
        self._reader = READERS[kind](dealer(context, endpoint), self._on_message)
        self._leaves = make_leaves()
        self._request = 0
        self._rows = 0
        self._in_flight = 0
        self._asking = False
        self._all_answered = asyncio.Event()
        self._server_cpu: asyncio.Future[float] | None = None

    async def measure(self) -> tuple[float, float]:
        """(leaves per second, CPU microseconds per leaf in both processes)."""
        self._reader.start()
        self._server_cpu = asyncio.get_running_loop().create_future()
        while not self._server_cpu.done():  # the connection comes up
            self._reader.send([CPU_QUESTION])
            await asyncio.wait({self._server_cpu}, timeout=0.2)
        self._asking = True
        for _ in range(IN_FLIGHT):
            self._ask()
        await asyncio.sleep(WARM_UP)
        cpu, rows, began = await self._cpu(), self._rows, time.perf_counter()
        await asyncio.sleep(MEASURED)
        rows, seconds = self._rows - rows, time.perf_counter() - began
        cpu = await self._cpu() - cpu
        self._asking = False
        await self._all_answered.wait()
        self._reader.close()
        return rows / seconds, 1e6 * cpu / max(rows, 1)

    async def _cpu(self) -> float:
        self._server_cpu = asyncio.get_running_loop().create_future()
        self._reader.send([CPU_QUESTION])
        return await self._server_cpu + time.process_time()

    def _ask(self) -> None:
        self._request += 1
        self._in_flight += 1
        self._reader.send([encode(Evaluate(self._request, ROWS)), *self._leaves])

    def _on_message(self, frames: list[memoryview]) -> None:
        if frames[0] == CPU_QUESTION:
            if self._server_cpu is not None and not self._server_cpu.done():
                self._server_cpu.set_result(float(np.frombuffer(frames[1])[0]))
            return
        message = decode(frames[0])
        assert isinstance(message, Evaluated)
        check_evaluations(message.rows, ROWS * LEGAL, frames[1:])
        self._rows += message.rows
        self._in_flight -= 1
        if self._asking:
            self._ask()
        elif not self._in_flight:
            self._all_answered.set()


def _one(kind: str, endpoint: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.transport", kind, endpoint]
    server = subprocess.Popen(command)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            context = new_context()
            result = runner.run(Asker(context, kind, endpoint).measure())
            context.destroy(0)
            return result
    finally:
        server.kill()
        server.wait()


def run() -> dict[str, Any]:
    """Figures per transport and way of reading, measured in turns."""
    figures: dict[str, Any] = {}
    ways = [(transport, kind) for transport in ("ipc", "tcp") for kind in READERS]
    with tempfile.TemporaryDirectory(prefix="az-") as folder:

        def measure(transport: str, kind: str) -> tuple[float, float]:
            tcp = f"tcp://127.0.0.1:{find_base_port(26_000)}"
            return _one(kind, tcp if transport == "tcp" else f"ipc://{folder}/{kind}")

        turns = [{way: measure(*way) for way in ways[:: -1 if turn % 2 else 1]} for turn in range(TURNS)]
    print(f"{'':18} leaves/s, median of {TURNS} turns (least to most); CPU us/leaf; over drain")
    for transport, kind in ways:
        rates, cpus = zip(*(turn[transport, kind] for turn in turns), strict=True)
        over = ratio(rates, [turn[transport, "drain"][0] for turn in turns])
        text = f"{Spread.of(rates).text()}; {Spread.of(cpus).text('.3f')}; {over.text('.2f')}"
        print(f"{transport + ' ' + kind:18} {text}", flush=True)
        figures[f"{transport}_{kind}_leaves_per_s"] = round(Spread.of(rates).median)
        figures[f"{transport}_{kind}_cpu_us_per_leaf"] = round(Spread.of(cpus).median, 3)
        figures[f"{transport}_{kind}_over_drain"] = round(over.median, 3)
    for transport in ("ipc", "tcp"):
        figures[f"{transport}_leaves_per_s"] = figures[f"{transport}_drain_leaves_per_s"]
    return figures


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as server_runner:
        server_runner.run(serve(sys.argv[1], sys.argv[2]))
