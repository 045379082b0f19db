"""The engine as a process: it passes lines to the protocol's state machine and carries out its orders.

The first half goes from options to a thinker: it loads the network, makes the tree and compiles the kernels.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from engine.core.orders import (
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
from engine.core.report import Report
from engine.core.thinker import Thinker, Thinking
from engine.lines import Input
from engine.nets import check_fits, load_net
from engine.search_choice import search_for
from games import get_game
from runtime.exits import Exit, Fatal
from runtime.finding import weights_named

MOST_LEAVES = 128
"""Leaves in flight, unless the option asks for more."""


def prepare(setup: Setup, seed: int) -> Thinker:
    """Load the network, make the tree and compile the kernels. Raises Fatal if the weights cannot be used.

    This takes seconds, or a minute when nothing is compiled yet: run it in a thread.
    """
    game = get_game(setup.game)
    weights = None if not setup.weights else weights_named(setup.weights)
    wanted = "" if weights else game.name
    net = load_net(weights, wanted, device=setup.backend, threads=setup.threads, seed=seed)
    try:
        check_fits(net, game)
        leaves = setup.leaves or min(MOST_LEAVES, net.target_rows)
        thinker = Thinker(net, setup.hash_mib, leaves, seed, search_for(setup.search, game), game)
    except MemoryError as error:
        net.close()
        raise Fatal(f"not enough memory for Hash {setup.hash_mib} MiB: choose less", Exit.CONFIG) from error
    except Fatal:
        net.close()
        raise
    thinker.warm_up()
    return thinker


T = TypeVar("T")

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
            reading = group.create_task(self._read(lines))
            await self._over.wait()
            reading.cancel()
            if self._preparation is not None:
                self._preparation.cancel()
            if self._thinking is not None:
                self._thinking.stop()
        if self._thinker is not None:
            self._thinker.close()

    def end(self) -> None:
        """End now. A running search still prints its best move."""
        self._over.set()

    async def _read(self, lines: Input) -> None:
        loop = asyncio.get_running_loop()
        while (together := await lines.lines()) is not None:
            for line in together:
                text = TOO_LONG if line is None else line.decode("utf-8", errors="replace")
                self._carry_out(self._engine.feed(text, loop.time()))
            while not self._engine.takes_input:
                self._changed.clear()
                await self._changed.wait()
        self._carry_out(self._engine.feed("quit", loop.time()))

    def _carry_out(self, orders: Iterable[Order]) -> None:
        self._changed.set()
        for order in orders:
            if isinstance(order, Say):
                self._say(order.text)
            elif self._over.is_set():
                continue
            elif isinstance(order, Prepare):
                self._preparation = self._group.create_task(self._make_ready(order.setup))
            elif isinstance(order, Start):
                self._thinking = Thinking(order.request)
                self._group.create_task(self._think(self._thinking))
            elif isinstance(order, StopSearch) and self._thinking is not None:
                self._thinking.stop()
            elif isinstance(order, SetDeadline) and self._thinking is not None:
                self._thinking.set_deadline(order.until)
            elif isinstance(order, Quit):
                self.end()

    def _tell(self, report: Report) -> None:
        self._carry_out(self._engine.reported(report))

    async def _think(self, thinking: Thinking) -> None:
        assert self._thinker is not None, "the machine prepares before it starts"
        found = await self._thinker.think(thinking, self._tell)
        self._thinking = None
        self._carry_out(self._engine.searched(found, asyncio.get_running_loop().time()))

    async def _make_ready(self, setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        patience = loop.call_later(PATIENCE, lambda: self._carry_out(self._engine.still_preparing()))
        try:
            thinker = await in_thread(lambda: self._prepare(setup))
        except Fatal as error:
            if self._thinker is None and setup == self._engine.first_setup:
                raise
            self._preparation = None
            self._carry_out(self._engine.preparation_failed(str(error), loop.time()))
            return
        finally:
            patience.cancel()
        if self._thinker is not None:
            self._thinker.close()
        self._thinker, self._preparation = thinker, None
        self._carry_out(self._engine.prepared(setup, loop.time()))


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work()` in a thread of its own that does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast(T, result))

    def body() -> None:
        result, failure = None, None
        try:
            result = work()
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=body, name=PREPARATION, daemon=True).start()
    return await done


def leave_if_preparing(code: int) -> None:
    """End the process with `code` if a thread of `in_thread` is still working, because its compiler would
    abort when the interpreter shuts down. To be called when everything else has ended."""
    if any(thread.name == PREPARATION for thread in threading.enumerate()):
        if code == Exit.OK:  # otherwise a message was already printed
            print("ended while the search was being prepared", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
