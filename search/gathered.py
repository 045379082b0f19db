"""The search coroutine with several leaves in flight: for an engine, which has one position to think about.

Self-play batches over games and keeps one leaf of a game in flight (`search.mcts`). An engine has no
other games: here up to `wanted_leaves` leaves of one tree are evaluated together. With one leaf at a time
both searches do the same. Choices and figures: docs/decisions/0006-leaves-in-flight.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from search.evaluator import Evaluation, Evaluator
from search.gathered_tree import GatheredTree
from search.leaf_batch import Leaf

VISITS_A_LEAF = 32
"""The root's visits per further leaf in flight."""


def wanted_leaves(root_visits: int, most: int) -> int:
    """Leaves worth having in flight: few in a small tree, where each that waits is one chosen blindly."""
    return max(1, min(most, root_visits // VISITS_A_LEAF))


@dataclass
class Limits:
    """When a search ends. It may be changed while the search runs."""

    simulations: int = 0
    """New simulations; 0: as many as fit."""
    until: float = float("inf")
    """Time of the event loop, seconds."""
    allowed: tuple[int, ...] = ()
    """Root actions to look at; none: all."""
    stop_when_proven: bool = False
    """End when the root is a proven win or loss."""
    is_enough: Callable[[], bool] | None = None
    """Asked after each batch; True ends the search."""


class Interrupt:
    """How a running search is told to look at its limits again: set `stop`, or only `wake` it."""

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
        """Resolved by the next `wake`."""
        if self._waiter is None or self._waiter.done():
            self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter


async def search_gathered(
    tree: GatheredTree, evaluator: Evaluator, limits: Limits, interrupt: Interrupt | None = None
) -> None:
    """Search from the root, which must be expanded and not the game's end, until a limit says stop.

    Reacts to `interrupt` and to the clock at once: leaves still in flight are given up then.
    """
    interrupt = interrupt or Interrupt()
    tree.start_search(limits.simulations, limits.allowed)
    try:
        while not _is_over(tree, limits, interrupt):
            leaves = tree.gather(wanted_leaves(tree.root_visit_count, tree.max_leaves))
            if not leaves:
                await asyncio.sleep(0)
                continue
            evaluations = await evaluate_all(evaluator, leaves, limits, interrupt)
            if evaluations is not None:
                tree.settle(evaluations)
            else:
                tree.give_up()
    finally:
        tree.give_up()
        tree.unblock()


def _is_over(tree: GatheredTree, limits: Limits, interrupt: Interrupt) -> bool:
    return (
        tree.remaining <= 0
        or tree.is_full
        or interrupt.stopped
        or asyncio.get_running_loop().time() >= limits.until
        or (limits.stop_when_proven and tree.proof != 0)
        or (limits.is_enough is not None and limits.is_enough())
    )


async def evaluate_all(
    evaluator: Evaluator, leaves: Sequence[Leaf], limits: Limits, interrupt: Interrupt
) -> Sequence[Evaluation] | None:
    """All evaluations, or None if the clock or an interrupt came first."""
    loop = asyncio.get_running_loop()
    answers = asyncio.gather(*(evaluator.evaluate(leaf) for leaf in leaves))
    try:
        while not answers.done() and not interrupt.stopped and loop.time() < limits.until:
            left = limits.until - loop.time()
            waits_for: set[asyncio.Future[Any]] = {answers, interrupt.waiter()}
            timeout = left if left < 1e6 else None
            await asyncio.wait(waits_for, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return answers.result() if answers.done() else None
    finally:
        if not answers.done():
            answers.add_done_callback(_forget)
            answers.cancel()


def _forget(answers: asyncio.Future[list[Evaluation]]) -> None:
    """A cancelled `gather` ends with an exception, which counts as lost unless it is looked at."""
    if not answers.cancelled():
        answers.exception()
