"""Training in rounds gives the same bits, however it was interrupted and in whatever order games came."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from changed_settings import varied

from bench.random_games import random_game
from bench.stored_games import entry
from games import get_game
from protocol.records import GameRecord
from protocol.rounds import uid_of
from runtime.exits import Exit, Fatal
from store.reader import StoreReader
from store.sqlite import Store
from trainer.config import TrainerConfig
from trainer.rounds import Rounds, TrainingLoopInRounds
from trainer.training_loop import TrainingLoop

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
SEED, ROUND = 7, 20
PLAIN = varied(
    TrainerConfig(),
    net="1x8",
    batch=32,
    min_positions=150,
    positions=300,
    device="cpu",
    cpu_threads=1,
    held_out=0.2,
)
EVERYTHING = varied(
    PLAIN, ema=0.9, growth=True, growth_min=60, cosine_steps=20, value_q_share=0.3, win_discount=0.9,
    capped_value_weight=0.25, heads="moves_left:0.1,soft_policy:1",
)  # fmt: skip


def games(rounds: int) -> list[GameRecord]:
    rng = np.random.default_rng(3)
    made = [random_game(GAME, rng, simulations=20) for _ in range(rounds * ROUND)]
    return [dataclasses.replace(game, uid=uid_of(SEED, number)) for number, game in enumerate(made)]


def put(store: Store, records: list[GameRecord]) -> None:
    store.commit([entry(record) for record in records])


class Trainer:
    """A trainer with its own folder and store, and the hashes of the weights of each version."""

    def __init__(self, config: TrainerConfig, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.config, self.folder = config, folder
        self.store = Store(folder / "games.db", GAME.name)
        self.hashes: dict[int, set[str]] = {}
        self.begin()

    def begin(self) -> None:
        """Start as a new process: everything it knows is on the disk."""
        rounds = Rounds(GAME, ROUND, SEED, StoreReader(self.folder / "games.db"))
        self.training = TrainingLoopInRounds(self.config, GAME, 1, "tiny", self.folder, rounds)
        self.training.fill(rounds.reader, self.store.newest)

    def turn(self) -> bool:
        """Make a turn; return whether there is more to do."""
        turn = self.training.turn([], 0, 0)
        if turn.version is not None:
            version, _, data = self.training.publish(99)
            assert version == turn.version
            self.hashes.setdefault(version, set()).add(hashlib.sha256(data).hexdigest())
        return turn.more


@pytest.mark.parametrize("config", [PLAIN, EVERYTHING], ids=["plain", "everything"])
def test_interrupted_training_comes_to_the_same_weights(tmp_path: Path, config: TrainerConfig) -> None:
    """Five rounds without a stop give the same weights files as five with checkpoints and kills at any step,
    games in another order, and a game of another player among them; the window overflows meanwhile."""
    rng = np.random.default_rng(5)
    straight, broken = Trainer(config, tmp_path / "a"), Trainer(config, tmp_path / "b")
    broken.training.turn_seconds = -1.0
    kills = 0
    for number in range(5):
        records = games(5)[number * ROUND : (number + 1) * ROUND]
        put(straight.store, records)
        while straight.turn():
            pass
        put(broken.store, [random_game(GAME, rng, simulations=20)])
        put(broken.store, [records[i] for i in rng.permutation(ROUND)])
        while broken.turn():
            if rng.random() < 0.2:
                broken.training.save()
            if rng.random() < 0.3:
                kills += 1
                broken.begin()
                broken.training.turn_seconds = -1.0
    assert set(straight.hashes) == set(range(1, 6))
    assert {number: broken.hashes[number] for number in straight.hashes} == straight.hashes
    assert len(set.union(*straight.hashes.values())) == 5
    assert straight.training.step == broken.training.step > 30
    assert kills > 3
    ours, theirs = (one.training._train_step.network.state_dict() for one in (straight, broken))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    assert straight.training.window.positions == broken.training.window.positions


def test_round_begins_when_it_is_complete(tmp_path: Path) -> None:
    """No training happens before the last game of a round is there, and the trainer says what it waits
    for."""
    one = Trainer(PLAIN, tmp_path / "a")
    first = games(1)
    put(one.store, first[1:])
    turn = one.training.turn([], 0, 0)
    assert (turn.step, turn.version, turn.more) == (0, 0, False)
    assert turn.waiting_for == f"games of round 0: {ROUND - 1} of {ROUND} are there"
    put(one.store, first)
    turn = one.training.turn([], 0, 0)
    assert (turn.version, turn.more) == (1, False)
    assert one.training.publish(0)[0] == 1


def test_round_without_a_step_still_makes_a_version(tmp_path: Path) -> None:
    """While the window is too small for steps, the same network plays the next round."""
    one = Trainer(varied(PLAIN, min_positions=300), tmp_path / "a")
    put(one.store, games(1))
    turn = one.training.turn([], 0, 0)
    assert (turn.step, turn.version) == (0, 1)


def test_no_clock_may_set_the_rate_in_rounds(tmp_path: Path) -> None:
    """Such a run would not repeat bit by bit; the message names the setting and the other one."""
    with pytest.raises(Fatal, match=r"cosine-minutes .* use --optimizer\.cosine-steps") as caught:
        Trainer(varied(PLAIN, cosine_minutes=5.0), tmp_path / "a")
    assert caught.value.code == Exit.CONFIG


def test_rounds_cannot_change_in_a_run(tmp_path: Path) -> None:
    """A run trained in rounds continues only in rounds of the same size."""
    one = Trainer(PLAIN, tmp_path / "a")
    one.training.save()
    with pytest.raises(Fatal, match="round_games 20, now it is 0") as caught:
        TrainingLoop(PLAIN, GAME, 1, "tiny", tmp_path / "a")
    assert caught.value.code == Exit.CONFIG
