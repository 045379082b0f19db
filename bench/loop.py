"""Saturation: evaluations per second of the running system divided by those of the bare network, on the same
cores.

azserver runs as a user would start it (front, one CPU evaluator, one worker, chess, `small`), without a
trainer. System and bare network are measured in turns of a few seconds on the same number of threads, the
bare network with the batch size that the server aims at. During the network's turn all processes of the
server are stopped (SIGSTOP); during the system's turn the network waits. `AZ_BENCH_SECONDS` sets how long the
system is watched (default 60).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azselfplay.host.hardware import seconds_of, usable_cores
from azselfplay.host.ports import claimed_base_port
from azselfplay.link.connection import Connection
from azselfplay.link.sockets import new_context
from bench.turns import Spread, ratio
from protocol.messages import PROTOCOL_VERSION, GetStatus, Hello, Status

NET = "small"
_HAS_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
TURN_SECONDS = 5.0
"""Less than any timeout between parts of the server, so that the server continues as if nothing had
happened."""
AGAIN_SECONDS = 2.0
"""Seconds from SIGCONT until the rate counts as steady again."""
START_SECONDS = 180.0
"""Most seconds from a server's start to its first evaluation."""
SETTLING_SECONDS = 15.0
"""Seconds from the first evaluations until the rate counts as steady."""


class BareNetwork:
    """The network alone in a process of its own, which computes only on request."""

    def __init__(self, threads: int, rows: int) -> None:
        command = [sys.executable, "-m", "bench.loop", str(threads), str(rows)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rate(0.0)  # returns when the network is loaded

    def rate(self, seconds: float) -> float:
        """Return positions per second, measured for `seconds`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def answer_rates(threads: int, rows: int) -> None:
    """Run the process behind `BareNetwork`: measure on each request."""
    from bench.inference import GAME, chess_like_batch
    from net.architectures.network import build
    from net.architectures.registry import named
    from net.inference import Inference
    from net.weights import WeightsMeta

    inference = Inference(GAME, GAME.history, "cpu", threads=threads, target_rows=rows)
    network = build(named(NET), GAME, GAME.history).eval()
    inference.use(network, WeightsMeta(GAME.name, GAME.history, named(NET)))
    batch = chess_like_batch(rows)
    for line in sys.stdin:
        began, done = time.perf_counter(), 0
        while done == 0 or time.perf_counter() < began + float(line):
            inference.run(batch)
            done += rows
        print(done / (time.perf_counter() - began), flush=True)


@dataclass(frozen=True)
class Turn:
    """Figures of the server at both ends of a turn, and positions per second of the bare network after it."""

    first: dict[str, Any]
    last: dict[str, Any]
    bare: float

    def more(self, name: str) -> float:
        """Return the growth of a counter during the turn."""
        return float(self.last[name] - self.first[name])

    def rate(self, name: str) -> float:
        """Return the growth of a counter per second."""
        return self.more(name) / float(self.last["at"] - self.first["at"])


class Watcher:
    """Reads the figures of a running server, whose front is process `root`."""

    def __init__(self, port: int, root: int) -> None:
        self._root = root
        self.figures: dict[str, Any] = {}
        self._context = new_context()
        hello = Hello(PROTOCOL_VERSION, "watcher", "bench")

        def on_message(message: object, _frames: list[memoryview]) -> None:
            if isinstance(message, Status):
                # Read the clock together with the counters, because the server goes on between question and
                # answer.
                self.figures = {**message.figures, **processor_seconds(root), "at": time.monotonic()}

        self._connection = Connection(self._context, f"tcp://127.0.0.1:{port}", hello, on_message=on_message)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        await self._connection.run()

    async def until_playing(self) -> None:
        while not self.figures.get("evals"):
            await self._ask(0.5)

    async def next_figures(self) -> dict[str, Any]:
        """Return the figures at the moment of the next report: evaluators report their counts once a
        second."""
        seen = set[int]()
        while len(seen) < 2:
            await self._ask(0.05)
            seen.add(self.figures["evals"])
        return self.figures

    async def _ask(self, seconds: float) -> None:
        """Ask for the figures, and wait for some seconds. Raises RuntimeError if the server has ended."""
        with suppress(ChildProcessError):  # it may not be our child process
            if os.waitid(os.P_PID, self._root, _HAS_ENDED) is not None:  # noqa: ASYNC222 (it waits for nothing)
                raise RuntimeError("azserver has ended")
        self._connection.send(GetStatus())
        await asyncio.sleep(seconds)

    async def steady(self, settling: float, seconds: float) -> Turn:
        """Return the figures at both ends of some seconds, `settling` seconds after the first evaluation.
        Raises an ExceptionGroup if there is no evaluation within START_SECONDS, or the server has ended."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.run())
            async with asyncio.timeout(START_SECONDS):
                await self.until_playing()
            await asyncio.sleep(settling)
            first = await self.next_figures()
            await asyncio.sleep(seconds)
            last = await self.next_figures()
            running.cancel()
        return Turn(first, last, 0.0)

    async def watch(self, turns: int) -> list[Turn]:
        """Measure the steady system and the bare network, in turns."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.run())
            await self.until_playing()
            await asyncio.sleep(SETTLING_SECONDS)
            threads, rows = usable_cores(), self.figures["target_rows"]
            with stopped(self._root):
                bare = await asyncio.to_thread(BareNetwork, threads, rows)
            found = []
            for _ in range(turns):
                await asyncio.sleep(AGAIN_SECONDS)
                first = await self.next_figures()
                await asyncio.sleep(TURN_SECONDS)
                last = await self.next_figures()
                with stopped(self._root):
                    rate = await asyncio.to_thread(bare.rate, TURN_SECONDS)
                found.append(Turn(first, last, rate))
            bare.close()
            running.cancel()
        return found


@contextmanager
def stopped(root: int) -> Iterator[None]:
    """Stop process `root` and all its descendants during the block."""
    processes = tree(root)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            os.kill(process, signal.SIGCONT)


def tree(root: int) -> list[int]:
    """Return process `root` and all its descendants, parents first."""
    found = [root]
    for process in found:
        with suppress(OSError):  # it has just ended
            for task in Path(f"/proc/{process}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def processor_seconds(root: int) -> dict[str, float]:
    """Return the processor time so far, in seconds, of the front (process `root`), the worker and the
    evaluator."""
    found = {"front_s": 0.0, "worker_s": 0.0, "evaluator_s": 0.0}
    for process in tree(root):
        with suppress(OSError):  # it has just ended
            command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            modules = {"client.worker": "worker", "server.evaluator": "evaluator"}
            role = next((role for module, role in modules.items() if module in command), "")
            if role or process == root:
                found[f"{role or 'front'}_s"] += seconds_of(process)
    return found


@contextmanager
def running_server(*flags: str) -> Iterator[Watcher]:
    """Run azserver with these flags during the block. If the block raises, azserver's log goes to stderr."""
    with (
        claimed_base_port() as port,
        tempfile.TemporaryDirectory() as runs,
        Path(runs, "log").open("wb") as log,
    ):
        command = [sys.executable, "-m", "server.main", *flags]
        command += ["--port", str(port), "--runs", runs, "--run", "bench"]
        server = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            yield Watcher(port, server.pid)
        except BaseException:
            print(Path(runs, "log").read_text(errors="replace")[-4000:], file=sys.stderr)
            raise
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def run() -> dict[str, Any]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    with running_server("--gpus", "cpu", "--net", NET, "--workers", "1") as watcher:
        turns = asyncio.run(watcher.watch(max(3, round(seconds / TURN_SECONDS))))
    rows = turns[0].last["target_rows"]
    system, bare = [turn.rate("evals") for turn in turns], [turn.bare for turn in turns]
    saturation = ratio(system, bare)
    mean_batch = sum(turn.more("evals") for turn in turns) / sum(turn.more("batches") for turn in turns)
    busy = Spread.of([turn.rate("device_busy_s") for turn in turns])
    costs = {
        role: Spread.of([1e6 * turn.more(f"{role}_s") / turn.more("evals") for turn in turns])
        for role in ("worker", "front", "evaluator")
    }
    print(f"{len(turns)} turns of {TURN_SECONDS:.0f} s each, median (least to most):")
    print(f"bare network in batches of {rows}: {Spread.of(bare).text()} positions/s")
    print(f"running system: {Spread.of(system).text()} evals/s, batches of {mean_batch:.1f}")
    print(f"evaluator busy {busy.text('.1%')} of the time; system over bare {saturation.text('.2f')}")
    shown = ", ".join(f"{role} {cost.text('.1f')}" for role, cost in costs.items())
    print(f"processor time of an evaluation, us: {shown}")
    return {
        **{f"{role}_us": cost.median for role, cost in costs.items()},
        "saturation": saturation.median,
        "saturation_least": saturation.least,
        "saturation_most": saturation.most,
        "mean_batch_fill": mean_batch / rows,
        "evals_per_s": Spread.of(system).median,
        "bare_positions_per_s": Spread.of(bare).median,
        "target_rows": rows,
        "device_busy": busy.median,
    }


if __name__ == "__main__":
    answer_rates(int(sys.argv[1]), int(sys.argv[2]))
