"""The engine as a process: standard input in, orders of a protocol carried out, standard output.

`EngineConfig` has the settings that all engines share, and `serve` runs a protocol until it ends. The
`Driver` carries out orders on an event loop. What would block it has a thread of its own: reading and writing
pipes, and preparing (loading the network and compiling its search takes up to a minute, in which the GUI must
still get answers). The threads are daemons, so that a process that ends waits neither for the other side of a
pipe nor for a compiler.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from msgspec import Meta
from tyro.conf import Positional

from azselfplay.host import aio
from azselfplay.host.exits import Exit, Fatal, guarded, require
from azselfplay.link.finding import RUNS, one_network, weights_named
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
    weights: Path | None = None
    """The network, as a flag instead of NETWORK."""
    runs: Path = RUNS
    """Folder of all runs."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of the network."""
    threads: Count = 0
    """CPU threads of the network; 0: one per core."""
    hash: Positive = 256
    """MiB of the search tree."""
    leaves: Count = 0
    """Most positions evaluated in one batch; 0: as many as suit the device."""
    search: str = "puct"
    """puct, gumbel, thompson, or such as gumbel?gumbel_c_scale=0.1."""
    nodes: Annotated[int, Meta(ge=0, le=10**9)] = 0
    """Simulations per move when the GUI gives no number; 0: no limit (gumbel: 800)."""
    seed: Seed = 0
    """Seed of the untrained network, and of moves drawn with a temperature."""

    def resolved(self) -> Self:
        """The same settings, with the file of the network in `weights`. Raises Fatal(BAD_DATA) if there is
        none."""
        return replace(self, network="", weights=one_network(self.network, self.weights, self.runs))

    @property
    def name(self) -> str:
        """The name by which the engine introduces itself."""
        return f"azselfplay {self.weights.resolve().stem if self.weights else 'untrained tiny'}"

    def setup(self, game: str) -> Setup:
        """The set-up of the command line."""
        return Setup(
            weights=str(self.weights or ""),
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

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    async def main(stop: aio.Stop) -> None:
        driver = Driver(make(), lambda wanted: prepare(wanted, settings.seed), say)

        async def end_on_signal() -> None:
            await stop.finishing.wait()
            driver.end()

        async with asyncio.TaskGroup() as group:
            watch = group.create_task(end_on_signal())
            await driver.run(Input(sys.stdin.fileno(), LONGEST_LINE), first)
            # The driver has ended by itself: nobody waits for a signal any more.
            watch.cancel()

    def run() -> int:
        aio.run(main)
        return 0

    code = guarded(run)
    # After `guarded`, so that its message is printed before the process is cut off.
    leave_if_preparing(code)
    return code


MOST_LEAVES = 128
"""Leaves in flight, unless the option asks for more."""


def prepare(setup: Setup, seed: int) -> Thinker:
    """Load the network, make the tree and compile the kernels. Raises Fatal if the weights cannot be used.

    This takes seconds, or a minute when nothing is compiled yet: run it in a thread.
    """
    from azselfplay.games import get_game
    from azselfplay.play.nets import (  # numpy, and perhaps torch: not on the way to --help
        check_fits,
        load_net,
        search_for,
    )
    from azselfplay.play.syzygy import open_tables
    from azselfplay.play.thinker import Thinker

    game = get_game(setup.game)
    tables = open_tables(game, setup.syzygy_path) if setup.syzygy_path else None
    weights = None if not setup.weights else weights_named(setup.weights)
    # A trained network may be for another variant with the same board, which `check_fits` decides.
    wanted = "" if weights else game.name
    net = load_net(weights, wanted, device=setup.backend, threads=setup.threads, seed=seed)
    try:
        check_fits(net, game)
        # More in flight than the device's batch would only spread the search.
        leaves = setup.leaves or min(MOST_LEAVES, net.target_rows)
        search = search_for(setup.search, game)
        thinker = Thinker(net, setup.hash_mib, leaves, seed, search, game, tables)
    # The GUI's Hash option may ask for more than there is.
    except MemoryError as error:
        net.close()
        raise Fatal(f"not enough memory for Hash {setup.hash_mib} MiB: choose less", Exit.CONFIG) from error
    except Fatal:
        net.close()
        raise
    thinker.warm_up()
    return thinker


LONGEST_LINE = 1 << 16
"""Most bytes in a line; the moves of the longest games take a tenth of it."""

PREPARATION = "preparation"
"""Name of the threads that load and compile."""

PATIENCE = 1.0
"""Seconds of preparation after which the protocol may say that it takes a while."""


class Driver:
    """Carries out the orders of `engine`, one search at a time. `prepare` makes a Thinker, in a thread."""

    def __init__(
        self, engine: Engine, prepare: Callable[[Setup], Thinker], say: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._prepare = prepare
        self._say = say
        self._thinker: Thinker | None = None
        self._thinking: Thinking | None = None
        self._over = asyncio.Event()
        self._preparation: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def run(self, lines: Input, first: Iterable[Order] = ()) -> None:
        """Carry out the orders in `first`, then answer `lines` until `quit`, the end of input or `end`.

        Raises Fatal if the network of the command line cannot be used.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._carry_out(first)
            reading = group.create_task(self._feed(lines))
            await self._over.wait()
            reading.cancel()
            # A thread cannot be cancelled, but nobody waits for it any more (`leave_if_preparing`).
            if self._preparation is not None:
                self._preparation.cancel()
            if self._thinking is not None:
                self._thinking.stop()
        if self._thinker is not None:
            self._thinker.close()

    def end(self) -> None:
        """End now. A running search still prints its best move."""
        self._over.set()

    async def _feed(self, lines: Input) -> None:
        loop = asyncio.get_running_loop()
        while (together := await lines.lines()) is not None:
            for line in together:
                text = TOO_LONG if line is None else line.decode("utf-8", errors="replace")
                self._carry_out(self._engine.feed(text, loop.time()))
            # A protocol that answers one command after the other leaves further input in the pipe, so that
            # the writer is slowed down and nothing piles up here.
            while not self._engine.takes_input:
                self._changed.clear()
                await self._changed.wait()
        # A controller that died has sent no `quit`; an engine must not outlive it.
        self._carry_out(self._engine.feed("quit", loop.time()))

    def _carry_out(self, orders: Iterable[Order]) -> None:
        # Whatever led to these orders may have made room for input.
        self._changed.set()
        for order in orders:
            if isinstance(order, Say):
                self._say(order.text)
            # After the end a best move is still printed, but nothing begins.
            elif self._over.is_set():
                continue
            elif isinstance(order, Prepare):
                self._preparation = self._group.create_task(self._make_ready(order.setup))
            elif isinstance(order, Start):
                from azselfplay.play.thinker import Thinking

                self._thinking = Thinking(order.request)
                self._group.create_task(self._think(self._thinking))
            elif isinstance(order, StopSearch) and self._thinking is not None:
                self._thinking.stop()
            elif isinstance(order, SetDeadline) and self._thinking is not None:
                self._thinking.set_deadline(order.until)
            elif isinstance(order, Quit):
                self.end()

    async def _think(self, thinking: Thinking) -> None:
        assert self._thinker is not None, "the machine prepares before it starts"
        found = await self._thinker.think(
            thinking, lambda report: self._carry_out(self._engine.reported(report))
        )
        # Before the engine is told: it may start the next search at once.
        self._thinking = None
        self._carry_out(self._engine.searched(found, asyncio.get_running_loop().time()))

    async def _make_ready(self, setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        # A GUI may take silence for a hang, but most preparations are over at once and need no notice.
        patience = loop.call_later(PATIENCE, lambda: self._carry_out(self._engine.still_preparing()))
        try:
            thinker = await in_thread(lambda: self._prepare(setup))
        except Fatal as error:
            # A wrong --weights ends the process; a wrong option of a GUI is only told to it.
            if self._thinker is None and setup == self._engine.first_setup:
                raise
            self._preparation = None
            self._carry_out(self._engine.preparation_failed(str(error), loop.time()))
            return
        finally:
            patience.cancel()
        # Only now: if the new options had failed, the old tree would still be needed.
        if self._thinker is not None:
            self._thinker.close()
        self._thinker, self._preparation = thinker, None
        self._carry_out(self._engine.prepared(setup, loop.time()))


class DaemonThread:
    """Runs blocking calls one after the other. Made and used on the event loop.

    No executor: the interpreter would wait for its threads before it ends.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work()`, or what it raises."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        return await future

    def end(self) -> None:
        """End the thread after the calls that were begun."""
        self._jobs.put(None)

    def _work(self) -> None:
        def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
            if future.done():  # who waited for it was cancelled
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        while (job := self._jobs.get()) is not None:
            work, future = job
            result, failure = None, None
            try:
                result = work()
            # Whatever it is, whoever awaits the result must hear of it.
            except BaseException as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(settle, future, result, failure)
            except RuntimeError:
                return  # the loop is closed


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work()` in a thread of its own that does not delay the end of the process."""
    thread = DaemonThread(PREPARATION)
    try:
        return await thread.run(work)
    finally:
        thread.end()


def leave_if_preparing(code: int) -> None:
    """End the process with `code` if a thread of `in_thread` is still working, because its compiler would
    abort when the interpreter shuts down. To be called when everything else has ended."""
    if any(thread.name == PREPARATION for thread in threading.enumerate()):
        if code == Exit.OK:  # otherwise a message was already printed
            print("ended while the search was being prepared", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


Line = bytes | None
"""A line without its newline; None for a line over the limit, which was dropped."""

CHUNK = 64 * 1024
"""Bytes read at once."""


class LineSplitter:
    """Splits a stream at its newlines and never holds more than `limit` bytes of an unfinished line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = b""
        self._too_long = False
        self._is_first = True

    def feed(self, data: bytes) -> list[Line]:
        """The lines that `data` completes, without their newlines."""
        # The last piece waits for its newline.
        *ended, begun = data.split(b"\n")
        lines = [self._complete(part) for part in ended]
        self._begin(begun)
        return lines

    def finish(self) -> list[Line]:
        """The last line, if the stream ended without a newline."""
        return [self._complete(b"")] if self._begun or self._too_long else []

    def _begin(self, part: bytes) -> None:
        self._begun += part
        # Only the length is known from here on: the rest of the line costs no memory.
        if len(self._begun) > self._limit:
            self._begun, self._too_long = b"", True

    def _complete(self, part: bytes) -> Line:
        self._begin(part)
        line = None if self._too_long else self._begun
        if self._is_first and line is not None:
            line = line.removeprefix(codecs.BOM_UTF8)  # as Windows programs write it
        self._is_first = False
        self._begun, self._too_long = b"", False
        return line


class OutputClosed(Exception):
    """The reader of our output has closed it."""


class Input:
    """Lines of a file descriptor. Made and used on the event loop."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(limit)
        self._thread = DaemonThread("stdin")
        self._has_ended = False

    async def lines(self) -> list[Line] | None:
        """The next lines, together; None at the end of the stream.

        Nothing is read before it is asked for: an unread chunk stays in the pipe and holds the writer back.
        If this is cancelled, what the thread reads afterwards is lost.
        """
        lines: list[Line] = []
        while not (lines or self._has_ended):
            try:
                # `read` returns what there is: one line of a person, or a chunk of a file.
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
        """Write all of `data`. Raises OutputClosed or another OSError."""

        def write_all() -> None:
            view = memoryview(data)
            while view:
                # A pipe may take only a part of it.
                view = view[os.write(self._descriptor, view) :]

        try:
            await self._thread.run(write_all)
        except BrokenPipeError as error:
            raise OutputClosed from error
