"""The trainer as a process: one connection, and tasks that pass work to threads and take the results.

games in      -> committer thread: decode, verify, commit -> acknowledge, hand to training
training      -> training thread: window, steps, weights, checkpoints
weights out   -> `trainer.weights`
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from msgspec import UNSET

from azselfplay.diagnostics.alerts import Watch
from azselfplay.host.aio import Stop, unless_stopped
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.folders import own_folder
from azselfplay.host.metrics import Monitor
from azselfplay.host.runs import RunFolder, reach
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.rate_limit import RateLimit, TokenBucket
from azselfplay.link.sockets import BULK_LIMIT, new_context
from azselfplay.store import archive
from azselfplay.store.sqlite import REJECTED
from protocol.errors import Code
from protocol.messages import Goodbye, Hello, Message, RelayGame, TrainerStatus, Welcome, encode
from protocol.records import GameRecord
from trainer import checkpoint
from trainer.checkpoint import SERVER, why_no_takeover
from trainer.config import TrainerConfig
from trainer.figures import Curves, Figures, log_line, watched
from trainer.ingest import Committed, IngestTable, Job
from trainer.ranks import Ranks
from trainer.resign_threshold import resign_threshold
from trainer.run_setup import Run, has_checkpoint, open_run, settings_of
from trainer.train_step import prepare_thread, short_of_memory
from trainer.weights import SAVE_AGAIN, ServerWeights, WeightsOut

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

JOBS_PER_COMMIT = 256
"""Most games checked and committed together without an archive (with one: `archive.GAMES`); those that arrive
meanwhile make the next batch."""
WATCHED = RateLimit(rate=64, burst=256)
"""Games that alerts and figures look at. A sample of many games says as much as all of them, and looking at
350 games a second took half of the event loop's time beside a GPU."""
FRESH_LIMIT = 8192
"""Stored games that may wait for the training thread before new ones are sent back."""
GAMES_PER_FILL = 1000
"""Stored games read at a time while the window is filled. Queries are short, because SQLite's write-ahead log
would grow during a long one."""
CATCH_UP = 2048
"""Once the window is at most this many games behind the store, new games wait for it in memory instead."""
STATUS_SECONDS = 2.0
LOG_SECONDS = 30.0


class Service:
    """Everything that runs in the event loop's thread."""

    def __init__(self, config: TrainerConfig, hello: Hello, ranks: Ranks | None = None) -> None:
        """`ranks` as for `TrainStep`."""
        self._config = config
        self._ranks = ranks or Ranks()
        address = config.address()
        self._connection = Connection(
            new_context(),
            address.bulk,
            hello,
            on_message=self._on_message,
            on_joined=self._on_joined,
            on_lost=self._on_lost,
            on_unreadable=self._on_unreadable,
            settings=ConnectionSettings(address.server, limit=BULK_LIMIT, hwm=1024, keys=address.keys),
        )
        self._connection.on_not_now = self._on_not_now
        self._ingest = IngestTable()
        self._jobs: deque[Job] = deque()
        """Games to check; the ingest table bounds their number."""
        self._new_games: deque[tuple[GameRecord, str]] = deque()
        """Games that training has not seen yet, with their players."""
        self._last_seq = 0
        self._new_games_wait = False
        """Whether newly stored games wait for training in memory, in `_new_games` (`_fill`)."""
        self._gated = False
        """Whether a gate tests new weights first. If so, games may lag behind the published weights."""
        self._stopping = False
        """Whether new games are sent back, because the trainer is ending."""
        self._server_weights = ServerWeights(self._connection.send)
        self._has_games = asyncio.Event()
        self._has_work = asyncio.Event()
        self._saved = asyncio.Event()
        """Set when there is a checkpoint that is not archived yet."""
        self._joined: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        """The first WELCOME."""
        # Threads of their own: games are committed and acknowledged while a step computes.
        self._commits = ThreadPoolExecutor(1, "committer")
        self._training_thread = ThreadPoolExecutor(
            1, "training", initializer=prepare_thread, initargs=(config.threads(),)
        )
        self._upload_thread = ThreadPoolExecutor(1, "upload")
        self._watched = TokenBucket(WATCHED, time.monotonic())
        self._commit_since: float | None = None
        """When the present commit began."""
        self._figures = Figures(time.monotonic())
        self._weights = WeightsOut(config, self._connection, self._figures, self)

    async def main(self, stop: Stop) -> None:
        """Train until asked to stop."""
        stop.waits_for = "the last commit, the last weights and a checkpoint"
        with Monitor(self._config.metrics_listen, self._config.metrics_port) as monitor:
            async with asyncio.TaskGroup() as group:
                connection = group.create_task(self._connection.run())
                # The server may come much later, and a stop must not wait for it.
                welcome = await unless_stopped(asyncio.shield(self._joined), stop)
                if welcome is not None and not stop.finishing.is_set():
                    over = Stop()
                    group.create_task(self._ranks.run(over))
                    run = await self._open(welcome, stop)
                    if run is not None:
                        monitor.watched = watched(self._figures, run, lambda: self._connection.is_up)
                        await self._work(group, run, stop)
                    over.request()
                connection.cancel()
        self._commits.shutdown()
        self._training_thread.shutdown()
        self._upload_thread.shutdown()

    async def _open(self, welcome: Welcome, stop: Stop) -> Run | None:
        """Return the run, which begins with the server's weights if requested and without a checkpoint; None
        when the stop comes first."""
        folder = RunFolder(self._config.runs, self._config.run or welcome.run)
        # With a checkpoint nothing is asked of the server, whose weights may be lost or damaged.
        if self._config.weights != SERVER or await self.in_training_thread(
            has_checkpoint, self._config, folder
        ):
            return await self.in_training_thread(open_run, self._config, welcome, self._ranks, "")
        with own_folder() as own:
            file = await self._server_weights.file(welcome, own, stop)
            if file is None:
                return None
            return await self.in_training_thread(open_run, self._config, welcome, self._ranks, str(file))

    async def _work(self, group: asyncio.TaskGroup, run: Run, stop: Stop) -> None:
        """Work until asked to stop; then finish what is in progress and write a checkpoint."""
        # Until the first turn, the figures show the checkpoint.
        self._figures.begin(run)
        self._weights.begin(run.training.step, time.monotonic())
        self._figures.resignation = run.resignation.as_dict()
        self._last_seq = run.store.last_seq
        curves = Curves(run.folder.tensorboard, run.folder.figures_log)
        watch = Watch(run.game, network=run.training.architecture)
        tasks = [
            group.create_task(self._take_games(run, watch, stop)),
            group.create_task(self._fill_and_train(run, stop)),
        ]
        reporting = group.create_task(self._report(run, watch, curves))
        uploading = group.create_task(self._upload_checkpoints(run))
        # The first turn needs no new game: the window is filled from the store.
        self._has_work.set()
        await stop.finishing.wait()
        self._stopping = True
        # Both tasks may be waiting for work: wake them, so that they see the stop.
        self._has_games.set()
        self._has_work.set()
        await asyncio.wait(tasks)
        # Publish before the checkpoint, which must contain the newest offered version.
        await self._weights.publish_last(run)
        reporting.cancel()
        uploading.cancel()
        is_saved = await self.save(run)
        await self._upload(run)
        await self.in_training_thread(self._ranks.end)
        self._figures.write_last(run, curves)
        run.reader.close()
        run.store.close()
        # Closed last: until here no other trainer may take the folder.
        run.lock.close()
        if not is_saved:
            raise Fatal("stopped without a checkpoint of the last steps: the disk did not take it", Exit.DISK)
        log.info("stopped at step %d with a checkpoint", run.training.step)

    # ---- the connection ----

    def _on_joined(self, welcome: Welcome) -> None:
        if not self._joined.done():
            self._joined.set_result(welcome)
        first = self._joined.result()
        # Another run on the same port: its games must not enter this window.
        if (first.game, first.run, first.run_id) != (welcome.game, welcome.run, welcome.run_id):
            raise Fatal(
                f"the server runs {welcome.run} ({welcome.game}, {welcome.run_id.hex()}) now, this trainer "
                f"belongs to {first.run} ({first.game}, {first.run_id.hex()}); start a new trainer",
                Exit.BAD_DATA,
            )
        if settings_of(first) != settings_of(welcome):
            raise Fatal(
                f"games of run {first.run} are played under other settings now: this trainer ends, and the "
                "next one checks games by them",
                Exit.TRY_AGAIN,
            )
        # A restarted server may have another gate.
        self._gated = welcome.gated
        self._server_weights.joined(welcome)
        self._weights.joined(welcome, time.monotonic())

    def _on_not_now(self, goodbye: Goodbye) -> None:
        """Log now what would end this trainer at the takeover: by then nobody may be there to read it. Raises
        Fatal(TRY_AGAIN) if it has lost its place to a trainer that goes on with its archive."""
        if goodbye.code != Code.TRAINER_ALREADY_PRESENT:
            return
        if self._joined.done() and self._config.archive:
            text = "another trainer has taken over; the next start reads back what that one has archived"
            raise Fatal(text, Exit.TRY_AGAIN)
        if reason := why_no_takeover(self._config):
            log.warning("%s", reason)

    def _on_lost(self, _: str) -> None:
        self._server_weights.lost()
        self._weights.lost()

    def _on_message(self, message: Message, frames: list[memoryview]) -> None:
        if self._server_weights.on_message(message, frames):
            return
        if isinstance(message, RelayGame):
            if len(frames) != 1:
                self._on_unreadable(encode(message), f"a game of {len(frames)} frames, expected 1")
                return
            has_room = not self._stopping and len(self._new_games) < FRESH_LIMIT
            found = self._ingest.on_game(message, bytes(frames[0]), has_room=has_room)
            if isinstance(found, Job):
                self._jobs.append(found)
                self._has_games.set()
            elif found is not None:
                self._connection.send(found)
        elif not self._weights.on_message(message, time.monotonic()):
            log.debug("nothing to do with a %s", type(message).__name__)

    def _on_unreadable(self, header: bytes | memoryview, reason: str) -> None:
        answer = self._ingest.on_unreadable(header, reason)
        if answer is not None:
            log.error("a game's message cannot be read, so the game is sent again: %s", reason)
            self._connection.send(answer)

    # ---- games in ----

    async def _take_games(self, run: Run, watch: Watch, stop: Stop) -> None:
        # Until the last job: games accepted before the stop are still stored and answered.
        while not stop.finishing.is_set() or self._jobs:
            await self._has_games.wait()
            self._has_games.clear()
            previous: list[GameRecord] = []
            while self._jobs:
                begun = time.monotonic()
                result = await self._commit(run, watch, previous)
                previous = self._note_committed(run, result)
                # Acknowledge only now: the commit has returned, so the games survive a power loss.
                self._acknowledge(run, result)
                self._hand_to_training(result)
                if run.archive is not None:
                    await asyncio.sleep(max(0.0, begun + archive.SECONDS - time.monotonic()))
            self._watch_games(watch, previous)

    async def _commit(self, run: Run, watch: Watch, previous: list[GameRecord]) -> Committed:
        """Commit the jobs that wait. Meanwhile the alerts look at the games of the commit before."""
        most = JOBS_PER_COMMIT if run.archive is None else archive.GAMES
        jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), most))]
        # `server_version` counts too: after a return to an older checkpoint, the server's weights are newer
        # than ours, and WELCOME names them before their first game comes.
        newest = max(run.training.version, self._weights.server_version, run.committer.newest_version)
        begun = self._commit_since = time.monotonic()
        loop = asyncio.get_running_loop()
        commit = loop.run_in_executor(self._commits, run.committer.process, jobs, newest)
        # Do this while the thread waits for the disk and the archive.
        self._watch_games(watch, previous)
        result = await commit
        self._commit_since = None
        self._figures.commits.observe(time.monotonic() - begun)
        return result

    def _note_committed(self, run: Run, result: Committed) -> list[GameRecord]:
        """Return the games of players who are not in quarantine, after the threshold of resignation and the
        figures have counted the commit."""
        # Games of players in quarantine are stored and acknowledged like all others, but not learned from.
        quarantined = run.training.quarantine.players
        played = zip(result.games, result.players, strict=True)
        trusted = [record for record, player in played if player not in quarantined]
        for record in trusted:
            run.resignation.on_game(record)
        self._figures.resignation = run.resignation.as_dict()
        self._figures.answered.update(done.status for done in result.done)
        for done in result.done:
            if done.status == REJECTED:
                log.warning("refused a game, and kept it among the `rejects`: %s", done.reason)
        return trusted

    def _acknowledge(self, run: Run, result: Committed) -> None:
        resign_value = run.resignation.threshold if run.resignation.is_on else UNSET
        for message in self._ingest.on_done(result.done, resign_value):
            if not self._connection.send(message):
                text = "%d acknowledgements were lost; those games will be sent again"
                log.warning(text, len(message.acks))
            reach("trainer.acknowledged")

    def _hand_to_training(self, result: Committed) -> None:
        # Until the window is filled, `_fill` reads new games from the store.
        if self._new_games_wait:
            self._new_games.extend(zip(result.games, result.players, strict=True))
        if result.old:
            log.warning("%d games are stored but not trained on: see --samples.stale-versions", result.old)
        self._last_seq = result.last_seq
        self._has_work.set()

    def _watch_games(self, watch: Watch, games: list[GameRecord]) -> None:
        now = time.monotonic()
        if self._watched.wait(now):
            return  # while too many games come, whole commits are left out
        # Of a commit that is larger than the burst, every second game, or every third, and so on.
        sample = games[:: max(1, math.ceil(len(games) / WATCHED.burst))]
        self._watched.take(now, len(sample))
        # With a gate it is normal that games lag behind the newest weights.
        watch.on_games(sample, 0 if self._gated else self._weights.server_version)

    # ---- training and weights out ----

    async def _fill_and_train(self, run: Run, stop: Stop) -> None:
        """Fill the window and train. Whenever the quarantine changes, fill the window again and find the
        threshold of resignation anew, as at the start."""
        while not stop.finishing.is_set():
            self._new_games_wait = False
            self._new_games.clear()  # `_fill` reads these games from the store
            before = run.training.quarantine.players
            await self.in_training_thread(run.training.apply_quarantine, run.reader)
            if run.training.quarantine.players != before:
                # The archive learns of a quarantine by a checkpoint.
                if run.training.has_checkpoint:
                    await self.save(run)
                # The samples of these players are no longer, or again, among those allowed.
                self._figures.paces.clear()
                # The few games that come meanwhile do not count.
                run.resignation = await self.in_training_thread(
                    resign_threshold, settings_of(self._joined.result()), run.game, run.reader, self._last_seq
                )
                self._figures.resignation = run.resignation.as_dict()
            # While the window is filled again, the figures say so.
            self._figures.step, self._figures.turn = run.training.step, None
            await self._fill(run, stop)
            await self._train(run, stop)

    async def _fill(self, run: Run, stop: Stop) -> None:
        """Fill the window from the store. Games that arrive meanwhile are committed and acknowledged as
        usual.

        They are read from the store in their turn, however many there are. Only near the end, when at most
        CATCH_UP games are missing, new games begin to wait in memory for training, as they do from then on.
        """
        # `_last_seq` advances with each commit.
        up_to, positions = self._last_seq, 0
        while not stop.finishing.is_set():
            self._figures.loaded = positions
            are_read = await self.in_training_thread(run.training.fill, run.reader, up_to, GAMES_PER_FILL)
            positions = run.training.window.positions
            if not are_read:
                continue
            if self._new_games_wait:
                log.info("%d positions are in the window", positions)
                return
            # When few games are missing, later ones wait in memory: then the next round is the last.
            self._new_games_wait = self._last_seq - up_to <= CATCH_UP
            up_to = self._last_seq

    async def _train(self, run: Run, stop: Stop) -> None:
        saved_step, save_at = run.training.step, time.monotonic() + self._config.publishing.checkpoint_seconds
        while not stop.finishing.is_set():
            await self._has_work.wait()
            self._has_work.clear()
            if not await self.in_training_thread(run.training.is_quarantine_current, run.reader):
                log.warning("the quarantine has changed: the window is filled again")
                return
            # Take the games that are there now; the event loop may add others while the thread works.
            came = [self._new_games.popleft() for _ in range(len(self._new_games))]
            games, players = [record for record, _ in came], [player for _, player in came]
            last_seq, positions = self._last_seq, run.store.totals.positions
            turn = await self.in_training_thread(run.training.turn, games, last_seq, positions, players)
            self._figures.on_turn(turn, time.monotonic())
            # More steps are allowed already: the next turn needs no new game.
            if turn.more:
                self._has_work.set()
            await self._weights.publish_if_due(run, turn)
            now = time.monotonic()
            if turn.step > saved_step and now >= save_at:
                pause = self._config.publishing.checkpoint_seconds
                if await self.save(run):
                    saved_step = turn.step
                else:
                    # A full disk may have room soon.
                    pause = min(pause, SAVE_AGAIN)
                save_at = now + pause

    # ---- figures ----

    async def _report(self, run: Run, watch: Watch, curves: Curves) -> None:
        next_line = time.monotonic()
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            now = time.monotonic()
            lasts = 0.0 if self._commit_since is None else now - self._commit_since
            figures = self._figures.refresh(run, watch, self._config.keep_games, now, lasts)
            self._connection.send(TrainerStatus(figures))
            if self._figures.turn is not None:  # until then the window and its figures are incomplete
                curves.write(figures, now)
            if now >= next_line:
                log.info("%s", log_line(figures))
                next_line = now + LOG_SECONDS
            self._weights.tick(now)
            # Weights and checkpoints may be due even if no game has arrived.
            self.wake()

    # ---- background, for `trainer.weights` ----

    def wake(self) -> None:
        """Make training check what is due."""
        self._has_work.set()

    async def save(self, run: Run) -> bool:
        """Write a checkpoint. Returns False when the disk does not take it. A full disk must not stop
        training: the games and the previous checkpoint are safe."""
        try:
            await self.in_training_thread(run.training.save)
        except Fatal as fatal:
            if fatal.code != Exit.DISK:
                raise
            log.error("%s", fatal)
            return False
        self._saved.set()
        return True

    async def _upload_checkpoints(self, run: Run) -> None:
        """Archive each new checkpoint, or only the newest if they come faster than they are archived."""
        while True:
            await self._saved.wait()
            self._saved.clear()
            await self._upload(run)

    async def _upload(self, run: Run) -> None:
        """Archive the newest checkpoint. A failure is only logged: the games are archived, and the next
        checkpoint is tried."""
        if run.archive is None:
            return
        loop, folder = asyncio.get_running_loop(), run.folder.checkpoints
        try:
            await loop.run_in_executor(self._upload_thread, checkpoint.upload, run.archive, folder)
        except OSError as error:
            log.warning("the checkpoint of step %d is not archived: %s", run.training.step, error)

    async def in_training_thread(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return the result of a call in the training thread. Raises Fatal as `short_of_memory`."""
        loop = asyncio.get_running_loop()
        with short_of_memory():
            return await loop.run_in_executor(self._training_thread, function, *arguments)
