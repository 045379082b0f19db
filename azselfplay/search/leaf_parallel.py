"""The search coroutine with several leaves in flight, for an engine that searches a single position.

Self-play fills batches from many games and keeps one leaf per game in flight (`search.mcts`). An engine has
only one game, so here several leaves of one tree are evaluated together. With one leaf in flight both
searches do the same. Choices and figures: docs/decisions/0006-leaves-in-flight.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from azselfplay.games.spec import Game
from azselfplay.search.compiled import OwnNetwork
from azselfplay.search.evaluator import BadEvaluation, Evaluations, Evaluator, evaluate
from azselfplay.search.forest import Forest
from azselfplay.search.layout import BLOCKED, EDGE, GROW, NODE, REQUEST, SELECT, SETTLE
from azselfplay.search.tree import SearchTree
from protocol.frames import LeafBatch
from protocol.settings import SelfPlaySettings

MOST_ROOT_VISITS = 1 << 22
"""Most visits of a root. In a larger float32 value_sum each visit is rounded so much that means drift: 0.90
becomes 0.92 after 4 million visits, and 0.96 after 8 million."""

T = TypeVar("T")


@dataclass
class Limits:
    """When a search ends. The limits may be changed while the search runs."""

    simulations: int = 0
    """New simulations; 0: as many as fit."""
    until: float = float("inf")
    """Deadline in the event loop's time, seconds."""
    allowed: tuple[int, ...] = ()
    """Root actions to consider; empty: all."""
    stop_when_proven: bool = False
    """End when the root is a proven win or loss."""
    is_enough: Callable[[], bool] | None = None
    """Called after each batch; True ends the search."""


class Interrupt:
    """Interrupts a running search: `stop` ends it, `wake` only makes it check its limits again."""

    def __init__(self) -> None:
        self.stopped = False
        self._waiter: asyncio.Future[None] | None = None

    def stop(self) -> None:
        self.stopped = True
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Return a future that the next `wake` resolves."""
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter


class ParallelTree(SearchTree):
    """The tree of an engine, alone in a forest of fixed size. It holds at most `max_nodes` evaluated
    positions and has at most `max_leaves` leaves in flight.

    All memory is reserved at the start, so nothing is copied while the clock runs.
    """

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        rng: np.random.Generator,
        *,
        max_nodes: int,
        max_leaves: int,
        network: OwnNetwork | None = None,
    ) -> None:
        """Create the tree. `network`: evaluates the leaves in the step kernel, so that none is ever in
        flight."""
        leaves = max_leaves if network is None else 1
        super().__init__(Forest(game, settings, leaves=leaves, max_nodes=max_nodes, network=network), rng)
        self.max_nodes = self.forest.arrays.nodes.shape[1]
        self.is_full = False
        """Whether this search ended because no further node fits."""
        self._wanted = 0
        self._requests = np.zeros(0, REQUEST)

    def start_search(self, simulations: int, allowed: Sequence[int] = ()) -> None:
        """Begin a search of at most `simulations` (0: unlimited) over the root actions `allowed` (empty:
        all). Raises ValueError if none of them is legal."""
        room = max(0, MOST_ROOT_VISITS - self.root_visit_count)
        self._wanted = min(simulations or room, room)
        self.is_full = False
        self.unblock()
        if allowed:
            edges = self.edges_of(0)
            shut = ~np.isin(edges["action"], np.array(allowed, np.uint16))
            if shut.all():
                raise ValueError(f"none of the actions {tuple(allowed)} is legal here")
            edges["in_flight"][shut] = BLOCKED
        self.begin()
        self.state_of_search["remaining"] = self._wanted
        if self._wanted > 0:
            arrays, found = self.forest.arrays, np.zeros(self.game.max_legal, np.int32)
            self._kernels.visit_win(
                self.arrays, self._history, arrays.replies, found, arrays.paths[self.slot, 0]
            )

    def proof_of(self, allowed: Sequence[int]) -> int:
        """Return the proof of the root if only the root actions `allowed` may be played (empty: all). Above
        0: a win, below 0: a loss, 0: nothing is proven."""
        if not allowed:
            return self.proof
        # The root's own proof covers all moves; here only the allowed ones count.
        proofs = np.array(self.edge_proofs(0))[np.isin(self.edges_of(0)["action"], allowed)]
        return int(proofs.max())

    def gather(self) -> LeafBatch:
        """Return the leaves to evaluate. There are none if the search is over, if only ends of games were
        reached, or if the tree has a network of its own."""
        self.is_full = self.forest.step_alone(self.slot, SELECT) == GROW or self.is_full
        batch, self._requests = self.forest.take_leaves()
        return batch

    def settle(self, evaluations: Evaluations) -> None:
        """Take the evaluations of all leaves that `gather` returned. Raises BadEvaluation, without changing
        the tree, if their number does not fit."""
        requests, priors = self._requests, int(self._requests["count"].sum())
        if len(evaluations.wdl) != len(requests) or len(evaluations.priors) != priors:
            raise BadEvaluation(
                f"an answer of {len(evaluations.wdl)} rows and {len(evaluations.priors)} priors, but "
                f"{len(requests)} positions wait with {priors} legal actions in all"
            )
        # The next leaves are selected in `gather`, after the limits have been checked.
        requests["command"] = SETTLE
        self.forest.step(requests, evaluations.priors.astype(np.float32, copy=False), evaluations.wdl)

    def give_up(self) -> None:
        """Forget the leaves in flight."""
        self._requests = self._requests[:0]
        self.forest.give_up(self.slot)

    def unblock(self) -> None:
        """Allow all root actions again. No leaf may be in flight."""
        if self.is_expanded:
            self.edges_of(0)["in_flight"] = 0

    @property
    def simulations(self) -> int:
        """Simulations that this search has finished."""
        return self._wanted - self.remaining - int(self.state_of_search["in_flight"])

    @property
    def depths(self) -> tuple[int, int]:
        """Return (sum of the depths of this search's simulations, the deepest), in plies."""
        state = self.state_of_search
        return int(state["depth_sum"]), int(state["deepest"])


def node_bytes(game: Game) -> int:
    """Return the memory of one evaluated position with its edges, in bytes."""
    return NODE.itemsize + np.dtype(np.int32).itemsize + int(game.mean_legal) * EDGE.itemsize


async def search_parallel(
    tree: ParallelTree, evaluator: Evaluator, limits: Limits, interrupt: Interrupt | None = None
) -> None:
    """Search until a limit is reached. The root must be expanded and not be the end of the game.

    The search reacts to `interrupt` and to the clock at once: it gives up the leaves still in flight.
    """
    interrupt, loop = interrupt or Interrupt(), asyncio.get_running_loop()

    def is_over() -> bool:
        return (
            tree.remaining <= 0
            or tree.is_full
            or interrupt.stopped
            or loop.time() >= limits.until
            or (limits.stop_when_proven and tree.proof_of(limits.allowed) != 0)
            or (limits.is_enough is not None and limits.is_enough())
        )

    tree.start_search(limits.simulations, limits.allowed)
    try:
        while not is_over():
            batch = tree.gather()
            if not batch.rows:
                # A search may reach only ends of games for a long time. Yield, so that stop and clock work.
                await asyncio.sleep(0)
                continue
            evaluations = await unless_over(evaluate(evaluator, batch), limits, interrupt)
            if evaluations is not None:
                tree.settle(evaluations)
            else:
                tree.give_up()
    finally:
        tree.give_up()
        # The next search starts without blocked root actions.
        tree.unblock()


async def unless_over(
    asked: Awaitable[T], limits: Limits, interrupt: Interrupt, grace: float = 0.0
) -> T | None:
    """Return the result of `asked`, or None if a stop comes earlier, or the deadline. With `grace`, a stop is
    no reason to give up, and the deadline is so many seconds later."""
    loop = asyncio.get_running_loop()
    answer = asyncio.ensure_future(asked)
    try:
        while not answer.done() and not interrupt.stopped and loop.time() < limits.until:
            left = limits.until - loop.time()
            waits_for: set[asyncio.Future[Any]] = {answer, interrupt.waiter()}
            # Without a deadline `left` is infinite, which asyncio does not accept.
            timeout = left if left < 1e6 else None
            await asyncio.wait(waits_for, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        # Whoever stops a search wants its answer; only a clock makes a late one useless.
        if grace:
            left = max(0.0, limits.until - loop.time()) + grace
            await asyncio.wait({answer}, timeout=left if left < 1e6 else None)
        return answer.result() if answer.done() else None
    finally:
        answer.cancel()
