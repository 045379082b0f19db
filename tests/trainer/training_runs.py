"""A training loop over games of tic-tac-toe, for its tests."""

from pathlib import Path

import numpy as np
import torch
from changed_settings import varied

from azselfplay.games import get_game
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import Store
from bench.random_games import entry, random_game
from net.weights import from_bytes
from protocol.records import GameRecord
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop, Turn

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
CONFIG = varied(
    TrainerConfig(), net="tiny", batch=32, min_positions=50, positions=200, device="cpu", cpu_threads=1,
    held_out=0.0, per_position=2.0,
)  # fmt: skip


def training(folder: Path, **changes: object) -> TrainingLoop:
    folder.mkdir(exist_ok=True)
    return TrainingLoop(varied(CONFIG, **changes), GAME, 1, "tiny", folder)  # type: ignore[arg-type]


def games(count: int, seed: int = 0) -> list[GameRecord]:
    rng = np.random.default_rng(seed)
    return [random_game(GAME, rng, simulations=20) for _ in range(count)]


def stored(folder: Path, records: list[GameRecord]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder / "games.db", GAME.name)
    store.commit([entry(record) for record in records])
    store.close()
    return folder / "games.db"


def fill(one: TrainingLoop, path: Path, up_to_seq: int) -> TrainingLoop:
    reader = StoreReader(path)
    one.fill(reader, up_to_seq)
    reader.close()
    return one


def to_the_end(one: TrainingLoop, records: list[GameRecord], last_seq: int, positions: int = 10**6) -> Turn:
    """Take games in and make all the steps that they allow."""
    turn = one.turn(records, last_seq, positions)
    while turn.more:
        turn = one.turn([], last_seq, positions)
    return turn


def tensors(one: TrainingLoop) -> dict[str, torch.Tensor]:
    _, _, data = one.export_weights(0)
    return from_bytes(data, game=GAME, history=1)[0].state_dict()
