"""The engine as a process: it reads standard input, carries out a protocol's orders, and writes standard
output.

`EngineConfig` has the settings that all engines share, and `serve` runs a protocol until it ends. The
`Driver` carries out orders on an event loop. Work that would block the loop has its own thread: reading and
writing pipes, and preparing (loading the network and compiling its search takes up to a minute, in which the
GUI must still get answers). The threads are daemons, so that the process can end without waiting for the
other side of a pipe or for a compiler.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from msgspec import Meta
from tyro.conf import Positional

from azselfplay.host import aio
from azselfplay.host.exits import Exit, Fatal, guarded, leave_at_once, require
from azselfplay.link.finding import RUNS, weights_named
from azselfplay.play.orders import (
    TOO_LONG,
    Engine,
    Order,
    Prepare,
    Quit,
    Say,
    SetDeadline,
    Setup,
    Start,
    StopSearch,
)
from protocol.settings import Count, Positive, Seed

if TYPE_CHECKING:
    from azselfplay.play.thinker import Thinker, Thinking

T = TypeVar("T")


@dataclass(frozen=True)
class EngineConfig:
    """Settings of every engine."""

    network: Positional[str] = ""
    """A run, by its folder or its name in --runs (its newest network is used), or a weights file. Empty: an
    untrained network, which only knows the rules."""
    runs: Path = RUNS
    """Folder of all runs."""
    device: str = "cpu"
    """Device of the network: cpu, cuda, cuda:1."""
    threads: Count = 0
    """CPU threads of the network; 0: one per core."""
    hash: Positive = 256
    """MiB of the search tree."""
    leaves: Count = 0
    """Most positions evaluated in one batch; 0: as many as suit the device."""
    search: str = ""
    """puct, gumbel, thompson, or such as gumbel?gumbel_c_scale=0.1; empty: the one that plays best, with
    `solver` and `look_ahead` if the file is in a run that has them."""
    nodes: Annotated[int, Meta(ge=0, le=10**9)] = 0
    """Simulations per move when the GUI gives no number; 0: no limit (gumbel: 800)."""
    seed: Seed = 0
    """Seed of the untrained network, and of moves drawn with a temperature."""

    def resolved(self) -> Self:
        """Return the same settings, with the network's file as `network`. Raises Fatal(BAD_DATA) if there is
        none."""
        return replace(self, network=str(weights_named(self.network, self.runs))) if self.network else self

    @property
    def weights(self) -> Path | None:
        """The network's file, in settings that are `resolved`."""
        return Path(self.network) if self.network else None

    @property
    def network_name(self) -> str:
        """The network's name for people."""
        return self.weights.resolve().stem if self.weights else "untrained tiny"

    def setup(self, game: str) -> Setup:
        """Return the set-up of the command line."""
        return Setup(
            weights=self.network,
            backend=self.device,
            threads=self.threads,
            hash_mib=self.hash,
            leaves=self.leaves,
            search=self.search,
            game=game,
        )


def serve(make: Callable[[], Engine], settings: EngineConfig, first: Sequence[Order] = ()) -> int:
    """Speak a protocol on standard input and output until it ends. Returns the exit code. The orders in
    `first` are carried out before the first line."""
    require("train", "an engine")

    async def main(stop: aio.Stop) -> None:
        say = partial(print, flush=True)
        driver = Driver(make(), lambda wanted: prepare(wanted, settings.seed, settings.runs), say, stop)
        await driver.run(Input(sys.stdin.fileno(), MOST_LINE_BYTES), first)

    def run() -> int:
        aio.run(main)
        return 0

    code = guarded(run)
    # This comes after `guarded`, so that an error message is printed before the process is cut off.
    leave_if_preparing(code)
    return code


MOST_LEAVES = 128
"""Leaves in flight, unless the option asks for more."""


def prepare(setup: Setup, seed: int, runs: Path = RUNS) -> Thinker:
    """Load the network, make the tree and compile the kernels. Raises Fatal if the weights cannot be used.

    This takes seconds, or a minute when nothing is compiled yet: run it in a thread.
    """
    from azselfplay.games import get_game
    from azselfplay.play.nets import (  # numpy, and perhaps torch: not on the way to --help
        check_fits,
        load_net,
        settings_for_search,
    )
    from azselfplay.play.syzygy import open_tables
    from azselfplay.play.thinker import Thinker

    game = get_game(setup.game)
    tables = open_tables(game, setup.syzygy_path) if setup.syzygy_path else None
    weights = None if not setup.weights else weights_named(setup.weights, runs)
    # A trained network may be for another variant with the same board; `check_fits` decides whether it fits.
    wanted = "" if weights else game.name
    net = load_net(weights, wanted, device=setup.backend, threads=setup.threads, seed=seed)
    try:
        check_fits(net, game)
        # More leaves in flight than the device's batch would only make the search less focused.
        leaves = setup.leaves or min(MOST_LEAVES, net.target_rows)
        settings = settings_for_search(setup.search, game, weights)
        thinker = Thinker(net, setup.hash_mib, leaves, seed, settings, game, tables)
    # The GUI's Hash option may ask for more memory than there is.
    except MemoryError as error:
        net.close()
        raise Fatal(f"not enough memory for Hash {setup.hash_mib} MiB: choose less", Exit.CONFIG) from error
    except Fatal:
        net.close()
        raise
    thinker.warm_up()
    return thinker


MOST_LINE_BYTES = 1 << 16
"""Most bytes in a line; the moves of the longest games take a tenth of it."""

PREPARING: set[Future[Any]] = set()
"""Calls of `in_thread` that have not ended."""

PATIENCE = 1.0
"""Seconds of preparation after which the protocol may say that the preparation takes a while."""


class Driver:
    """Carries out the orders of `engine`, one search at a time. `prepare` makes a Thinker, in a thread. A
    running search still prints its best move after a `stop`."""

    def __init__(
        self,
        engine: Engine,
        prepare: Callable[[Setup], Thinker],
        say: Callable[[str], None],
        stop: aio.Stop,
    ) -> None:
        self._engine = engine
        self._prepare = prepare
        self._say = say
        self._thinker: Thinker | None = None
        self._thinking: Thinking | None = None
        self._stop = stop
        self._quit = asyncio.Event()
        self._preparation: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def run(self, lines: Input, first: Iterable[Order] = ()) -> None:
        """Carry out the orders in `first`, then answer `lines` until `quit`, the end of input or the stop.

        Raises Fatal if the network of the command line cannot be used.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._carry_out(first)
            reading = group.create_task(self._feed(lines))
            # Not one event for both: a first signal after `quit` would count as the second one.
            ends = [group.create_task(event.wait()) for event in (self._quit, self._stop.finishing)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (*ends, reading):
                task.cancel()
            # A thread cannot be cancelled, but nobody waits for it any more (`leave_if_preparing`).
            if self._preparation is not None:
                self._preparation.cancel()
            if self._thinking is not None:
                self._thinking.stop()
        if self._thinker is not None:
            self._thinker.close()

    async def _feed(self, lines: Input) -> None:
        loop = asyncio.get_running_loop()
        while (together := await lines.lines()) is not None:
            for line in together:
                text = TOO_LONG if line is None else line.decode("utf-8", errors="replace")
                self._carry_out(self._engine.feed(text, loop.time()))
            # A protocol that answers commands one by one leaves further input in the pipe. This slows the
            # writer down, and no lines pile up here.
            while not self._engine.takes_input:
                self._changed.clear()
                await self._changed.wait()
        # A controller that died has sent no `quit`, but the engine must not outlive it.
        self._carry_out(self._engine.feed("quit", loop.time()))

    def _carry_out(self, orders: Iterable[Order]) -> None:
        # The event behind these orders may have made room for input.
        self._changed.set()
        for order in orders:
            if isinstance(order, Say):
                self._say(order.text)
            # After the end, the best move is still printed, but no new work begins.
            elif self._quit.is_set() or self._stop.finishing.is_set():
                continue
            elif isinstance(order, Prepare):
                self._preparation = self._group.create_task(self._make_ready(order.setup))
            elif isinstance(order, Start):
                from azselfplay.play.thinker import Thinking

                request = order.request
                if request.from_start:
                    request = replace(request, began=asyncio.get_running_loop().time())
                self._thinking = Thinking(request)
                self._group.create_task(self._think(self._thinking))
            elif isinstance(order, StopSearch) and self._thinking is not None:
                self._thinking.stop()
            elif isinstance(order, SetDeadline) and self._thinking is not None:
                self._thinking.set_deadline(order.until)
            elif isinstance(order, Quit):
                self._quit.set()

    async def _think(self, thinking: Thinking) -> None:
        assert self._thinker is not None, "the machine prepares before it starts"
        found = await self._thinker.think(
            thinking, lambda report: self._carry_out(self._engine.reported(report))
        )
        # Reset this before the engine is told, because the engine may start the next search at once.
        self._thinking = None
        self._carry_out(self._engine.searched(found, asyncio.get_running_loop().time()))

    async def _make_ready(self, setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        # A GUI may take long silence for a hang. Most preparations end at once and need no message.
        patience = loop.call_later(PATIENCE, lambda: self._carry_out(self._engine.still_preparing()))
        try:
            thinker = await in_thread(lambda: self._prepare(setup))
        except Fatal as error:
            # A wrong NETWORK ends the process; a wrong option from the GUI is only reported to the GUI.
            if self._thinker is None and setup == self._engine.first_setup:
                raise
            self._preparation = None
            self._carry_out(self._engine.preparation_failed(str(error), loop.time()))
            return
        finally:
            patience.cancel()
        # Close the old tree only now: if the new options had failed, it would still be needed.
        if self._thinker is not None:
            self._thinker.close()
        self._thinker, self._preparation = thinker, None
        self._carry_out(self._engine.prepared(setup, loop.time()))


class DaemonThread:
    """Runs blocking calls one after the other. Made and used on the event loop.

    This is no executor, because the interpreter waits for an executor's threads before it ends.
    """

    def __init__(self, name: str) -> None:
        self._jobs = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Call `work()` after the calls that were already requested."""
        future = Future[T]()
        self._jobs.put((work, future))
        return future

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work()`, or raise its exception."""
        return await asyncio.wrap_future(self.submit(work))

    def end(self) -> None:
        """End the thread after the calls that were already requested."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, future = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            # Pass any exception on to the task that awaits the result.
            except BaseException as error:
                future.set_exception(error)


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work()` in a thread of its own that does not delay the end of the process. A command that uses
    this ends with `leave_if_preparing`."""
    thread = DaemonThread("preparation")
    call = thread.submit(work)
    PREPARING.add(call)
    call.add_done_callback(PREPARING.discard)
    thread.end()
    return await asyncio.wrap_future(call)


def leave_if_preparing(code: int) -> None:
    """End the process with `code` if a call of `in_thread` has not ended, because its compiler would abort
    when the interpreter shuts down. Call this when everything else has ended."""
    if PREPARING:
        if code == Exit.OK:  # otherwise a message was already printed
            print("ended while the search was being prepared", file=sys.stderr)
        leave_at_once(code)


InputLine = bytes | None
"""A line without its newline; None for a line over the limit, which was dropped."""

CHUNK = 64 * 1024
"""Bytes read at once."""


class LineSplitter:
    """Splits a stream at its newlines and never holds more than `limit` bytes of an unfinished line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = b""
        self._is_first = True

    def feed(self, data: bytes) -> list[InputLine]:
        """Return the lines that `data` completes, without their newlines."""
        # The last piece waits for its newline.
        *ended, begun = (self._partial + data).split(b"\n")
        # One byte more than the limit tells that a line is too long; the rest of it costs no memory.
        self._partial = begun[: self._limit + 1]
        lines: list[InputLine] = [line if len(line) <= self._limit else None for line in ended]
        if lines and self._is_first:
            lines[0] = lines[0] and lines[0].removeprefix(codecs.BOM_UTF8)  # some Windows programs write one
            self._is_first = False
        return lines

    def finish(self) -> list[InputLine]:
        """Return the last line, if the stream ended without a newline."""
        return self.feed(b"\n") if self._partial else []


class Input:
    """Lines of a file descriptor. Made and used on the event loop."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(limit)
        self._thread = DaemonThread("stdin")
        self._has_ended = False

    async def lines(self) -> list[InputLine] | None:
        """Return the next lines, together; None at the end of the stream.

        Input is read only on request: an unread chunk stays in the pipe and slows the writer down. If this
        call is cancelled, data that the thread reads afterwards is lost.
        """
        lines: list[InputLine] = []
        while not (lines or self._has_ended):
            try:
                # `read` returns the data that is available: one line typed by a person, or a chunk of a file.
                data = await self._thread.run(lambda: os.read(self._descriptor, CHUNK))
            except OSError:
                data = b""  # a terminal that is gone
            # An empty read is the end of the stream.
            self._has_ended = not data
            lines = self._splitter.feed(data) if data else self._splitter.finish()
        return lines or None


class Output:
    """Writes to a file descriptor. Made and used on the event loop, one `write` at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._thread = DaemonThread("stdout")

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError: BrokenPipeError if the reader has closed its end."""

        def write_all() -> None:
            view = memoryview(data)
            while view:
                # A pipe may accept only a part of the data.
                view = view[os.write(self._descriptor, view) :]

        await self._thread.run(write_all)
