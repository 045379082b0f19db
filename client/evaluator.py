"""`python -m client.evaluator`: a client's evaluator for one device of its own machine.

It computes what the workers beside it put into their rings (`azselfplay.batching.loop`), with the weights
that the server announces. The event loop, which has the connection, and the evaluator's loop, which blocks,
are two threads; `PulledWeights` joins them.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import logging
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from azselfplay.batching.loop import EvaluatorLoop, Network, open_device
from azselfplay.host import aio, logs
from azselfplay.host.exits import Exit, Fatal, guarded, leave_at_once
from azselfplay.link.connection import Connection, ConnectionSettings
from azselfplay.link.keys import dial_keys
from azselfplay.link.sockets import BULK_LIMIT, new_context
from azselfplay.link.weights_downloader import WeightsDownloader
from azselfplay.link.weights_files import in_cache
from client.config import add_joining
from client.spool import run_folder
from client.warm import Run, is_same_run, read_welcome
from protocol.messages import PROTOCOL_VERSION, EvaluatorReport, Hello, LoadWeights, WeightsInfo, Welcome

log = logging.getLogger("evaluator")

WATCH_EVERY = 10.0
FIRST_LOAD, SILENCE = 600.0, 120.0
"""Longest silence of the evaluator, seconds: up to the first weights of an architecture, for which it opens
the device, may compile the network and tries batch sizes; and later. A call of the device may never
return."""


class PulledWeights:
    """The `Control` of an evaluator whose weights this process pulls itself."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[LoadWeights, concurrent.futures.Future[str]]] = (
            queue.SimpleQueue()
        )
        self._loading: concurrent.futures.Future[str] | None = None
        self._lock = threading.Lock()
        """Held while weights are added to `_waiting`, and while `_error` is set."""
        self._error: BaseException | None = None
        """What ended the evaluator."""
        self._loaded: str | None = None
        """Architecture of the weights in use; None before the first ones."""
        self._received = ""
        """Architecture of the weights received last."""
        self.last_alive = time.monotonic()
        """When the evaluator's loop was last heard of."""
        self._wake, self._woken = socket.socketpair()
        # The loops are in two threads, so one byte wakes the evaluator from its `select`.
        self._woken.setblocking(False)

    def load(self, path: Path, info: WeightsInfo) -> str:
        """Have the evaluator load a file, and wait until it has. Returns "", or why the file cannot be used;
        raises what ended the evaluator. Call it in another thread than the evaluator's, which calls all other
        methods."""
        done: concurrent.futures.Future[str] = concurrent.futures.Future()
        # The announced version counts, not the one in the file: older weights may be announced as new ones.
        weights = LoadWeights(info.version, info.sha256, str(path))
        with self._lock:
            if self._error is not None:
                raise self._error
            self._received = info.architecture
            self._waiting.put((weights, done))
        self._wake.send(b"\0")
        return done.result()

    def fileno(self) -> int:
        return self._woken.fileno()

    def receive(self) -> LoadWeights | None:
        with suppress(BlockingIOError):
            self._woken.recv(64)
        try:
            weights, self._loading = self._waiting.get_nowait()
        except queue.Empty:
            return None
        return weights

    def ready(self, network: Network) -> None:
        log.info("%s: batches of %d", network.device_name, network.target_rows)
        self.alive()

    def loaded(self, weights: LoadWeights) -> None:
        self._loaded = self._received
        self.alive()
        log.info("weights version %d are in use", weights.version)
        self._taken().set_result("")

    def refused(self, weights: LoadWeights, reason: str) -> None:  # noqa: ARG002 (the downloader logs it)
        # It goes on with the weights in use.
        if self._loaded is not None:
            self._received = self._loaded
        self._taken().set_result(reason)

    def report(self, report: EvaluatorReport) -> None:  # noqa: ARG002 (the workers count their own leaves)
        self.alive()

    def alive(self) -> None:
        self.last_alive = time.monotonic()

    def hangs(self) -> bool:
        """Return whether the evaluator has been silent for too long."""
        limit = SILENCE if self._received == self._loaded else FIRST_LOAD
        return time.monotonic() - self.last_alive > limit

    def fail(self, error: BaseException) -> None:
        """End all loads, now and later, with what ended the evaluator: the process ends only when no thread
        waits for a load any more."""
        with self._lock:
            self._error = error
        while self._loading is not None or self.receive() is not None:
            self._taken().set_exception(error)

    def _taken(self) -> concurrent.futures.Future[str]:
        """Return the future of the weights received last, which is answered once."""
        done, self._loading = self._loading, None
        assert done is not None
        return done


class ClientEvaluator:
    """Everything that this process does; `run` lasts as long as the process."""

    def __init__(self, options: argparse.Namespace, stop: aio.Stop) -> None:
        self._options = options
        self._stop = stop
        self._context = new_context()
        loop = asyncio.get_running_loop()
        self._first_welcome: asyncio.Future[Welcome] = loop.create_future()
        self._end: asyncio.Future[NoReturn] = loop.create_future()
        """Fails when this process must end. It is set by callbacks, which cannot raise."""
        self._run: Run | None = None
        self._downloader: WeightsDownloader | None = None
        name = f"{(options.name or socket.gethostname())[:100]}/evaluator-{options.index}"
        keys = dial_keys(options.server_key, options.key, "client")
        self._bulk = Connection(
            self._context,
            options.bulk,
            Hello(PROTOCOL_VERSION, "client", name, "azselfplay"),
            on_message=lambda message, frames: (
                self._downloader.on_message(message, frames) if self._downloader is not None else None
            ),
            on_joined=self._on_joined,
            on_lost=lambda _: self._downloader.lost() if self._downloader is not None else None,
            settings=ConnectionSettings(options.server, "weights", limit=BULK_LIMIT, keys=keys),
        )

    async def run(self) -> None:
        """Evaluate until the first signal, or until a Fatal."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part) for part in (self._bulk.run(), self._serve())]
                await self._stop.finishing.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._context.destroy(0)

    async def _serve(self) -> None:
        """Join, open the device, pull weights, and evaluate."""
        run = self._run = read_welcome(await self._first_welcome)
        options, game, history = self._options, run.game, run.settings.history
        control = PulledWeights()
        async with asyncio.TaskGroup() as group:
            # From here on, because the device may also hang while it is opened.
            group.create_task(watch(control))
            # Open the device in a thread, so that the session stays alive: importing torch takes seconds.
            network = await asyncio.to_thread(open_device, options.device, game, history, options.threads)
            players = options.workers, options.games
            evaluator = EvaluatorLoop(options.ring, network, game, history, control, *players)
            folder = run_folder(options.spool, game.name, run.name, run.identity) / "weights"
            self._downloader = WeightsDownloader(in_cache(folder, control.load), self._bulk.send)
            # The session began before there was a downloader.
            if self._bulk.welcome is not None:
                self._downloader.joined(self._bulk.welcome)
            loop = asyncio.get_running_loop()

            def evaluate() -> None:
                try:
                    evaluator.run()
                except BaseException as error:  # whatever ends the evaluator ends the process
                    control.fail(error)
                    loop.call_soon_threadsafe(self._fail, error)

            # The thread blocks, so it is a daemon, which ends with the process. The workers ask again for
            # what it was computing.
            threading.Thread(target=evaluate, daemon=True).start()
            group.create_task(self._downloader.run())
            await self._end

    def _fail(self, error: BaseException) -> None:
        if not self._end.done():
            self._end.set_exception(error)

    def _on_joined(self, welcome: Welcome) -> None:
        if not self._first_welcome.done():
            self._first_welcome.set_result(welcome)
            return
        if self._run is not None and not is_same_run(self._run, welcome):
            what = f"the server now plays {welcome.game} for run {welcome.run} or under other settings"
            self._fail(Fatal(f"{what}: this evaluator ends and starts again", Exit.TRY_AGAIN))
        elif self._downloader is not None:
            self._downloader.joined(welcome)


async def watch(control: PulledWeights) -> None:
    """End the process if its evaluator hangs, as azserver ends its own. Then azclient starts another one, and
    until it is ready the workers may use that of another device."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(WATCH_EVERY)
        if time.monotonic() - before > 2 * WATCH_EVERY:
            control.alive()  # this process itself stood still, and cannot judge
        if control.hangs():
            log.error("the evaluator hangs: it is started again")
            leave_at_once(Exit.TRY_AGAIN)  # a thread may wait for the device for ever


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m client.evaluator", description=__doc__)
    add_joining(parser)
    add = parser.add_argument
    add("--ring", required=True, type=Path, help="Unix socket at which workers dial")
    add("--device", required=True, help="cpu or cuda:N")
    add("--threads", type=int, default=0, help="CPU threads; 0: one per core")
    add("--workers", type=int, default=1, help="workers that will use this evaluator")
    return parser.parse_args(argv)


def main() -> int:
    """Entry point of the process."""
    options = parse()
    logs.set_up(f"evaluator-{options.index}", form=options.log_format)

    aio.run(lambda stop: ClientEvaluator(options, stop).run())
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(main))
