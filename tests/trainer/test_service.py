"""The trainer as a process: games come in over a socket; acknowledgements, weights and figures go out."""

import asyncio
import dataclasses
import errno
import json
import threading
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
import torch
from changed_settings import self_play, varied
from fake_server import FakeServer, welcome
from free_ports import free_base_port

from azselfplay.games import get_game
from azselfplay.host.aio import Stop, run
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import is_locked
from azselfplay.store.players import set_quarantine
from azselfplay.store.reader import Range, StoreReader
from azselfplay.store.sqlite import connect
from bench.random_games import random_game
from net.weights import from_bytes
from protocol.errors import Code
from protocol.messages import PROTOCOL_VERSION, Goodbye, Hello, WeightsInfo, Welcome
from protocol.sessions import hello_first
from trainer import figures, service
from trainer.config import TrainerConfig
from trainer.ingest import Committed, Committer

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")


def a_server_and_trainer(
    tmp_path: Path, welcomed: Welcome | Goodbye, **changes: object
) -> tuple[FakeServer, service.Service]:
    port = free_base_port()
    config = varied(TrainerConfig(),
        server=f"127.0.0.1:{port}", runs=str(tmp_path), device="cpu", cpu_threads=1,
        batch=32, min_positions=100, positions=5000, steps=5,
    )  # fmt: skip
    config = varied(config, **changes)  # type: ignore[arg-type]
    hello = Hello(PROTOCOL_VERSION, "trainer", "test")
    return FakeServer(port, welcomed), service.Service(config, hello)


@asynccontextmanager
async def beside_trainer(
    tmp_path: Path, welcomed: Welcome | Goodbye | None = None, **changes: object
) -> AsyncIterator[tuple[FakeServer, service.Service]]:
    """Give a server and a trainer that often tells its figures, once it has joined the server; then stop the
    trainer."""
    server, trainer = a_server_and_trainer(tmp_path, welcomed or welcome(), **changes)
    stop = Stop()
    with patch.object(service, "STATUS_SECONDS", 0.05):
        async with asyncio.TaskGroup() as group:
            group.create_task(trainer.main(stop))
            await server.until(lambda: server.trainer)
            yield server, trainer
            stop.request()
    server.close()


async def test_games_become_acknowledgements_and_weights(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("trainer.training_loop.TrainingLoop.minutes", 1.5)
    rng = np.random.default_rng(1)
    records = [random_game(GAME, rng, simulations=20) for _ in range(60)]
    false = dataclasses.replace(records[0], uid=bytes(16), outcome=-records[0].outcome or 1)
    async with beside_trainer(tmp_path) as (server, _):
        for record in (*records, false):
            server.play(record)
        await server.until(lambda: len(server.acks) == 61)
        await server.until(lambda: server.figures.get("weights_version", 0) >= 8)  # type: ignore[operator]
    assert {server.acks[record.uid].status for record in records} == {"stored"}
    assert server.acks[false.uid].reason.startswith("wrong_outcome")
    first = server.offers[0]
    _, meta = from_bytes(server.files[first.sha256], game=GAME, history=1)
    assert (first.version, meta.version, meta.step) == (8, 8, first.step)
    assert server.figures["games_by_source"] == {"workers": 60, "clients": 0}
    assert server.figures["rejected"] == {"wrong_outcome": 1}
    folder = tmp_path / "run-1"
    assert len(list(StoreReader(folder / "games.db").rows(Range()))) == 60
    assert list((folder / "checkpoints").glob("*.state"))
    assert list((folder / "tensorboard").glob("events*"))
    assert server.figures["alerts"] == []
    row = json.loads((folder / "figures.jsonl").read_text().splitlines()[0])
    assert (row["trainer/games"] > 0, row["trainer/minutes"]) == (True, 1.5)


async def test_a_game_of_weights_that_do_not_exist_yet_is_refused_until_the_server_has_them(tmp_path) -> None:
    """WELCOME names version 7. Version 8 is of a trainer that was lost with its newest checkpoint."""
    games = (random_game(GAME, np.random.default_rng(seed), simulations=20) for seed in (1, 2))
    early, late = (dataclasses.replace(one, versions=np.full(one.plies, 8, np.uint32)) for one in games)
    async with beside_trainer(tmp_path) as (server, _):
        server.play(early)
        await server.until(lambda: early.uid in server.acks)
        server.send(WeightsInfo(8, 100, bytes(32), 1000, GAME.name))
        server.play(late)
        await server.until(lambda: late.uid in server.acks)
    acks = server.acks
    assert (acks[early.uid].status, acks[early.uid].reason.split(":")[0]) == ("rejected", "unknown_version")
    assert acks[late.uid].status == "stored"


async def test_a_clean_stop_publishes_the_network_as_it_then_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    async with beside_trainer(tmp_path, steps=10**6, seconds=1e6, per_position=3.0) as (server, _):
        for _ in range(60):
            server.play(random_game(GAME, rng, simulations=20))
        await server.until(lambda: server.figures.get("step", 0) > 0)  # type: ignore[operator]
        assert server.offers == []
    folder = tmp_path / "run-1"
    (offer,) = server.offers
    assert (offer.version, len(server.files[offer.sha256])) == (8, offer.size)
    assert offer.step == json.loads((folder / "figures.json").read_text())["step"]
    settings = tomllib.loads((folder / "trainer.toml").read_text())
    assert (settings["optimizer"]["batch"], settings["samples"]["per_position"]) == (32, 3.0)


OTHER = dataclasses.asdict(self_play(simulations=21))
OTHER_SETTINGS = msgspec.structs.replace(welcome(), self_play=OTHER, run_id=b"r" * 16)
TAKEN = Goodbye(Code.TRAINER_ALREADY_PRESENT, "another trainer is connected", retry_after=0.01)


@pytest.mark.parametrize(
    ("told", "why"), [(OTHER_SETTINGS, "other settings"), (TAKEN, "another trainer has taken over")]
)
def test_a_trainer_ends_when_what_it_holds_is_out_of_date(
    tmp_path: Path, told: Welcome | Goodbye, why: str
) -> None:
    """By the old settings it would refuse all games, and with its old network replace a successor's. Its
    parent starts it again. Before its first WELCOME it only waits."""
    (tmp_path / "archive").mkdir()

    async def scenario() -> None:
        first = msgspec.structs.replace(welcome(), run_id=b"r" * 16)
        server, trainer = a_server_and_trainer(tmp_path, TAKEN, archive=str(tmp_path / "archive"))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(trainer.main(Stop()))
                await server.until(lambda: server.trainer)
                server._welcome = first
                await server.until(lambda: server.figures)
                server._welcome = told
                server.send(hello_first())
                await server.until(lambda: False)
        finally:
            server.close()

    with pytest.raises(Fatal, match=why) as caught:
        run(lambda _: scenario())
    assert caught.value.code == Exit.TRY_AGAIN


async def test_a_trainer_that_ends_sends_new_games_back(tmp_path: Path) -> None:
    """Otherwise games that come as fast as they are stored would delay its end."""
    record = random_game(GAME, np.random.default_rng(1), simulations=20)
    async with beside_trainer(tmp_path) as (server, trainer):
        await server.until(lambda: server.figures)
        trainer._stopping = True
        server.play(record)
        await server.until(lambda: server.acks)
    assert server.acks[record.uid].status == "retry"


async def test_a_running_trainer_follows_the_quarantine(tmp_path: Path) -> None:
    """It goes by the key, whatever name the games give. Games that come meanwhile are stored and left out,
    and count after the release (test_quarantine.py: each is paid for once)."""
    rng, path = np.random.default_rng(1), tmp_path / "run-1" / "games.db"
    names = ("", "cheat", "later", "cheat later")
    batches = {name: [random_game(GAME, rng, simulations=20) for _ in range(20)] for name in names}
    async with beside_trainer(tmp_path, held_out=0.0) as (server, _):

        async def stored(*names: str) -> None:
            for name in names:
                for record in batches[name]:
                    server.play(record, "cheat" if "cheat" in name else "")
            await server.until(lambda: all(one.uid in server.acks for name in names for one in batches[name]))

        async def window_of(*names: str) -> None:
            positions = sum(record.plies for name in names for record in batches[name])
            await server.until(lambda: server.figures.get("window_positions") == positions)

        await stored("", "cheat")
        await window_of("", "cheat")
        assert set_quarantine(path, "keys/cheat", quarantined=True)
        await window_of("")
        await stored("later", "cheat later")
        await window_of("", "later")
        assert set_quarantine(path, "keys/cheat", quarantined=False)
        await window_of(*batches)
    assert {ack.status for ack in server.acks.values()} == {"stored"}


async def test_a_commit_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is on a network disk that does not answer. The game is stored when it does again."""
    monkeypatch.setattr(figures, "COMMIT_HANGS", 0.1)
    answers, process = threading.Event(), Committer.process

    def wait(committer: Committer, *given: Any) -> Committed:
        answers.wait(60)
        return process(committer, *given)

    monkeypatch.setattr(Committer, "process", wait)
    record = random_game(GAME, np.random.default_rng(1), simulations=20)
    async with beside_trainer(tmp_path) as (server, _):
        server.play(record)
        await server.until(lambda: "the disk does not answer" in str(server.figures.get("not_stored")))
        answers.set()
        await server.until(lambda: server.acks and server.figures["not_stored"] == "")
    assert server.acks[record.uid].status == "stored"


async def test_while_games_cannot_be_stored_the_figures_say_why(tmp_path, monkeypatch) -> None:
    """Earlier they said that training waits for more positions, although enough were on the way."""
    monkeypatch.setattr("azselfplay.store.sqlite.BUSY_TIMEOUT_MS", 1)
    record = random_game(GAME, np.random.default_rng(1), simulations=20)
    path = tmp_path / "run-1" / "games.db"
    why = f"database is locked ({path}). Free space or end what locks it"
    async with beside_trainer(tmp_path) as (server, _):
        await server.until(lambda: server.figures)
        with closing(connect(path, read_only=False)) as shell:
            shell.execute("BEGIN IMMEDIATE")
            server.play(record)
            await server.until(lambda: server.acks and server.figures["not_stored"] == why)
            assert server.figures["waiting_for"] == f"games to be stored: {why}"
            shell.execute("ROLLBACK")
        server.play(record)
        await server.until(lambda: "more positions" in str(server.figures["waiting_for"]))
        assert server.figures["not_stored"] == ""
        await server.until(lambda: server.acks[record.uid].status == "stored")


async def test_a_stop_on_a_full_disk_ends_in_order_and_says_what_is_missing(tmp_path, monkeypatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def script() -> None:
        async with beside_trainer(tmp_path) as (server, _):
            await server.until(lambda: server.figures)
            monkeypatch.setattr("trainer.checkpoint.write_atomically", full)

    with pytest.raises(ExceptionGroup) as caught:
        await script()
    assert caught.group_contains(Fatal, match="without a checkpoint")
    assert (tmp_path / "run-1" / "figures.json").exists()
    assert not is_locked(tmp_path / "run-1" / "trainer.lock")
