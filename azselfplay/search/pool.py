"""Connects coroutines with batches: a coroutine awaits its whole search, and one kernel call steps many
searches.

A new search, or a root to evaluate, waits for the end of the current event loop iteration ("turn"). Then one
kernel call selects the next leaves of all of them, and these are sent together. When answers arrive, one call
does expand, backup and select for every search concerned. A finished search wakes its coroutine. If the
forest has a network of its own, nothing needs to be batched: each coroutine runs its whole search in one
call. It yields to the others only now and then, because the next move of the same game finds its tree in the
processor's cache.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.search.evaluator import BadEvaluation, Evaluations, Evaluator
from azselfplay.search.forest import NO_PRIORS, NO_WDL, Forest
from azselfplay.search.layout import (
    AGAIN,
    DONE,
    EXPANDED,
    GROW,
    MISFIT,
    OUTBOX_FULL,
    REQUEST,
    REQUEST_ROOT,
    SELECT,
    STALE,
)
from azselfplay.search.tree import SearchTree

SIMULATIONS_A_TURN = 512
"""Simulations with the forest's own network before another coroutine has its turn. With 32 simulations a move
this is 1.27 times as fast as a turn for each move, and the event loop still turns every few milliseconds."""


class SearchPool:
    """Runs the searches of a forest on one evaluator. Its methods may only be called in the event loop's
    thread."""

    def __init__(self, forest: Forest, evaluator: Evaluator) -> None:
        self.forest = forest
        self.evaluator = evaluator
        self._handed_out = 0
        """Number of evaluations requested from the evaluator."""
        self._waiting: dict[int, asyncio.Future[None]] = {}
        """By slot: the future that resolves when the tree's search is finished."""
        self._roots: list[int] = []
        self._selecting: list[int] = []
        self._is_scheduled = False
        self._version = evaluator.version
        self._simulated = 0
        """Simulations with the forest's own network since a coroutine last yielded."""

    @property
    def leaves(self) -> int:
        """Number of evaluations since the start: requested ones, or those of the forest's own network."""
        return self._handed_out + self.forest.evaluated

    async def expand(self, tree: SearchTree) -> None:
        """Evaluate the root of `tree`, which must not be the end of the game."""
        if self.forest.evaluates:
            # No leaf is sent, so the root is expanded at once.
            self.forest.step_alone(tree.slot, REQUEST_ROOT)
        else:
            await self._wait_for(tree, self._roots)

    async def run(self, tree: SearchTree) -> None:
        """Run the remaining simulations of `tree`, whose root is expanded."""
        if self.forest.evaluates:
            self._simulated += tree.remaining
            result = AGAIN
            while result != DONE:
                result = self.forest.step_alone(tree.slot, SELECT)
                # The work of one call is limited: if it was not enough, the others have their turn as well.
                if result != DONE or self._simulated >= SIMULATIONS_A_TURN:
                    self._simulated = 0
                    await asyncio.sleep(0)
        else:
            await self._wait_for(tree, self._selecting)

    async def _wait_for(self, tree: SearchTree, requested: list[int]) -> None:
        done = self._waiting[tree.slot] = asyncio.get_running_loop().create_future()
        requested.append(tree.slot)
        self._schedule_turn()
        try:
            await done
        finally:
            if not done.done() or done.cancelled():  # this coroutine was cancelled: give up its search
                self._waiting.pop(tree.slot, None)
                for slots in (self._roots, self._selecting):
                    if tree.slot in slots:
                        slots.remove(tree.slot)
                self.forest.give_up(tree.slot)

    # ---- A turn -------------------------------------------------------------------------------

    def _schedule_turn(self) -> None:
        # At the end of this loop iteration, so that all searches that begin in it are stepped together.
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Begin the requested searches, and send the leaves of the outbox."""
        self._is_scheduled = False
        requested = len(self._roots) + len(self._selecting)
        if requested:
            requests = np.zeros(requested, REQUEST)
            requests["slot"] = self._roots + self._selecting
            requests["command"][: len(self._roots)] = REQUEST_ROOT
            requests["command"][len(self._roots) :] = SELECT
            self._roots, self._selecting = [], []
            self._step(requests, NO_PRIORS, NO_WDL)
        if self.forest.has_leaves:
            batch, sent = self.forest.take_leaves()
            self._handed_out += batch.rows
            self.evaluator.submit(batch, _Sent(self, sent, len(batch.actions)))

    def _step(
        self, requests: npt.NDArray[np.void], priors: npt.NDArray[Any], wdl: npt.NDArray[np.float32]
    ) -> None:
        """Make one kernel call for `requests` (REQUEST[n]), `priors [sum of counts]`, `wdl [n, 3]`; then wake
        finished searches."""
        try:
            results = self.forest.step(requests, priors, wdl)
        except Exception as error:  # compilation failed: no search may wait forever
            for slot in requests["slot"].tolist():
                self._fail(slot, error)
            raise
        for index, result in results:
            request = requests[index]
            slot = int(request["slot"])
            if result in (DONE, EXPANDED):
                future = self._waiting.pop(slot, None)
                if future is not None and not future.done():
                    future.set_result(None)
            elif result == MISFIT:
                self._fail(slot, BadEvaluation("an answer has not one prior for each legal action"))
            elif result in (AGAIN, OUTBOX_FULL, GROW):
                # Try again in the next turn: the work of one call is limited, or space or the outbox was
                # full.
                (self._roots if request["command"] == REQUEST_ROOT else self._selecting).append(slot)
                self._schedule_turn()
            else:  # the answer came twice, or after its search was given up
                assert result == STALE

    def _fail(self, slot: int, error: Exception) -> None:
        # Other leaves of the tree may be in flight; their answers must be ignored.
        self.forest.give_up(slot)
        future = self._waiting.pop(slot, None)
        if future is not None and not future.done():
            future.set_exception(error)

    # ---- To the evaluator and back ------------------------------------------------------------

    def answered(self, requests: npt.NDArray[np.void], total: int, evaluations: Evaluations) -> None:
        """Take the evaluations of `requests` (REQUEST[n]), which have `total` legal actions altogether."""
        if evaluations.version != self._version:  # new weights answer now: the cache is outdated
            self._version = evaluations.version
            self.forest.forget_evaluations()
        if len(evaluations.priors) != total:
            text = f"an answer has {len(evaluations.priors)} priors for {total} legal actions"
            self.failed(requests, BadEvaluation(text))
            return
        self._step(requests, evaluations.priors, evaluations.wdl)
        # An answer usually leads to new leaves, which are sent at the end of this turn.
        if self.forest.has_leaves:
            self._schedule_turn()

    def failed(self, requests: npt.NDArray[np.void], error: Exception) -> None:
        """Note that these `requests` (REQUEST[n]) will never be answered."""
        for request in requests:
            # By now another search may use the slot; its leaves have other tickets.
            pending = self.forest.arrays.pending[request["slot"], request["leaf"]]
            if pending["ticket"] == request["ticket"]:
                self._fail(int(request["slot"]), error)


class _Sent:
    """The reply to leaves that a pool has submitted: their `requests` (REQUEST[n]), and their total number of
    legal actions."""

    def __init__(self, pool: SearchPool, requests: npt.NDArray[np.void], total: int) -> None:
        self._pool, self._requests, self._total = pool, requests, total

    def answered(self, first: int, evaluations: Evaluations) -> None:
        requests, total = self._requests, self._total
        if len(evaluations.wdl) != len(requests):
            requests = requests[first : first + len(evaluations.wdl)]
            total = int(requests["count"].sum())
        self._pool.answered(requests, total, evaluations)

    def failed(self, first: int, rows: int, error: Exception) -> None:
        self._pool.failed(self._requests[first : first + rows], error)
