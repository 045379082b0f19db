"""`python -m client.worker`: one process of self-play, hundreds of games, one event loop.

The code is the same on azserver's machine and on any other. A worker keeps all its state in its spool: it may
be killed at any moment, and only unfinished games are lost.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import UNSET

from azselfplay.batching.ring import Layout
from azselfplay.host import aio, logs
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.keys import dial_keys
from azselfplay.link.sockets import BULK_LIMIT, new_context
from azselfplay.search.forest import Forest, cached_in
from azselfplay.search.pool import SearchPool
from azselfplay.search.warm import PREPARES
from client.config import add_joining
from client.metrics import REPORT_SECONDS, SEARCH, figures_line
from client.self_play import GamePool, Player
from client.sources import OwnNetworkSource, RingSource, ServerSource, Source, own_first
from client.spool import Spool, Terms, claim, run_folder
from client.uploader import Uploader
from client.warm import Run, is_same_run, read_welcome, warm_with
from net.sparse import code_name, inference_for
from protocol.messages import PROTOCOL_VERSION, GameAck, Hello, Message, WeightsInfo, Welcome

REPORT_EVERY = 60.0
"""Seconds between two log lines about progress."""
LAST_UPLOADS = 3.0
"""Seconds that a clean end waits for acknowledgements of games already sent."""
SLOTS = 32
"""Slots in a worker's ring: room for a leaf of each of its games (`MOST_GAMES`), even in slots that are a
quarter full."""
SLOW_COMPILE = 1.0
"""Preparation that takes longer than this many seconds is logged."""
log = logging.getLogger("worker")


# ---- The command line: azserver and azclient write it, people rarely do ---------------------------


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the flags. Exits with 2 and a usage line if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m client.worker",
        allow_abbrev=False,
        description="One self-play worker process. azserver and azclient start these; see azclient --help.",
    )
    add_joining(parser)
    add = parser.add_argument
    add("--leaves", default="", help="endpoint for leaves, where no evaluator of this machine is used")
    add("--role", choices=("worker", "client"), default="client")
    add("--of", type=int, default=1, help="how many workers start on its host, with this spool")
    what = "Unix sockets of this machine's evaluators, the worker's own first; azserver's workers are told"
    add("--rings", nargs="+", type=Path, default=(), help=what)
    add("--cache-mib", type=float, default=32.0, help="MiB of cached evaluations; 0: none")
    add("--max-wait", type=float, default=0.0, help="seconds to wait for the server; 0: for ever")
    add("--drain", type=float, default=0.0, help="seconds that a stop may take to finish its games")
    add("--warm-only", action="store_true", help="join, compile the server's game, leave")
    add("--figures", action="store_true", help="write a line of figures every few seconds, for azclient")
    options = parser.parse_args(argv)
    # Only azserver's own workers learn of their rings from the WELCOME.
    if not (options.leaves or options.rings or options.warm_only or options.role == "worker"):
        parser.error("where are positions evaluated? Give --leaves ENDPOINT, or --rings SOCKET")
    return options


def full_name(options: argparse.Namespace) -> str:
    """Return host and process, for people: at most 120 characters, as the protocol requires."""
    process = "preparing" if options.warm_only else options.index
    return f"{(options.name or socket.gethostname())[:100]}/{process}"


def process_name(options: argparse.Namespace) -> str:
    """Return the name of the process in log lines."""
    if options.role == "worker":
        return f"worker-{options.index}"
    return "client-preparing" if options.warm_only else f"client-{options.index}"


# ---- The process -----------------------------------------------------------------------------------


class Worker:
    """Everything that one worker process does; `run` lasts as long as the process."""

    def __init__(self, options: argparse.Namespace, stop: aio.Stop) -> None:
        self._options = options
        self._name = full_name(options)
        self._stop = stop
        self._context = new_context()
        self._closing = ExitStack()
        """What ends with `run`."""
        self._closing.callback(self._context.destroy, 0)
        self._keys = dial_keys(options.server_key, options.key, "client")
        self._hello = Hello(PROTOCOL_VERSION, options.role, self._name, "azselfplay")
        self._bulk = Connection(
            self._context,
            options.bulk,
            self._hello,
            on_message=self._on_message,
            on_joined=self._on_joined,
            on_lost=self._on_lost,
            settings=ConnectionSettings(
                options.server, "games and weights", options.max_wait, BULK_LIMIT, keys=self._keys
            ),
        )
        loop = asyncio.get_running_loop()
        self._first_welcome: asyncio.Future[Welcome] = loop.create_future()
        self._end: asyncio.Future[Fatal] = loop.create_future()
        """The reason why this process must end. It is set by a callback, which cannot raise."""
        self._tasks: list[asyncio.Task[None]] = []
        self._run: Run | None = None
        self._uploader: Uploader | None = None
        self._source: Source | None = None
        self._forest: Forest | None = None
        self._pool: GamePool | None = None
        self._evaluated_before = 0
        """Positions that the search's own network had evaluated when this session began."""
        self._server_asks = 0
        """Games in flight that the bulk port asks for, as heard last (`Source.games_to_play`)."""
        self._weights: WeightsInfo | None = None
        """The server's weights, as heard last."""

    async def run(self) -> None:
        """Work until the first signal, or until a Fatal."""

        async def watch_end() -> None:
            raise await self._end

        with self._closing:
            async with asyncio.TaskGroup() as group:
                for part in (self._bulk.run(), watch_end(), self._start(group)):
                    self._tasks.append(group.create_task(part))
                await self._stop.finishing.wait()
                await self._wind_up()
                for task in self._tasks:
                    task.cancel()

    # ---- Beginning ------------------------------------------------------------------------------

    async def _start(self, group: asyncio.TaskGroup) -> None:
        """Join, compile, open the spool, and start the games."""
        welcome = await self._first_welcome
        run = self._run = read_welcome(welcome)
        selection, code = run.settings.search.selection, code_name(run.game, run.network)
        if self._options.role == "client":
            # azclient prepares again where this is not what it has prepared for.
            print(figures_line({SEARCH: [run.game.name, selection, code]}), flush=True)
        if self._options.warm_only:
            log.info(PREPARES, run.game.name)
        # Compile in a thread, so that the session stays alive: it may take a minute.
        seconds = await asyncio.to_thread(warm_with, run.game, selection, run.network)
        if seconds > SLOW_COMPILE:
            log.info("the search of %s is ready after %.1f s", run.game.name, seconds)
        if self._options.warm_only:
            # The work is done: the code is in the cache, where the workers find it.
            self._stop.request()
            return
        # The folder is named after the run, so that games of one run are never sent to another.
        folder = run_folder(self._options.spool, run.game.name, run.name, run.identity)
        # In a thread, because this waits while another worker is starting.
        claimed = await asyncio.to_thread(claim, folder, self._options.index, self._options.of)
        folder, lock = claimed
        self._closing.enter_context(lock)
        uploader = self._uploader = Uploader(Spool(folder), self._bulk.send)
        options, own = self._options, inference_for(run.game, run.settings.history, run.network)
        # azserver's own workers learn of the rings from their WELCOME.
        told = (self._bulk.welcome or welcome).rings
        source: Source
        if own is not None:
            source = OwnNetworkSource(own, folder=folder / "weights", send=self._bulk.send)
        elif rings := options.rings or tuple(Path(path) for path in told):
            layout = Layout.of(run.game, run.settings.history, SLOTS)
            source = RingSource(own_first(rings, options.index), layout, self._name, self._on_games)
        else:
            settings = ConnectionSettings(options.server, "leaves", keys=self._keys)
            server = options.leaves, self._hello, settings
            source = ServerSource(self._context, *server, self._on_games, run)
        self._source = source
        self._closing.callback(source.close)
        for part in (uploader.run(), *source.parts()):
            self._tasks.append(group.create_task(part))
        # The session began before uploader and source existed, so tell them now.
        if self._bulk.welcome is not None:
            self._report_joined(self._bulk.welcome)
        # The number of games to play is known only after this.
        await source.ready()
        self._begin_games(group, source, uploader)

    def _begin_games(self, group: asyncio.TaskGroup, source: Source, uploader: Uploader) -> None:
        assert self._run is not None
        run, options = self._run, self._options
        player = Player(
            # A run with a seed repeats its games; without one, no two starts play the same games.
            seed=run.settings.seed or secrets.randbits(62),
            index=options.index,
            name=self._name,
            is_client=options.role == "client",
            run=run.identity,
        )
        games = options.games or source.games_to_play(self._server_asks)
        cache = cached_in(options.cache_mib, run.game)
        self._forest = Forest(run.game, run.settings, games, cache=cache, network=source.network)
        self._bulk.evaluations = lambda: self._evaluated - self._evaluated_before
        self._pool = GamePool(
            SearchPool(self._forest, source.evaluator),
            player,
            save=uploader.save,
            room=uploader.room,
            finishing=self._stop.finishing,
        )
        self._stop.waits_for = "games already sent to be acknowledged; unfinished games are given up"
        if options.drain:
            what = "its games in progress, and those not handed in yet"
            self._stop.waits_for = f"{what}, {options.drain:.0f} s at most"
        log.info(
            "playing %d games of %s at a time, evaluated by %s", games, run.game.name, source.description
        )
        self._pool.start(group, games)
        self._tasks.append(group.create_task(self._report(self._pool, source, uploader)))
        if options.figures:
            self._tasks.append(group.create_task(self._report_figures(self._pool, source, uploader)))

    @property
    def _evaluated(self) -> int:
        """Return how many positions were evaluated since the start, by the search's own network or for it."""
        if self._forest is None or self._source is None:
            return 0
        return self._forest.evaluated + self._source.leaves

    # ---- What arrives on the bulk port ----------------------------------------------------------

    def _on_joined(self, welcome: Welcome) -> None:
        # The server counts evaluations from the beginning of a session.
        self._evaluated_before = self._evaluated
        self._server_asks = welcome.games_in_flight
        if not self._first_welcome.done():
            self._first_welcome.set_result(welcome)
        self._on_weights(welcome.weights)
        # What a preparing worker has compiled is compared with the run by the workers that start after it.
        goes_on = self._run is None or self._options.warm_only or is_same_run(self._run, welcome)
        if not goes_on and not self._end.done():
            self._end.set_result(
                Fatal(
                    f"the server now plays {welcome.game} for run {welcome.run} or under other settings: "
                    "this worker ends and starts again",
                    Exit.TRY_AGAIN,
                )
            )
        # A worker that ends must not offer its kept games again under the new run's terms.
        if goes_on:
            self._report_joined(welcome)

    def _on_weights(self, info: WeightsInfo | None) -> None:
        """Note the server's weights. If they are new, forget the cached answers of the old ones: a worker
        whose leaves are all in its cache would request nothing, and never hear of the new weights from the
        evaluator."""
        before = self._weights
        self._weights = info or before
        if self._forest is not None and self._weights != before:
            self._forest.forget_evaluations()

    def _on_games(self) -> None:
        """Adopt the number of games that server or evaluator ask for, unless the user has set one."""
        if self._pool is None or self._source is None or self._options.games:
            return
        games = self._source.games_to_play(self._server_asks)
        if games != self._pool.games:
            log.info("playing %d games at a time from now on", games)
            self._pool.resize(games)

    def _report_joined(self, welcome: Welcome) -> None:
        if self._uploader is not None and self._source is not None:
            self._uploader.joined(Terms.of(welcome), trainer_present=welcome.trainer_present)
            self._source.joined(welcome)
            self._on_games()

    def _on_lost(self, _: str) -> None:
        if self._uploader is not None and self._source is not None:
            self._uploader.lost()
            self._source.lost()

    def _on_message(self, message: Message, frames: list[memoryview]) -> None:
        if self._uploader is not None and isinstance(message, GameAck):
            self._uploader.acknowledged(message)
            # The resignation threshold travels with the acknowledgements, so that all players hear of it.
            if self._pool is not None and message.resign_value is not UNSET:
                self._pool.resigning.set_threshold(message.resign_value)
            return
        if isinstance(message, WeightsInfo):
            self._on_weights(message)
            if self._uploader is not None:
                self._uploader.new_version(message.version)
        if self._source is not None:
            self._source.on_message(message, frames)

    # ---- Going on and ending --------------------------------------------------------------------

    async def _report(self, pool: GamePool, source: Source, uploader: Uploader) -> None:
        """Log a line a minute. If all leaves of that minute were cached and the evaluator was behind, empty
        the cache."""
        leaves, games, known = 0, 0, 0
        while True:
            await asyncio.sleep(REPORT_EVERY)
            hits = self._forest.cache_hits if self._forest is not None else 0
            now = self._evaluated
            why = uploader.why_no_new_games
            log.info(
                "%d games (%d in all, %d in the spool), %.0f leaves/s, %.0f from memory, "
                "weights version %d%s",
                pool.finished - games,
                pool.finished,
                uploader.spool.games,
                (now - leaves) / REPORT_EVERY,
                (hits - known) / REPORT_EVERY,
                source.evaluator.version,
                f"; no new games begin: {why}" if why else "",
            )
            # The evaluator may have loaded newer weights since; only an answer of it would tell.
            behind = self._weights is not None and source.evaluator.version != self._weights.version
            if behind and now == leaves and self._forest is not None:
                self._forest.forget_evaluations()
            # Rates count from the last line and not from the start, so that a change shows at once.
            leaves, games, known = now, pool.finished, hits

    async def _report_figures(self, pool: GamePool, source: Source, uploader: Uploader) -> None:
        """Send figures to azclient, which shows them to Prometheus: the keys are `client.metrics.PER_WORKER`.
        The last line is sent at the end, so that no game is left in progress."""
        try:
            while True:
                print(figures_line(self._figures(pool, source, uploader)), flush=True)
                await asyncio.sleep(REPORT_SECONDS)
        finally:
            print(figures_line(self._figures(pool, source, uploader)), flush=True)

    def _figures(self, pool: GamePool, source: Source, uploader: Uploader) -> dict[str, Any]:
        spool = uploader.spool
        return {
            "joined": self._bulk.is_up,
            "room": uploader.room.is_set(),
            "leaves": self._evaluated,
            "cache_hits": self._forest.cache_hits if self._forest is not None else 0,
            "games": pool.finished,
            "stored": uploader.stored,
            "in_progress": pool.in_progress,
            "version": source.evaluator.version,
            "spool_games": spool.games,
            "spool_bytes": spool.bytes,
            "kept": spool.kept,
            "rejected": spool.rejected,
        }

    async def _wind_up(self) -> None:
        """Give up unfinished games, and wait for the answers to games already sent. With --drain, finish all
        games and hand them in first."""
        if self._pool is None or self._uploader is None:
            return
        if self._options.drain and await drained(self._pool.tasks, self._uploader, self._options.drain):
            log.info("drained: %d games finished, all of them handed in", self._pool.finished)
            return
        log.info(
            "%d games finished, %d unfinished games given up", self._pool.finished, self._pool.in_progress
        )
        # Give the games up first: the wait below is only for games that were sent already.
        for task in self._pool.tasks:
            task.cancel()
        self._uploader.write_now()
        try:
            async with asyncio.timeout(LAST_UPLOADS):
                await self._uploader.quiet.wait()
        except TimeoutError:
            if lost := self._uploader.unwritten:
                log.error("%d finished games are lost: the disk does not take them", lost)
            log.info("%d games stay in the spool and will be sent next time", self._uploader.spool.games)


async def drained(games: Sequence[asyncio.Task[None]], uploader: Uploader, seconds: float) -> bool:
    """Wait until all games are finished and acknowledged, for at most `seconds`. Returns whether they are.
    The tasks in `games` must not start new games; tasks that are not done when the time is over keep
    running."""
    try:
        async with asyncio.timeout(seconds):
            if games:
                await asyncio.wait(games)
            await uploader.empty.wait()
    except TimeoutError:
        return False
    return True


def main() -> int:
    """Run the worker process."""
    options = parse()
    logs.set_up(process_name(options), form=options.log_format)

    aio.run(lambda stop: Worker(options, stop).run())
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
