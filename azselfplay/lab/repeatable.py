"""`azrun --repeatable N`: a run in one process that repeats bit by bit, however often it was killed.

    repeat: weights r -> N games by them alone -> one commit -> all steps they allow -> checkpoint

Normally timing decides the content of a training step: which games have arrived, when weights are published,
which weights answer in the middle of a game. Here only the settings decide. Game k derives its random numbers
and its uid from k and the seed of self-play. The network computes in the event loop's own thread, and the
loop never waits, so it always runs the games in the same order, and each batch has the same rows in the same
places. A round begins with an empty forest, so earlier rounds have no influence.

All state is in the store and in the checkpoint. A killed round leaves no game in the store, because its games
are committed together; the round is played again from its start. Games whose training steps are not yet in a
checkpoint are read from the store and trained on again.

The bits are the same on the same machine with the same torch and the same number of cores. Nothing is
promised across machines, nor on a GPU, so everything runs on the CPU. The alternative was the same across the
processes of a usual run; it took thirteen files, and hooks in nine others. The price of one process is speed:
games and steps take turns. For a comparison of two settings, only the seeds remain as randomness; for
strength in a given time, use azrun without `--repeatable`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from dataclasses import asdict, replace
from typing import Any

from azselfplay.diagnostics.alerts import Watch
from azselfplay.games import get_game
from azselfplay.games.spec import Game
from azselfplay.host import logs
from azselfplay.host.aio import Stop, unless_stopped
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.hardware import usable_cores
from azselfplay.host.runs import RunFolder
from azselfplay.search.evaluator import Evaluations, Evaluator, Reply, WaitingLeaves, deliver, fail
from azselfplay.search.forest import Forest
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.store.sqlite import RETRY, STORED
from client.self_play import Player, Resigning, play_game
from net.inference import Inference
from net.sparse import inference_for
from protocol.frames import LeafBatch
from protocol.messages import WeightsInfo, Welcome
from protocol.records import GameRecord, sha256, to_bytes
from server.config import ServerConfig
from server.preparation import opened_run, with_start_positions
from server.weights import WeightsStore
from trainer.checkpoint import SERVER
from trainer.config import TrainerConfig
from trainer.figures import Curves, Figures
from trainer.ingest import Job
from trainer.resign_threshold import resign_threshold
from trainer.run_setup import open_run
from trainer.train_step import prepare_thread

GAMES_AT_A_TIME = 64
"""Games in flight if the settings do not say."""

log = logging.getLogger("repeatable")


def uid_of(seed: int, games: int, number: int) -> bytes:
    """Return 16 bytes: 8 from the seed and the games of a round, then the number of the game."""
    name = f"azselfplay repeatable {seed} {games}"
    # The uid depends on settings alone, so that a store can be checked against them.
    return hashlib.sha256(name.encode()).digest()[:8] + number.to_bytes(8, "big")


class InTurns:
    """Evaluates with `inference` in the event loop's thread, after the turn of the loop in which leaves were
    submitted."""

    def __init__(self, inference: Inference, version: int) -> None:
        self.version = version
        self._inference = inference
        self._asked = WaitingLeaves()
        self._comes = False

    def submit(self, batch: LeafBatch, reply: Reply) -> None:
        self._asked.put(batch, reply)
        # Do not evaluate at once, because other games may still add their leaves to the batch in this turn of
        # the loop.
        if not self._comes:
            self._comes = True
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._comes = False
        asked, self._asked = self._asked, WaitingLeaves()
        while asked:
            batch, parts = asked.take(self._inference.max_rows)
            try:
                priors, wdl = self._inference.run(batch)
            except Exception as error:  # no search may wait forever
                fail(parts, range(batch.rows), error)
                continue
            deliver(parts, batch.counts, 0, Evaluations(priors, wdl, self.version))


class RepeatableRun:
    """An open run; `close` it at the end. Its folder is an ordinary run folder."""

    def __init__(self, server: ServerConfig, trainer: TrainerConfig, folder: RunFolder, games: int) -> None:
        """Open or begin the run in `folder`, with `games` games in a round. Raises Fatal for settings that
        cannot be repeated, and for a run that was not made this way."""
        reason = ""
        if trainer.optimizer.cosine_minutes:
            reason = "--optimizer.cosine-minutes follows the clock: use --optimizer.cosine-steps"
        elif trainer.device not in ("auto", "cpu"):
            reason = f"--device {trainer.device} of the trainer: such a run is on the CPU; leave it out"
        elif 0 < trainer.keep_games < games:
            reason = f"--keep-games {trainer.keep_games}: a round of {games} games is read back; keep as many"
        elif server.gate.mode != "alphazero":
            reason = f"gate.mode {server.gate.mode}: such a run has no gate, each network plays; leave it out"
        if reason:
            raise Fatal(f"--repeatable does not go with a setting of the run: {reason}", Exit.CONFIG)
        self.game: Game = get_game(server.game)
        self.settings = resolve(with_start_positions(server), self.game)
        self.games, self._keep_games = games, trainer.keep_games
        # This must not depend on the machine, because the batch size changes the bits of the results.
        self._at_a_time = min(games, server.games or GAMES_AT_A_TIME)
        prepare_thread(trainer.cpu_threads or usable_cores())
        weights = trainer.weights
        if weights in ("", SERVER):
            weights = str(server.weights or "")
        trainer = replace(
            trainer, device="cpu", weights=weights, runs=str(folder.path.parent), run=folder.name
        )
        welcome = Welcome(
            session=1, software="azrun", run=folder.name, game=self.game.name, run_id=folder.run_id,
            self_play=asdict(self.settings), credits=0, games_in_flight=0, heartbeat=0.0, lease=0.0,
            network=server.net,
        )  # fmt: skip
        self._run = open_run(trainer, welcome)
        self.training = self._run.training
        self._weights = WeightsStore(folder.weights, self.game.name)
        self._sparse = inference_for(self.game, self.settings.history, self.training.architecture)
        self._inference: Inference | None = None
        if self._sparse is None:
            # The batch size is given instead of measured, because a measurement would depend on how busy the
            # machine is.
            history, size = self.settings.history, self._at_a_time
            self._inference = Inference(self.game, history, "cpu", target_rows=size)
        # Raise Fatal unless the store has only whole rounds of this seed and size. Checking the newest game
        # is enough, because a round is added only to a store that passed this check.
        newest = self._run.store.last_seq
        found = self._run.reader.query("SELECT uid FROM games WHERE seq = ?", newest)
        expected = [(uid_of(self.settings.seed, self.games, newest - 1),)] if newest else []
        if newest % self.games or [(bytes(uid),) for (uid,) in found] != expected:
            raise Fatal(
                f"run {self._run.folder.name} has {newest} games that were not played with --repeatable "
                f"{self.games} and self_play.seed {self.settings.seed} from its beginning on: set both as "
                "before, or choose another --run",
                Exit.CONFIG,
            )
        self._figures = Figures(time.monotonic())
        self._figures.begin(self._run)
        self._curves = Curves(folder.tensorboard, folder.figures_log)
        self._watch = Watch(self.game, network=self.training.architecture)
        # Games after the checkpoint are trained on again (`play_and_train`).
        self.training.fill(self._run.reader, self.training.last_seq)
        self.weights = self._publish()
        """The newest weights, which play the next round."""

    def close(self) -> None:
        """Write the last figures; release the files and threads."""
        try:
            self._figures.write_last(self._run, self._curves)
        finally:
            if self._inference is not None:
                self._inference.close()
            self._run.reader.close()
            self._run.store.close()
            self._run.lock.close()

    @property
    def round(self) -> int:
        """Number of the round that comes next, and of the weights version that plays it."""
        return self.training.last_seq // self.games

    def _publish(self) -> WeightsInfo:
        """Write the weights of the next round into the run folder. After a kill they are written again, with
        the same bits."""
        self.training.version = self.round - 1
        version, step, data = self.training.export_weights(self.round - 1)
        self._figures.weights_version = version
        return self._weights.add(data, version, step, self.training.architecture)

    async def play_and_train(self) -> None:
        """Play the next round, unless the store has it, train on it, write a checkpoint, and publish. If it
        is cancelled, `close` must follow."""
        number = self.round
        first, end = number * self.games + 1, (number + 1) * self.games
        began = time.monotonic()
        if self._run.store.last_seq < end:
            jobs = []
            for record in await self._play(number):
                data = to_bytes(record)
                jobs.append(Job(record.uid, sha256(data), "workers", data))
            # All games are committed together: a round that is killed before leaves no game behind.
            for one in self._run.committer.process(jobs, number).done:
                if one.status != STORED:
                    code = Exit.DISK if one.status == RETRY else Exit.INTERNAL
                    raise Fatal(f"a game of round {number} cannot be stored: {one.reason}", code)
        reader = self._run.reader
        # Read the games back even if they were just played, because a continued run reads the same bytes.
        records = [record for _, record in reader.records_of(self.game, range(first, end + 1))]
        if len(records) < self.games:
            raise Fatal(
                f"games of round {number} are damaged in {reader.path}: restore it from a backup",
                Exit.BAD_DATA,
            )
        ((positions,),) = reader.query("SELECT sum(CAST(plies AS INTEGER)) FROM games WHERE seq <= ?", end)
        played = time.monotonic()
        self._watch.on_games(records, number)
        turns = [self.training.turn(records, end, positions)]
        while turns[-1].more:
            await asyncio.sleep(0)  # for signals
            turns.append(self.training.turn([], end, positions))
        self.training.save()
        self.weights = self._publish()
        now = time.monotonic()
        self._figures.on_weights(self.training)
        for turn in turns:
            self._figures.on_turn(turn, now)
        self._curves.write(self._figures.refresh(self._run, self._watch, self._keep_games, now), now)
        log.info(
            "round %d: %d games in %.1f s, then up to step %d in %.1f s%s",
            *(number, self.games, played - began, turn.step, now - played),
            "" if turn.figures is None else f" (policy loss {turn.figures.policy_loss:.4f})",
        )

    # ---- A round of games ------------------------------------------------------------------------

    async def _play(self, number: int) -> list[GameRecord]:
        """Return the games of a round in the order of their numbers."""
        evaluator: Evaluator
        version, path = self.weights.version, self._weights.path(self.weights)
        if self._sparse is not None:
            self._sparse.load(path, version=version)
            evaluator = self._sparse
        else:
            assert self._inference is not None
            self._inference.load(path)
            evaluator = InTurns(self._inference, version)
        # Each round gets a new forest: subtrees kept from the last round would be missing after a kill.
        forest = Forest(self.game, self.settings, self._at_a_time, network=self._sparse)
        searches = SearchPool(forest, evaluator)
        resigning = Resigning(self.settings)
        if self.settings.resignation.mistakes:
            newest = number * self.games
            safe = resign_threshold(self.settings, self.game, self._run.reader, newest)
            resigning.set_threshold(safe.threshold)
        numbers = iter(range(number * self.games, (number + 1) * self.games))
        played: dict[int, GameRecord] = {}

        async def play_on() -> None:
            player = Player(self.settings.seed)
            for one in numbers:  # shared: each free task takes the next game
                uid = uid_of(player.seed, self.games, one)
                record = await play_game(
                    searches, player.rng(one), player=player, uid=uid, resigning=resigning
                )
                played[one] = replace(record, seconds=0.0)  # the time a game took would differ between runs

        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_a_time):
                group.create_task(play_on())
        return [played[one] for one in sorted(played)]


class Repeatable:
    """Runs azrun with `--repeatable`: round after round until the time is over or a signal comes."""

    def __init__(self, server: ServerConfig, trainer: TrainerConfig, games: int, minutes: float) -> None:
        self._server, self._trainer, self._games, self._minutes = server, trainer, games, minutes
        self.summary: dict[str, Any] = {}
        """The last line of output, for programs."""

    async def main(self, stop: Stop) -> None:
        """Run the rounds; an unfinished round is discarded at the end. Raises Fatal."""
        stop.waits_for = "nothing: an unfinished round is played again next time"
        deadline = time.monotonic() + 60 * self._minutes if self._minutes else float("inf")
        history = self._server.self_play.history or get_game(self._server.game).history
        with opened_run(self._server, history, listens=False) as folder:
            logs.set_up("azrun", folder.logs / "azrun.log")
            run = RepeatableRun(self._server, self._trainer, folder, self._games)
            try:
                while not stop.finishing.is_set() and time.monotonic() < deadline:
                    await unless_stopped(run.play_and_train(), stop)
                if stop.finishing.is_set():
                    log.info("round %d is not finished; it is made again next time", run.weights.version)
                self.summary = {
                    "games": run.weights.version * self._games,
                    "steps": run.weights.step,
                    "version": run.weights.version,
                    "weights_sha256": run.weights.sha256.hex(),
                }
            finally:
                run.close()
