"""Saturation: evaluations per second of the running system over those of the bare network, same cores.

azserver runs as a user would start it (front, one CPU evaluator, one worker, chess, `small`), no trainer.
The bare network is measured before and after, alone, on the same number of threads, in the batch size the
server aims at. `AZ_BENCH_SECONDS` sets how long the system is watched (default 60).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from protocol.messages import PROTOCOL_VERSION, GetStatus, Hello, Status
from runtime.connection import Connection
from runtime.ports import find_base_port
from runtime.sockets import new_context

NET = "small"
BARE_SECONDS = 10.0
SETTLING_SECONDS = 15.0
"""From the first evaluations until the rate is taken to be steady."""


def bare_network(threads: int, rows: int) -> float:
    """Positions per second of the network alone, in a process of its own."""
    command = [sys.executable, "-m", "bench.loop", "bare", str(threads), str(rows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def measure_bare(threads: int, rows: int) -> float:
    from bench.inference import chess_like_batch
    from games import get_game
    from net.architectures import PRESETS, build
    from net.inference import Inference
    from net.weights import WeightsMeta, save

    game = get_game("chess")
    inference = Inference(game, game.history, "cpu", threads=threads)
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        meta = WeightsMeta(game.name, game.history, PRESETS[NET])
        save(file.name, build(PRESETS[NET], game, game.history), meta)
        inference.load(file.name)
    batch = chess_like_batch(game, rows)
    began, done = time.perf_counter(), 0
    while time.perf_counter() < began + BARE_SECONDS:
        inference.run(*batch)
        done += rows
    return done / (time.perf_counter() - began)


class Watcher:
    """Reads the figures of a running server."""

    def __init__(self, port: int) -> None:
        self.figures: dict[str, Any] = {}
        self._context = new_context()
        hello = Hello(PROTOCOL_VERSION, "watcher", "bench")
        self._connection = Connection(
            self._context, f"tcp://127.0.0.1:{port}", hello, on_message=self._on_message
        )

    def _on_message(self, message: object, _frames: list[memoryview]) -> None:
        if isinstance(message, Status):
            self.figures = {**message.figures, "at": time.monotonic()}

    async def until_playing(self) -> None:
        while not self.figures.get("evals"):
            self._connection.send(GetStatus())
            await asyncio.sleep(0.5)

    async def look(self) -> dict[str, Any]:
        self.figures = {}
        await self.until_playing()
        return self.figures

    async def watch(self, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
        """Figures at the beginning and the end of the steady time."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self._connection.run())
            await self.until_playing()
            await asyncio.sleep(SETTLING_SECONDS)
            first = await self.look()
            await asyncio.sleep(seconds)
            last = await self.look()
            running.cancel()
        return first, last


async def watch(port: int, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    return await Watcher(port).watch(seconds)


def cpu_seconds(root: int) -> dict[str, float]:
    """CPU time used so far by process `root` and all below it, by the module each runs."""
    used: dict[str, float] = {}
    waiting = [root]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            words = (process / "cmdline").read_text().split("\0")
            children = [
                child
                for task in (process / "task").iterdir()
                for child in (task / "children").read_text().split()
            ]
        except OSError:
            continue  # it has just ended
        waiting += [int(child) for child in children]
        name = words[words.index("-m") + 1] if "-m" in words else words[0]
        used[name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def run_system(seconds: float) -> dict[str, Any]:
    port = find_base_port()
    with tempfile.TemporaryDirectory() as runs, Path(runs, "log").open("wb") as log:
        command = [
            *(sys.executable, "-m", "server.main", "--gpus", "cpu", "--net", NET, "--workers", "1"),
            *("--port", str(port), "--runs", runs, "--run", "bench"),
        ]
        server = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            first, last = asyncio.run(watch(port, seconds))
            used = cpu_seconds(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
    passed = last["at"] - first["at"]
    batches = last["batches"] - first["batches"]
    evals = last["evals"] - first["evals"]
    return {
        "evals_per_s": evals / passed,
        "mean_batch": evals / batches,
        "target_rows": last["target_rows"],
        "device_busy": (last["device_busy_s"] - first["device_busy_s"]) / passed,
        "cpu_seconds": used,
        "uptime_s": last["uptime_s"],
    }


def run() -> dict[str, Any]:
    seconds = float(os.environ.get("AZ_BENCH_SECONDS", "60"))
    threads = len(os.sched_getaffinity(0))
    system = run_system(seconds)
    rows = system["target_rows"]
    bare = [bare_network(threads, rows)]
    bare.append(bare_network(threads, rows))
    best = max(bare)
    print(f"bare network, {threads} threads, batches of {rows}: {', '.join(f'{b:,.0f}' for b in bare)} /s")
    print(f"running system: {system['evals_per_s']:,.0f} evals/s, batches of {system['mean_batch']:.1f},")
    print(f"evaluator busy {system['device_busy']:.1%} of the time; CPU seconds {system['cpu_seconds']}")
    return {
        "saturation": system["evals_per_s"] / best,
        "mean_batch_fill": system["mean_batch"] / rows,
        "evals_per_s": system["evals_per_s"],
        "bare_positions_per_s": best,
        "target_rows": rows,
        "device_busy": system["device_busy"],
    }


if __name__ == "__main__":
    print(measure_bare(int(sys.argv[2]), int(sys.argv[3])))
