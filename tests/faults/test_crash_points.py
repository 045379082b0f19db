"""After SIGKILL at any named place around a write nothing promised is missing, and the next run continues
from there."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from crash_names import NAMES, in_source
from crash_rooms import IN_PROCESSES, ROOMS
from fake_server import FakeServer, welcome
from free_ports import free_base_port
from scaled_examples import scaled

from azselfplay.games import get_game
from azselfplay.host.runs import CRASH_AT
from azselfplay.store.reader import Range, StoreReader
from bench.random_games import random_game

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    "--device", "cpu", "--cpu-threads", "1", "--optimizer.batch", "32", "--window.min-positions", "50",
    "--window.positions", "5000", "--publishing.steps", "1", "--publishing.checkpoint-seconds", "0",
)  # fmt: skip
"""Of a real trainer."""
PLANTED = "games_acknowledged_first"
TIMES = {"games": 3, "games_archived": 3, "takeover": 9, "weights": 3, "checkpoint": 1}
"""Most passes of a point before the kill; ten times as many under the profile `nightly`."""


def run_lab(room: str, times: int) -> dict[str, dict[str, int]]:
    command = [sys.executable, "tests/faults/crash_lab.py", room, str(times)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def test_every_crash_point_in_the_source_is_tried() -> None:
    prefixes = tuple(prefix for room in TIMES for prefix in ROOMS[room].points)
    assert {name for name in NAMES if not name.startswith(prefixes)} == set(IN_PROCESSES)
    assert sorted(NAMES) == in_source()


@pytest.mark.parametrize("room", TIMES)
def test_a_process_killed_at_any_point_has_kept_what_it_promised(room: str) -> None:
    report = run_lab(room, scaled(TIMES[room]))
    assert not report["faults"]
    assert set(report["kills"]) == {name for name in NAMES if name.startswith(ROOMS[room].points)}


def test_an_acknowledgement_before_the_commit_is_caught() -> None:
    """If the lab did not find this planted fault, its other results would mean nothing."""
    assert any("acknowledged and not stored" in fault for fault in run_lab(PLANTED, 3)["faults"])


def test_the_variable_kills_a_process() -> None:
    code = "from azselfplay.host.runs import reach; [reach('spool.renamed') for _ in 'ab']; print(7)"

    def ends(value: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, CRASH_AT: value}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert ends("spool.renamed:2").returncode == -signal.SIGKILL
    assert ends("spool.renamed:3").stdout == "7\n"


async def kill_after_acknowledging(folder: Path) -> tuple[int, set[bytes], set[bytes]]:
    """Return the exit status of a real trainer that dies after its third message of acknowledgements, the
    games whose players were told, and the games in its store."""
    port = free_base_port()
    server = FakeServer(port, welcome())
    flags = ["--server", f"127.0.0.1:{port}", "--runs", str(folder), *SETTINGS]
    environment = {**os.environ, CRASH_AT: "trainer.acknowledged:3"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trainer", *flags), cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        await server.until(lambda: server.trainer)
        rng, sent = np.random.default_rng(1), 0
        ended = asyncio.ensure_future(process.wait())
        while not ended.done():
            server.play(random_game(get_game("tic_tac_toe"), rng, simulations=20))
            sent += 1
            answered = asyncio.ensure_future(server.until(lambda: len(server.acks) == sent))  # noqa: B023 (used at once)
            await asyncio.wait({ended, answered}, return_when=asyncio.FIRST_COMPLETED)
            answered.cancel()
        status = ended.result()
    finally:
        server.close()
        if process.returncode is None:
            process.kill()
            await process.wait()
    reader = StoreReader(folder / "run-1" / "games.db")
    stored = {one.uid for one in reader.rows(Range())}
    reader.close()
    return status, {uid for uid, ack in server.acks.items() if ack.status == "stored"}, stored


def test_a_trainer_killed_behind_its_acknowledgements_has_the_games(tmp_path: Path) -> None:
    status, acknowledged, stored = asyncio.run(kill_after_acknowledging(tmp_path))
    assert status == -signal.SIGKILL
    assert acknowledged <= stored
    assert stored
