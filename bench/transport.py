"""Leaves per second between two processes, over ipc and tcp, including the codec.

A DEALER keeps 4 messages of 128 chess leaves in flight; the door (`runtime.door`), on which azserver listens,
receives and checks them and answers with priors and values; the DEALER checks those. CPU time per leaf is
that of both processes together, and is the steadier figure on a busy machine. `curve` is tcp with keys; its
cost relative to plain tcp is printed as a ratio of consecutive turns.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import uvloop
from nacl.bindings import crypto_scalarmult_base

from bench.turns import TURNS, Spread
from protocol.frames import check_evaluations, check_leaves
from protocol.keys import DialKeys, KeyOwner, KeyPair
from protocol.messages import Evaluate, Evaluated, decode, encode
from runtime.door import Door, DoorLock
from runtime.ports import find_base_port
from runtime.sockets import Channel, Context, dealer, new_context, plain

ROWS, WORDS, ACTIONS, LEGAL = 128, 119, 4672, 32
IN_FLIGHT = 4
WARM_UP, MEASURED = 0.4, 1.6
"""Seconds."""
CPU_QUESTION = b"cpu"
_SECRET = bytes(range(32))
PAIR = KeyPair(crypto_scalarmult_base(_SECRET), _SECRET)
"""Key pair of both sides."""


def make_leaves() -> list[memoryview]:
    """Frames of one EVALUATE as large as chess makes them: 952 bytes and 32 legal actions a leaf."""
    rng = np.random.default_rng(1)
    features = rng.integers(0, 2**63, (ROWS, WORDS), dtype=np.uint64)
    counts = np.full(ROWS, LEGAL, np.uint16)
    features.flags.writeable = False  # sent in place
    actions = rng.integers(0, ACTIONS, ROWS * LEGAL, dtype=np.uint16)
    return [array.data.cast("B") for array in (features, counts, actions)]


async def serve(endpoint: str, *, locked: bool) -> None:
    """Answer EVALUATE until killed; `locked`: with CURVE. Every peer counts as one with a session."""
    priors = np.full(ROWS * LEGAL, 1 / LEGAL, np.float16)
    wdl = np.full((ROWS, 3), 1 / 3, np.float32)
    lock = DoorLock(PAIR, lambda _: KeyOwner("bench", "client")) if locked else None
    door = Door([endpoint], lock=lock)

    def on_message(peer: bytes, frames: list[memoryview]) -> None:
        door.admit(peer)
        if frames[0] == CPU_QUESTION:
            door.send(peer, [CPU_QUESTION, np.float64(time.process_time()).tobytes()])
            return
        message = decode(frames[0])
        assert isinstance(message, Evaluate)
        leaves = check_leaves(message.rows, WORDS, ACTIONS, frames[1:])
        answer = encode(Evaluated(message.request, 0, len(leaves.counts), 1))
        door.send(peer, [answer, plain(priors.data.cast("B")), plain(wdl.data.cast("B"))])

    door.start(on_message, lambda _peer, _why: None)
    await asyncio.Event().wait()


class Asker:
    """The DEALER's end, which counts."""

    def __init__(self, context: Context, endpoint: str, keys: DialKeys | None) -> None:
        self._reader = Channel(dealer(context, endpoint, keys=keys), self._on_message)
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
        while not self._server_cpu.done():  # while the connection is being made
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


def _one(endpoint: str, *, locked: bool = False) -> tuple[float, float]:
    words = ["locked"] if locked else []
    server = subprocess.Popen([sys.executable, "-m", "bench.transport", endpoint, *words])
    keys = DialKeys(PAIR.public, PAIR) if locked else None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            context = new_context()
            result = runner.run(Asker(context, endpoint, keys).measure())
            context.destroy(0)
            return result
    finally:
        server.kill()
        server.wait()


def run() -> dict[str, Any]:
    """Figures of each transport, measured in turns."""
    figures: dict[str, Any] = {}
    found: dict[str, list[tuple[float, float]]] = {"ipc": [], "tcp": [], "curve": []}
    with tempfile.TemporaryDirectory(prefix="az-") as folder:
        for _ in range(TURNS):
            found["ipc"].append(_one(f"ipc://{folder}/door"))
            for name in ("tcp", "curve"):
                endpoint = f"tcp://127.0.0.1:{find_base_port(26_000)}"
                found[name].append(_one(endpoint, locked=name == "curve"))
    print(f"{'':5} leaves/s, median of {TURNS} turns (least to most); CPU us/leaf")
    for transport, turns in found.items():
        rates, cpus = (Spread.of(column) for column in zip(*turns, strict=True))
        print(f"{transport:5} {rates.text()}; {cpus.text('.3f')}", flush=True)
        figures[f"{transport}_leaves_per_s"] = round(rates.median)
        figures[f"{transport}_cpu_us_per_leaf"] = round(cpus.median, 3)
    ratios = [Spread.of(column) for column in zip(*_beside(found["curve"], found["tcp"]), strict=True)]
    print(f"curve beside tcp: leaves/s times {ratios[0].text('.2f')}, CPU times {ratios[1].text('.2f')}")
    figures["curve_beside_tcp"] = round(ratios[0].median, 3)
    figures["curve_cpu_beside_tcp"] = round(ratios[1].median, 3)
    return figures


def _beside(turns: list[tuple[float, float]], others: list[tuple[float, float]]) -> list[list[float]]:
    """Ratios of figures measured one after the other."""
    return [[a / b for a, b in zip(*pair, strict=True)] for pair in zip(turns, others, strict=True)]


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as server_runner:
        server_runner.run(serve(sys.argv[1], locked="locked" in sys.argv[2:]))
