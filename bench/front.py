"""The cost of a leaf and of a game outside of search and network: 64 players, and 8 evaluators that only
wait.

Local leaves go by ring from workers to their evaluator; remote leaves go as EVALUATE to the front, and from
there by ring. Players send the same chess positions again as soon as they are answered; evaluators answer
after a fixed time. Processor time is measured for whole processes, so it includes wake-ups; it is divided by
the number of answered leaves. `AZ_BENCH_SECONDS` sets how long each case is watched (default 20).

Games go through the front to a trainer that acknowledges each after `ACK_SECONDS`, as if it first copied the
game to another machine. Players send as many games as their window has room for.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import uvloop
import zmq

from azselfplay.batching.loop import EvaluatorLoop
from azselfplay.batching.ring import Layout
from azselfplay.games import get_game
from azselfplay.host.hardware import seconds_of
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.sockets import BULK_LIMIT, new_context
from azselfplay.search.evaluator import Evaluations
from azselfplay.search.settings import resolve
from bench.inference import chess_like_batch
from client.remote_evaluator import LEAVES_PER_MESSAGE, RemoteEvaluator
from client.sources import RingSource
from client.uploader import MOST_IN_FLIGHT
from client.worker import SLOTS
from protocol.frames import LeafBatch
from protocol.messages import (
    PROTOCOL_VERSION,
    Evaluated,
    GameAck,
    Grant,
    Hello,
    Message,
    PutGame,
    RelayAck,
    RelayGame,
    Welcome,
)
from protocol.records import sha256
from protocol.settings import SelfPlaySettings
from server.evaluator import FrontControl
from server.front import Front, FrontSettings
from server.weights import WeightsStore

GAME = get_game("chess")
PLAYERS, EVALUATORS = 64, 8
TARGET, BATCH_SECONDS = 1024, 0.04
"""Rows of a batch, and the batch's time: 200,000 leaves/s for all evaluators together."""
PLAYERS_A_PROCESS = 8
SETTLING_SECONDS, PATIENCE = 5.0, 300.0
GAME_BYTES, ACK_SECONDS = 6000, 1.5
"""Size of a game of chess with few simulations. AlphaZero's 1,360 games a second then mean 2,040 unanswered
games."""


class TimedNetwork:
    """A network that always gives the same answer, after a fixed time."""

    device_name = "timed"
    in_flight = 2
    target_rows = max_rows = TARGET
    out_of_memory: type[Exception] = MemoryError

    def __init__(self) -> None:
        self._priors = np.full(TARGET * GAME.max_legal, 1 / 35, np.float16)
        self._wdl = np.full((TARGET, 3), 1 / 3, np.float32)
        self._done_at = 0.0

    def load(self, path: str, sha256: bytes) -> None:
        """Do nothing: there are no weights."""

    def room_for(self, rows: int) -> npt.NDArray[np.uint64]:
        return np.empty((rows, GAME.feature_words(GAME.history)), np.uint64)

    def submit(self, batch: LeafBatch) -> Any:
        self._done_at = max(self._done_at, time.monotonic()) + BATCH_SECONDS
        return self._done_at, batch.rows, len(batch.actions)

    def collect(self, ticket: Any) -> Any:
        done_at, rows, actions = ticket
        time.sleep(max(0.0, done_at - time.monotonic()))
        return self._priors[:actions], self._wdl[:rows]

    def run(self, batch: LeafBatch) -> Any:
        return self.collect(self.submit(batch))

    def halve(self) -> None:
        """Do nothing: this network never runs out of memory."""


def evaluate(folder: Path, index: int) -> None:
    """Run as evaluator `index`, for ever."""
    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect(f"ipc://{folder}/evaluators")
    control, workers = FrontControl(socket, index), PLAYERS // EVALUATORS
    path = folder / f"ring-{index}"
    EvaluatorLoop(path, TimedNetwork(), GAME, GAME.history, control, workers=workers).run()


class Asker:
    """Sends the same leaves again as soon as they are answered, and counts them."""

    def __init__(self, evaluator: RingSource | RemoteEvaluator, rows: int) -> None:
        self._evaluator, self._batch = evaluator, chess_like_batch(rows)
        self._missing = 0
        self.ask()

    def ask(self) -> None:
        self._missing = self._batch.rows
        self._evaluator.submit(self._batch, self)

    def answered(self, first: int, evaluations: Evaluations) -> None:  # noqa: ARG002
        Answered.count += len(evaluations.wdl)
        self._missing -= len(evaluations.wdl)
        if not self._missing:
            asyncio.get_running_loop().call_soon(self.ask)

    def failed(self, first: int, rows: int, error: Exception) -> None:  # noqa: ARG002
        raise error


async def play_beside(folder: Path, process: int) -> None:
    """Run as some workers of one evaluator, for ever."""
    layout = Layout.of(GAME, GAME.history, SLOTS)
    for _ in range(PLAYERS_A_PROCESS):
        joined = asyncio.Event()

        evaluator = RingSource([folder / f"ring-{process}"], layout, "worker", joined.set)
        evaluator.ring.start()
        await joined.wait()
        # Only now the evaluator's wish is known: keep as many leaves in flight as it asks for.
        demand = evaluator.ring.demand
        for _ in range(max(1, demand.games // demand.rows)):
            Asker(evaluator, demand.rows)
    await tell_answered()


class Player:
    """A remote player on one port of the front."""

    port: str

    def __init__(self, context: zmq.Context[Any], folder: Path, group: asyncio.TaskGroup) -> None:
        self._connection = Connection(
            context,
            f"ipc://{folder}/{self.port}",
            Hello(PROTOCOL_VERSION, "client", "bench"),
            on_message=self.on_message,
            on_joined=self.joined,
        )
        group.create_task(self._connection.run())

    def joined(self, welcome: Welcome) -> None:
        raise NotImplementedError

    def on_message(self, message: Message, frames: list[memoryview]) -> None:
        raise NotImplementedError


class Searcher(Player):
    """Uses the front's evaluators."""

    port = "leaves"

    def joined(self, welcome: Welcome) -> None:
        self._evaluator = RemoteEvaluator(self._connection.send)
        self._evaluator.joined(welcome)
        for _ in range(max(1, welcome.games_in_flight // LEAVES_PER_MESSAGE)):
            Asker(self._evaluator, LEAVES_PER_MESSAGE)

    def on_message(self, message: Message, frames: list[memoryview]) -> None:
        if isinstance(message, Evaluated):
            self._evaluator.on_evaluated(message, frames)
        elif isinstance(message, Grant):
            self._evaluator.granted(message.credits)


class Sender(Player):
    """Sends the next game as soon as one is acknowledged."""

    port = "bulk"

    def joined(self, welcome: Welcome) -> None:  # noqa: ARG002
        self._data = os.urandom(GAME_BYTES)
        for _ in range(MOST_IN_FLIGHT):
            self._send()

    def _send(self) -> None:
        self._connection.send(PutGame(os.urandom(16), sha256(self._data)), self._data)

    def on_message(self, message: Message, frames: list[memoryview]) -> None:  # noqa: ARG002
        if isinstance(message, GameAck) and message.status == "stored":
            Answered.count += 1
            self._send()
        elif isinstance(message, GameAck):
            asyncio.get_running_loop().call_later(message.retry_after, self._send)


async def be_players(kind: type[Player], folder: Path) -> None:
    """Run as some remote players, for ever."""
    context = new_context()
    async with asyncio.TaskGroup() as group:
        for _ in range(PLAYERS_A_PROCESS):
            kind(context, folder, group)
        await tell_answered()


class Answered:
    """The answers that this process's players have got so far."""

    count = 0
    """Number of rows that were evaluated, or of games that were acknowledged."""


async def tell_answered() -> None:
    """Write the count every half second."""
    while True:
        await asyncio.sleep(0.5)
        print(Answered.count, flush=True)


async def take_games(folder: Path) -> None:
    """Run as a trainer that acknowledges each game after a while, for ever."""
    loop = asyncio.get_running_loop()

    def on_message(message: Message, _: list[memoryview]) -> None:
        if isinstance(message, RelayGame):
            ack = RelayAck([(message.peer, GameAck(message.uid, "stored"))])
            loop.call_later(ACK_SECONDS, connection.send, ack)

    connection = Connection(
        new_context(),
        f"ipc://{folder}/bulk",
        Hello(PROTOCOL_VERSION, "trainer", "bench", secret=os.urandom(32)),
        on_message=on_message,
        on_joined=lambda _: None,
        settings=ConnectionSettings("bench", limit=BULK_LIMIT, hwm=1024),
    )
    await connection.run()


async def serve(folder: Path) -> None:
    """Run as the front, for ever."""
    store = WeightsStore(folder, GAME.name)
    # No real weights: the network does not read them.
    store.add(b"made up", 0, 0, "tiny")
    settings = FrontSettings(
        run="bench",
        game=GAME,
        history=GAME.history,
        self_play=asdict(resolve(SelfPlaySettings(), GAME)),
        leaves=(f"ipc://{folder}/leaves",),
        bulk=(f"ipc://{folder}/bulk",),
        evaluators=f"ipc://{folder}/evaluators",
        rings=tuple(folder / f"ring-{index}" for index in range(EVALUATORS)),
        devices=EVALUATORS,
    )
    await Front(settings, store).run()


ROLES: dict[str, Callable[[Path, int], None]] = {
    "evaluator": evaluate,
    "workers": lambda folder, index: uvloop.run(play_beside(folder, index)),
    "players": lambda folder, _: uvloop.run(be_players(Searcher, folder)),
    "senders": lambda folder, _: uvloop.run(be_players(Sender, folder)),
    "trainer": lambda folder, _: uvloop.run(take_games(folder)),
    "front": lambda folder, _: uvloop.run(serve(folder)),
}


class Processes:
    """The processes of a case, with their logs in `folder`; they end with `stack`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str, index: int, name: str) -> None:
        """Start a process whose output goes to its log."""
        command = [sys.executable, "-m", "bench.front", role, str(self._folder), str(index)]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = self._processes[name] = subprocess.Popen(command, stdout=log)
        # The stack calls these in reverse order: kill, then wait.
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def wait_for(self, look: Callable[[], Any]) -> None:
        """Wait until `look` returns a true value. Raises RuntimeError if a process ends before, or if this
        takes too long."""
        until = time.monotonic() + PATIENCE
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"waited in vain, and {name} says: {self.log(name)[-2000:]}")
            if look():
                return
            time.sleep(0.5)

    def seconds(self, names: list[str]) -> float:
        """Return the processor time of these processes so far."""
        return sum(seconds_of(self._processes[name].pid) for name in names)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()


def watch(folder: Path, players: str, others: list[str], seconds: float) -> dict[str, float]:
    """Return the microseconds of processor time per leaf (or game), by role, and the leaves (or games) per
    second."""
    counts = {role: 1 if role in ("front", "trainer") else EVALUATORS for role in others}
    counts[players] = PLAYERS // PLAYERS_A_PROCESS
    names = {role: [f"{role} {index}" for index in range(count)] for role, count in counts.items()}
    with ExitStack() as stack:
        processes = Processes(folder, stack)
        for role, of_role in names.items():
            for index, name in enumerate(of_role):
                processes.start(role, index, name)

        def rows() -> int:
            """Return the rows that all players have got so far."""
            texts = [processes.log(name).split() for name in names[players]]
            return sum(int(counts[-1]) for counts in texts if counts)

        def spent() -> dict[str, float]:
            """Return the processor time of all processes, by role."""
            return {role: processes.seconds(of) for role, of in names.items()}

        # Until the first answer they compile and connect, which is not to be measured.
        processes.wait_for(rows)
        time.sleep(SETTLING_SECONDS)
        before, spent_before, began = rows(), spent(), time.monotonic()
        time.sleep(seconds)
        processes.wait_for(lambda: True)  # raises if one of them has died meanwhile
        more, spent_then = rows() - before, spent()
        found = {role: 1e6 * (spent_then[role] - spent_before[role]) / more for role in names}
        return {**found, "leaves_per_s": more / (time.monotonic() - began)}


def run() -> dict[str, float]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "20"))
    cases = {
        "local": ("workers", ["front", "evaluator"]),
        "remote": ("players", ["front", "evaluator"]),
        "games": ("senders", ["front", "trainer", "evaluator"]),
    }
    figures: dict[str, float] = {}
    batch = f"batches of {TARGET} in {1000 * BATCH_SECONDS:.0f} ms"
    print(f"{PLAYERS} players, {EVALUATORS} evaluators with {batch}; microseconds of processor time each:")
    for name, (players, others) in cases.items():
        with tempfile.TemporaryDirectory(prefix="az-") as folder:
            found = watch(Path(folder), players, others, seconds)
        rate = found.pop("leaves_per_s")
        if name == "local":  # its evaluators need a front, which has nothing to do with leaves
            found.pop("front")
        parts = ", ".join(f"{role} {cost:.2f}" for role, cost in found.items())
        what = "games" if name == "games" else "leaves"
        print(f"{name:7} {rate:9,.0f} {what}/s: {parts}, in all {sum(found.values()):.2f}")
        figures |= {f"{name}_us": sum(found.values()), f"{name}_{what}_per_s": rate}
        figures |= {"front_us": found["front"]} if name == "remote" else {}
    return figures


if __name__ == "__main__":
    ROLES[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
