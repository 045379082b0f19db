"""The queue of leaves: which slots are computed next, and together. A pure object: no socket, no clock.

The rule of batching is that of Triton's dynamic batcher: a free device takes the largest batch available and
never waits for more, while a busy one lets rows collect. There are no timers. Slots are not cut: a batch is
a list of whole slots.

Owners share by deficit round-robin (Shreedhar and Varghese, SIGCOMM 1995): each may spend `QUANTUM` rows in a
round, so one greedy player cannot starve the others. A worker is an owner; so is each key of remote players.

A slot whose rows were being computed when an evaluator died is a suspect. It is tried once more, alone, so
that a row that kills every evaluator is found, and its neighbours are not blamed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from azselfplay.batching.ring import SLOT_ROWS

if TYPE_CHECKING:
    from azselfplay.batching.rings import Filled, Ring

MOST_GAMES = 2048
"""Most games of one process: with 800 simulations a move they take about 3.5 GB."""
LEAST_GAMES = 16
"""Fewest games of one process: a slot or a message with fewer leaves costs more than its leaves do."""
LEAST_ROWS = LEAST_GAMES
"""Fewest rows that a slot should have."""
MUCH = 1.25
"""Factor by which a number must have changed before a player is told the new one."""
QUANTUM = 16
"""Rows that each owner may spend in a round, or save for a larger slot. With larger quanta an owner with few
rows in flight would wait for long turns of the others."""


class Item(Protocol):
    """What waits in a queue."""

    @property
    def owner(self) -> Hashable: ...
    @property
    def rows(self) -> int: ...


T = TypeVar("T", bound=Item)


@dataclass(eq=False, slots=True)
class _Waiting(Generic[T]):
    """What an owner waits for."""

    items: deque[T] = field(default_factory=deque)
    saved: int = 0
    """Rows that it may spend before its turn ends."""


class FairQueue(Generic[T]):
    """Owners take turns; first in, first out within an owner."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows in the queue."""
        self._waiting: dict[Hashable, _Waiting[T]] = {}
        self._turns: deque[Hashable] = deque()

    def append(self, item: T, *, first: bool = False) -> None:
        """Add an item behind, or with `first` before, the others of its owner."""
        waiting = self._waiting.get(item.owner)
        # An owner without items has no turn, and saves nothing for later.
        if waiting is None:
            waiting = self._waiting[item.owner] = _Waiting()
            self._turns.append(item.owner)
        if first:
            waiting.items.appendleft(item)
        else:
            waiting.items.append(item)
        self.rows += item.rows

    def take(self, room: int) -> list[T]:
        """Take items of at most `room` rows together, but at least one item, if there is any."""
        taken: list[T] = []
        while self._turns:
            owner = self._turns[0]
            waiting = self._waiting[owner]
            rows = waiting.items[0].rows
            if taken and rows > room:
                break  # the owner keeps its place, and comes first next time
            if rows > waiting.saved:
                if len(self._turns) == 1:  # nobody else waits: save what further rounds would add up to
                    waiting.saved = rows
                else:
                    waiting.saved += QUANTUM
                    self._turns.rotate(-1)
                    continue
            waiting.saved -= rows
            room -= rows
            self.rows -= rows
            taken.append(waiting.items.popleft())
            if not waiting.items:
                del self._waiting[self._turns.popleft()]
        return taken

    def drop(self, goes: Callable[[T], bool], owners: Iterable[Hashable] | None = None) -> None:
        """Drop the items for which `goes` is true; `owners`: who may have such items (default: anybody)."""
        for owner in list(self._waiting if owners is None else owners):
            waiting = self._waiting.get(owner)
            if waiting is None:
                continue
            stay = deque(item for item in waiting.items if not goes(item))
            self.rows -= sum(item.rows for item in waiting.items) - sum(item.rows for item in stay)
            waiting.items = stay
            if not stay:
                del self._waiting[owner]
                self._turns.remove(owner)


class LeafQueue:
    """The slots that wait for one device, from any number of rings."""

    def __init__(self) -> None:
        self._queue: FairQueue[Filled] = FairQueue()
        self._suspects: deque[Filled] = deque()
        self._tries_suspect = False
        """Whether the device computes a suspect, and nothing else."""

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return self._queue.rows + sum(one.rows for one in self._suspects)

    def put(self, leaves: Filled) -> None:
        """Add a slot. One that has been started before is a suspect."""
        if leaves.starts:
            self._suspects.append(leaves)
        else:
            self._queue.append(leaves)

    def drop(self, ring: Ring) -> None:
        """Drop what came from a ring that is gone."""
        self._queue.drop(lambda leaves: leaves.ring == ring)
        self._suspects = deque(leaves for leaves in self._suspects if leaves.ring != ring)

    def next_batch(self, target_rows: int, busy_rows: int) -> list[Filled]:
        """Return the slots to compute next: at most `target_rows` rows, unless the first slot alone has more.
        Returns none if the device should wait for more. `busy_rows`: rows that the device is computing."""
        if not busy_rows:
            # A suspect is computed alone, so that its neighbours are not blamed if it ends this process.
            self._tries_suspect = bool(self._suspects)
            if self._suspects:
                return [self._suspects.popleft()]
        if self._tries_suspect or self._suspects:
            return []
        # Wait for half as many rows as are being computed; otherwise batches would become ever smaller.
        if not self._queue.rows or self._queue.rows < min(busy_rows, target_rows) // 2:
            return []
        return self._queue.take(target_rows)


# ---- How much the players should send ----------------------------------------------------------


def games_each(needed_rows: int, players: float) -> int:
    """Return how many games each of `players` players should have in flight, so that together they have
    `needed_rows` leaves."""
    return max(LEAST_GAMES, min(MOST_GAMES, int(needed_rows / max(1, players))))


def rows_a_slot(target_rows: int, owners: int) -> int:
    """Return how many rows a slot should have: few enough that each owner has two slots in a round of
    batches. With one slot, an owner would have nothing in the queue while that slot is computed."""
    return max(LEAST_ROWS, min(SLOT_ROWS, target_rows, 2 * target_rows // owners))


def has_changed_much(new: int, sent: int) -> bool:
    """Return whether a number has changed enough to tell the players."""
    return new > MUCH * sent or sent > MUCH * new
