"""Self-play and training together, in rounds: an undisturbed run and one that is killed again and again agree
bit by bit."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import torch
from changed_settings import self_play, varied

from client.rounds import CurrentVersion, RoundPool
from client.self_play import Player
from games import get_game
from net.inference import Inference
from net.weights import from_bytes
from protocol.messages import WeightsInfo
from protocol.records import GameRecord, sha256, to_bytes
from search.evaluator import LocalEvaluator
from search.forest import Forest
from search.leaf_batch import Evaluations, LeafBatch
from search.pool import SearchPool
from search.settings import resolve
from store.reader import Range, StoreReader
from store.sqlite import Store
from trainer.config import TrainerConfig
from trainer.ingest import Job
from trainer.intake import Intake
from trainer.rounds import Rounds, TrainingLoopInRounds
from trainer.verify import Expected

torch.set_num_threads(1)

GAME = get_game("tic_tac_toe")
ROUND, ROUNDS = 12, 4
SETTINGS = resolve(
    self_play(simulations=8, round_games=ROUND, seed=5, random_share=0.5, random_plies=2), GAME
)
CONFIG = varied(
    TrainerConfig(),
    net="1x8",
    batch=16,
    min_positions=60,
    positions=200,
    device="cpu",
    cpu_threads=1,
    ema=0.9,
    lr=0.01,
)


class Loop:
    """Worker, server and trainer of one run, without sockets. `on_disk` survives kills, the rest does not."""

    def __init__(self, folder: Path, inference: Inference) -> None:
        folder.mkdir()
        self.folder, self.inference = folder, inference
        self.store = Store(folder / "games.db", GAME.name)
        self.weights: dict[int, bytes] = {}
        """The server's weights files, by version."""
        self.begin_training()
        self.weights[0] = self.training.publish(0)[2]

    @property
    def version(self) -> int:
        return max(self.weights)

    def begin_training(self, turn_seconds: float = 0.5) -> None:
        """Start a new trainer process."""
        self.intake = Intake(GAME, Expected.of(SETTINGS, GAME), self.store)
        rounds = Rounds(GAME, ROUND, SETTINGS.seed, StoreReader(self.folder / "games.db"))
        self.training = TrainingLoopInRounds(CONFIG, GAME, 1, "tiny", self.folder, rounds)
        self.training.fill(rounds.reader, self.store.newest)
        self.training.turn_seconds = turn_seconds

    def play(self, width: int, part: int = ROUND) -> None:
        """Let a worker play the round of the current version, `width` games at a time. The first `part` of
        them to finish reach the trainer; the others die with the worker."""
        data = [to_bytes(record) for record in asyncio.run(self._round(width))][:part]
        jobs = [Job(_uid(one), sha256(one), "workers", one) for one in data]
        done = self.intake.process(jobs, self.version).done
        assert {one.status for one in done} <= {"stored", "duplicate"}

    async def _round(self, width: int) -> list[GameRecord]:
        version = self.version
        module, meta = from_bytes(self.weights[version], game=GAME, history=1)
        self.inference.use(module, meta)

        def infer(batch: LeafBatch) -> Evaluations:
            priors, wdl = self.inference.run(batch.features, batch.counts, batch.actions)
            return Evaluations(priors, wdl, version)

        kept: list[GameRecord] = []

        async def keep(record: GameRecord) -> None:
            kept.append(record)

        evaluator, current, room = LocalEvaluator(infer, 64), CurrentVersion(), asyncio.Event()
        current.heard(WeightsInfo(version, 0, bytes(32), 1, GAME.name, "1x8"))
        room.set()
        pool = RoundPool(
            SearchPool(Forest(GAME, SETTINGS, width), evaluator), Player(0),
            current=current, keep=keep, room=room, finishing=asyncio.Event(),
        )  # fmt: skip
        await pool.play_round(version, width)
        evaluator.close()
        return kept

    def train(self, turns: int = 10**9) -> None:
        """Train until the round is trained on and its weights are with the server, or for so many turns."""
        for _ in range(turns):
            turn = self.training.turn([], 0, 0)
            if turn.version is not None and turn.version > self.version:
                version, _, data = self.training.publish(self.version)
                self.weights[version] = data
            if not turn.more:
                return


def _uid(data: bytes) -> bytes:
    from protocol.records import from_bytes as record_from

    return record_from(data).uid


def run_straight(loop: Loop) -> None:
    for _ in range(ROUNDS):
        loop.play(ROUND)
        loop.train()


def run_through_kills(loop: Loop) -> None:
    """Run several rounds. In each the worker dies half way and is slower or faster than before; the trainer
    dies after some steps, sometimes with a checkpoint within the round, sometimes only with an older one."""
    for number in range(ROUNDS):
        loop.play(width=3, part=5)
        loop.train()
        loop.begin_training(turn_seconds=-1.0)
        loop.play(width=1 + 3 * number)
        loop.train(turns=2 + number)
        if number % 2:
            loop.training.save()
        loop.train(turns=2)
        loop.begin_training()
        loop.train()


def test_killed_run_comes_to_the_same_bits(tmp_path: Path) -> None:
    """The weights files of all versions have the same hashes, and so have all games."""
    inference = Inference(GAME, 1, "cpu", threads=1)
    straight, killed = Loop(tmp_path / "a", inference), Loop(tmp_path / "b", inference)
    run_straight(straight)
    run_through_kills(killed)
    inference.close()
    hashes = [
        [hashlib.sha256(loop.weights[version]).hexdigest() for version in range(ROUNDS + 1)]
        for loop in (straight, killed)
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == ROUNDS + 1
    stores = [
        {one.uid: one.unpacked() for one in StoreReader(loop.folder / "games.db").rows(Range())}
        for loop in (straight, killed)
    ]
    assert stores[0] == stores[1]
    assert len(stores[0]) == ROUND * ROUNDS
    assert straight.training.step == killed.training.step > 10
