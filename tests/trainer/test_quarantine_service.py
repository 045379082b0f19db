"""A trainer process follows the quarantine while games come in, and its checkpoint has the right accounts."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import numpy as np
from fake_server import TIMEOUT, FakeServer, welcome
from free_ports import free_base_port
from test_killed_trainer import start

from azselfplay.games import get_game
from azselfplay.store.players import set_quarantine
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer.checkpoint import Progress, check
from trainer.config import TrainerConfig
from trainer.validation import HeldOut

GAME = get_game("tic_tac_toe")
CONFIG = TrainerConfig()


def games(count: int, seed: int) -> list[GameRecord]:
    """Return games that all claim to be of one player."""
    rng = np.random.default_rng(seed)
    return [
        dataclasses.replace(random_game(GAME, rng, simulations=20), source="honest/0") for _ in range(count)
    ]


def trained_on(records: list[GameRecord]) -> list[GameRecord]:
    held_out = HeldOut(GAME, CONFIG.samples.held_out, CONFIG.window.positions)
    return [record for record in records if not held_out.takes(record)]


def positions(records: list[GameRecord]) -> int:
    return sum(record.plies for record in trained_on(records))


class Trained:
    """What a trainer has been sent, and the size of its window."""

    def __init__(self, server: FakeServer, cheat: list[GameRecord]) -> None:
        self._server = server
        self._uids_of_cheat = {record.uid for record in cheat}

    async def store(self, *records: GameRecord) -> None:
        for record in records:
            self._server.play(record, "cheat" if record.uid in self._uids_of_cheat else "")
        await self._server.until(lambda: all(record.uid in self._server.acks for record in records))
        assert {self._server.acks[record.uid].status for record in records} == {"stored"}

    async def has_window_of(self, *records: GameRecord) -> None:
        wanted = positions(list(records))
        await self._server.until(lambda: self._server.figures.get("window_positions") == wanted)


async def followed(folder: Path, honest: list[GameRecord], cheat: list[GameRecord]) -> Progress:
    """Send half of all games, set a quarantine, send the other half, release it, and end cleanly; return the
    checkpoint."""
    port = free_base_port()
    server, path, half = FakeServer(port, welcome()), folder / "run-1" / "games.db", len(cheat) // 2
    process = await start(server, port, folder)
    try:
        trained = Trained(server, cheat)
        await trained.store(*honest[:half], *cheat[:half])
        await trained.has_window_of(*honest[:half], *cheat[:half])
        assert set_quarantine(path, "keys/cheat", held=True)
        await trained.has_window_of(*honest[:half])
        await trained.store(*honest[half:], *cheat[half:])
        await trained.has_window_of(*honest)
        assert set_quarantine(path, "keys/cheat", held=False)
        await trained.has_window_of(*honest, *cheat)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
    finally:
        server.close()
        if process.returncode is None:
            process.kill()
            await process.wait()
    return check(max((folder / "run-1" / "checkpoints").glob("*.state")))


def test_a_running_trainer_follows_the_quarantine(tmp_path: Path) -> None:
    """The quarantine goes by the key, whatever name the games give. The window changes within seconds; games
    that come meanwhile are acknowledged and left out; after the release each game has been paid for once."""
    honest, cheat = games(80, 1), games(60, 2)
    progress = asyncio.run(followed(tmp_path, honest, cheat))
    assert progress.quarantined == {}
    assert progress.learned_from == sum(record.targets for record in trained_on(honest + cheat))
