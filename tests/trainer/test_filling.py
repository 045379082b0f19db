"""While the window is filled from the store, new games are accepted as usual, and none is lost or doubled."""

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest
from changed_settings import varied
from fake_server import welcome
from test_service import a_server_and_trainer, beside_trainer
from training_runs import GAME, games, stored

from azselfplay.host.aio import Stop
from azselfplay.store.reader import StoreReader
from trainer import service
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop

CONFIG = varied(TrainerConfig(), batch=16, min_positions=1, positions=400, device="cpu")


def played_in(training: TrainingLoop) -> list[bytes]:
    """Return the actions of each game in the window, in order."""
    rings, window = training.window.rings, training.window
    ends = np.flatnonzero(np.diff(rings.game[: window.positions].astype(np.int64))) + 1
    return [part.tobytes() for part in np.split(rings.action[: window.positions], ends)]


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_a_window_filled_bit_by_bit_is_the_one_filled_at_once(tmp_path: Path, most: int) -> None:
    """This also holds when more games are stored meanwhile."""
    records = games(150, 1)
    path = stored(tmp_path, records[:90])
    reader = StoreReader(path)
    whole = TrainingLoop(CONFIG, GAME, 1, "tiny", tmp_path / "a")
    parts = TrainingLoop(CONFIG, GAME, 1, "tiny", tmp_path / "b")
    while not parts.fill(reader, 90, most):
        pass
    stored(tmp_path, records[90:])
    while not parts.fill(reader, 150, most):
        pass
    assert whole.fill(reader, 150)
    reader.close()
    assert newest(parts, 300).tolist() == newest(whole, 300).tolist()
    assert parts.window.positions == whole.window.positions > 400 - GAME.max_plies


def newest(training: TrainingLoop, count: int) -> np.ndarray:
    """Return [count], the actions of the newest positions in the window."""
    numbers = training.window.next_position - np.arange(count, 0, -1)
    return training.window.rings.action[numbers % training.window.capacity]


class Held:
    """Pauses the filling of a trainer's window until a test has seen enough."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.training: TrainingLoop | None = None
        fill = TrainingLoop.fill

        def held(training: TrainingLoop, *arguments: object) -> bool:
            self.training = training
            self.begun.set()
            assert self.released.wait(60)
            return fill(training, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(TrainingLoop, "fill", held)


async def test_games_are_acknowledged_while_the_window_is_filled(tmp_path, monkeypatch) -> None:
    """Then the window holds old and new games, each once and in the order of the store."""
    monkeypatch.setattr(service, "GAMES_PER_FILL", 8)
    monkeypatch.setattr(service, "CATCH_UP", 5)
    old, new, last = games(30, 1), games(40, 2), games(10, 3)
    stored(tmp_path / "run-1", old)
    held, positions = Held(monkeypatch), sum(record.plies for record in (*old, *new, *last))
    async with beside_trainer(tmp_path, held_out=0.0) as (server, _):
        for record in new:
            server.play(record)
        await server.until(lambda: len(server.acks) == len(new))
        assert not held.released.is_set()
        await server.until(lambda: server.figures.get("games") == len(old) + len(new))
        assert "window to be loaded" in str(server.figures["waiting_for"])
        held.released.set()
        for record in last:
            server.play(record)
        await server.until(lambda: len(server.acks) == len(new) + len(last))
        await server.until(lambda: server.figures.get("window_positions") == positions)
    assert {ack.status for ack in server.acks.values()} == {"stored"}
    assert held.training is not None
    wanted = [record.actions.tobytes() for record in (*old, *new, *last)]
    in_store = StoreReader(tmp_path / "run-1" / "games.db")
    order = [record.actions.tobytes() for _, record in in_store.records_of(GAME, range(1, 101))]
    in_store.close()
    assert sorted(order) == sorted(wanted)
    assert played_in(held.training) == order


async def test_a_trainer_that_is_stopped_amid_filling_goes_on_there(tmp_path, monkeypatch) -> None:
    """It ends without reading on, and the games that it had not reached count the next time."""
    monkeypatch.setattr(service, "GAMES_PER_FILL", 10)
    stored(tmp_path / "run-1", games(60, 1))
    held, stop = Held(monkeypatch), Stop()
    server, trainer = a_server_and_trainer(tmp_path, welcome(), held_out=0.0)
    async with asyncio.TaskGroup() as group:
        group.create_task(trainer.main(stop))
        await asyncio.to_thread(held.begun.wait, 60)
        stop.request()
        held.released.set()
    server.close()
    assert held.training is not None
    assert held.training.window.games == 10
    again = TrainingLoop(CONFIG, GAME, 1, "tiny", tmp_path / "run-1" / "checkpoints")
    reader = StoreReader(tmp_path / "run-1" / "games.db")
    assert again.fill(reader, 60)
    reader.close()
    assert again.budget.learned_from == sum(record.targets for record in games(60, 1))
