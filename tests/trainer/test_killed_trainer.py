"""A trainer that is killed at work and loses its disk loses no acknowledged game, if it has an archive."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from fake_server import TIMEOUT, FakeServer, welcome
from free_ports import free_base_port

from azselfplay.games import get_game
from azselfplay.store.reader import Range, StoreReader
from bench.random_games import random_game
from protocol.records import GameRecord

AHEAD = 32
BURST = 600
SETTINGS = (
    "--device", "cpu", "--cpu-threads", "1", "--optimizer.batch", "32", "--window.min-positions", "50",
    "--window.positions", "5000", "--publishing.steps", "1", "--publishing.checkpoint-seconds", "0",
)  # fmt: skip


async def start(server: FakeServer, port: int, folder: Path, *flags: str) -> asyncio.subprocess.Process:
    """Return a trainer that has joined; its log is `folder/log`."""
    server.trainer = b""
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trainer", "--server", f"127.0.0.1:{port}", "--runs", f"{folder}/runs"),
            *SETTINGS,
            *flags,
            stderr=log,
        )
    await server.until(lambda: server.trainer)
    return process


async def feed(
    server: FakeServer, games: Iterator[GameRecord], enough: Callable[[], bool]
) -> list[GameRecord]:
    """Send games, a few ahead of the acknowledgements, until `enough()`; then so many at once that the first
    of them are acknowledged while others are still being checked and committed."""
    sent: list[GameRecord] = []
    while not enough():
        sent.append(next(games))
        server.play(sent[-1])
        await server.until(lambda: len(sent) - len(server.acks) < AHEAD)
    before = len(sent)
    sent += [next(games) for _ in range(BURST)]
    for record in sent[before:]:
        server.play(record)
    await server.until(lambda: len(server.acks) > before)
    return sent


def random_games() -> Iterator[GameRecord]:
    rng = np.random.default_rng(1)
    while True:
        yield random_game(get_game("tic_tac_toe"), rng, simulations=20)


async def kill_and_restart(folder: Path) -> tuple[list[GameRecord], FakeServer, int, int]:
    """Return all games sent, the server, the step of the last checkpoint before the kill, and the exit
    code."""
    port = free_base_port()
    server = FakeServer(port, msgspec.structs.replace(welcome(), run_id=b"r" * 16))
    archive = folder / "archive"
    archive.mkdir()
    flags = ("--archive", str(archive))
    checkpoints = archive / "checkpoints"
    games = random_games()
    process = await start(server, port, folder, *flags)
    try:
        sent = await feed(server, games, lambda: any(checkpoints.glob("*.state")))
        process.kill()
        await process.wait()
        step = max(int(path.stem[5:]) for path in checkpoints.glob("*.state"))
        shutil.rmtree(folder / "runs" / "run-1")
        process = await start(server, port, folder, *flags)
        # Acknowledging one more game shows that the trainer has its store again, even if no other is left.
        sent.append(next(games))
        for record in sent:
            if record.uid not in server.acks:
                server.play(record)
        await server.until(lambda: len(server.acks) == len(sent))
        process.terminate()
        return sent, server, step, await asyncio.wait_for(process.wait(), TIMEOUT)
    finally:
        server.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_killed_trainer_goes_on_with_all_it_acknowledged(tmp_path: Path) -> None:
    """After a SIGKILL during commits, acknowledged games are in the store without being sent again. The
    others count once when they are sent again, and training goes on from the last checkpoint."""
    sent, server, step, code = asyncio.run(kill_and_restart(tmp_path))
    assert code == 0
    assert {ack.status for ack in server.acks.values()} <= {"stored", "duplicate"}
    reader = StoreReader(tmp_path / "runs" / "run-1" / "games.db")
    stored = [one.uid for one in reader.rows(Range())]
    reader.close()
    assert sorted(stored) == sorted(record.uid for record in sent)
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert f"going on from step {step}," in log
    assert step > 0
