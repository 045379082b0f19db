"""The producer's end of a ring: dials an evaluator, hands it leaves, gets answers, and dials again.

A worker has one `RingClient`, the front one for each evaluator. When an evaluator ends, `Events.lost` returns
its unanswered leaves. They are sent again, to the same evaluator once it is back or to another one: this is
safe, because an evaluation is a pure function of weights and position. With several paths, another evaluator
stands in for one that stays away, until that one is back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.batching.ring import (
    LOOK_AT_HEAD,
    MOST_BYTES,
    Demand,
    Header,
    Layout,
    RingMemory,
    create,
    hello,
)
from azselfplay.search.evaluator import Evaluations

REDIAL = 0.25
"""Seconds between two attempts to reach an evaluator. A restart takes longer than one such pause."""
AWAY = 60.0
"""Seconds after which another evaluator replaces one that is away, and between attempts to return to it."""
log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Leaves:
    """Rows for one slot."""

    payload: Any
    """What the user of the `RingClient` needs when the answers come."""
    frames: Sequence[npt.NDArray[Any]]
    """Features, counts and legal actions, as in EVALUATE."""
    rows: int
    actions: int
    """Legal actions of all rows."""
    is_mask: bool = False
    """Whether the legal actions are masks."""
    owner: int = 0
    """Number of the player whose turns these rows use (`batching.queue`)."""
    starts: int = 0
    """How often an evaluator ended while it computed these rows."""
    wrong: int = 0
    """How often an answer to these rows was wrong."""

    @property
    def header(self) -> Header:
        size = self.frames[2].nbytes
        return Header(self.rows, size, int(self.is_mask), self.owner, self.starts, self.wrong)


@dataclass(frozen=True)
class Events:
    """Callbacks to the user of a `RingClient`."""

    answered: Callable[[Leaves, Evaluations, int], None]
    """`answered(leaves, evaluations, refused)`. The arrays are the slot's, and valid during the call only.
    `refused`: how many rows have no answer, and never will (see `answered_runs`)."""
    demanded: Callable[[Demand], None]
    """The evaluator has stated its first wish, or has changed its wish."""
    lost: Callable[[list[Leaves]], None]
    """The connection has ended. The argument holds the unanswered leaves, in the order of sending."""
    room: Callable[[], None]
    """Slots may be free again; called once per read of the socket, after all its answers."""


class RingClient:
    """A ring to the evaluator at `paths[0]`, or to another of `paths` while that one stays away."""

    def __init__(self, paths: Sequence[Path], layout: Layout, name: str, events: Events) -> None:
        """`name`: this process's name in the evaluator's log."""
        self._paths = paths
        self._layout = layout
        self._name = name
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._memory: RingMemory | None = None
        self._free: list[int] = []
        self._sent: dict[int, Leaves] = {}
        """By slot, in the order of sending."""
        self.sent_rows = 0
        """Rows that have no answer yet."""
        self.demand = Demand(0, 0)
        """What the evaluator wants; zeros while there is no evaluator."""
        self._out = bytearray()
        self._is_home = True
        """Whether the evaluator is our own, and not a substitute."""
        self._away_since = self._loop.time()
        self._has_answered = False
        """Whether an answer came over this connection."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        """Return how many slots are free."""
        return len(self._free)

    def send(self, leaves: Leaves) -> None:
        """Write leaves into a free slot. There must be `room`; `flush` sends what was written."""
        assert self._memory is not None
        index = self._free.pop()
        self._memory.slots[index].write(leaves.header, leaves.frames)
        self._sent[index] = leaves
        self.sent_rows += leaves.rows
        self._out.append(index)

    def flush(self) -> None:
        """Tell the evaluator of all slots written since the last call."""
        if self._out and self._socket is not None:
            try:
                # This never waits: the socket's buffer holds the numbers of all slots many times over.
                del self._out[: self._socket.send(self._out)]
            except OSError:
                self._lose()

    def close(self) -> None:
        """End the connection and the timer. `Events.lost` is not called."""
        if self._timer is not None:
            self._timer.cancel()
        self._hang_up()

    # ---- Connection ---------------------------------------------------------------------------

    def start(self) -> None:
        """Dial now, and again until an evaluator answers."""
        self._timer = None
        # Use a substitute only after a long wait: its own workers already fill its batches.
        is_away_for_long = self._loop.time() - self._away_since >= AWAY
        for path in self._paths if is_away_for_long else self._paths[:1]:
            if (found := self._connect(path)) is not None:
                self._is_home = path == self._paths[0]
                if not self._is_home:
                    log.warning("%s is away: using %s meanwhile", self._paths[0].name, path.name)
                self._adopt(found)
                return
        self._timer = self._loop.call_later(REDIAL, self.start)

    def _connect(self, path: Path) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(str(path))
        except OSError:  # no evaluator is there, or not yet
            connection.close()
            return None
        return connection

    def _adopt(self, connection: socket.socket) -> None:
        """Use a new connection, with memory of its own."""
        self._memory, descriptor = create(self._layout)
        try:
            socket.send_fds(connection, [hello(self._layout, self._name)], [descriptor])
        except OSError:  # the evaluator has ended already
            connection.close()
            self._memory = None
            self._timer = self._loop.call_later(REDIAL, self.start)
            return
        finally:
            os.close(descriptor)
        self._socket, self._has_answered = connection, False
        # In descending order, so that `pop` takes the lowest: memory that is never touched costs nothing.
        self._free = list(range(self._layout.slots - 1, -1, -1))
        self._loop.add_reader(connection.fileno(), self._read)
        if not self._is_home:
            self._timer = self._loop.call_later(AWAY, self._go_home)

    def _go_home(self) -> None:
        """Return from a substitute to our own evaluator, if that one is there again."""
        self._timer = None
        if (found := self._connect(self._paths[0])) is None:
            self._timer = self._loop.call_later(AWAY, self._go_home)
            return
        log.info("%s is there again", self._paths[0].name)
        # Our own evaluator gets these leaves again, so the substitute need not answer them.
        returned = self._hang_up()
        self._is_home = True
        self._adopt(found)
        self._events.lost(returned)

    def _lose(self) -> None:
        """Note that the evaluator is gone, and take back its leaves. Those that it had begun to compute may
        have caused its end; the headers of their slots say so."""
        assert self._memory is not None
        for index, leaves in self._sent.items():
            # The evaluator has counted its starts in the slot; our own numbers are older.
            header = self._memory.slots[index].header
            leaves.starts, leaves.wrong = header.starts, header.wrong
        returned = self._hang_up()
        # An evaluator that ends again and again before it has answered has been away all the time.
        if self._is_home and self._has_answered:
            self._away_since = self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(REDIAL, self.start)
        self._events.lost(returned)

    def _hang_up(self) -> list[Leaves]:
        """Close the connection. Returns the unanswered leaves."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        returned = list(self._sent.values())
        self._socket = self._memory = None
        self._sent, self._free, self._out = {}, [], bytearray()
        self.sent_rows, self.demand = 0, Demand(0, 0)
        return returned

    # ---- Answers ------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        memory = self._memory
        if not data or memory is None:
            self._lose()
            return
        for index in data:
            if index == LOOK_AT_HEAD:
                self.demand = memory.demand
                self._events.demanded(self.demand)
            elif index in self._sent:
                leaves, slot = self._sent.pop(index), memory.slots[index]
                self.sent_rows -= leaves.rows
                self._has_answered = True
                version, refused = slot.answer
                priors, wdl = slot.priors[: leaves.actions], slot.wdl[: leaves.rows]
                self._events.answered(leaves, Evaluations(priors, wdl, version), refused)
                if self._memory is not memory:  # the callback has closed this client
                    return
                self._free.append(index)
        self._events.room()


def answered_runs(leaves: Leaves, evaluations: Evaluations) -> Iterator[tuple[int, Evaluations]]:
    """Yield the first row and the evaluations of each run of rows that were not refused."""
    ends = np.concatenate([[0], np.cumsum(leaves.frames[1], dtype=np.int64)])
    is_answered = evaluations.wdl[:, 0] >= 0
    # The rows where runs begin and end; an unanswered row is put at both ends, so that every run has both.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_answered, [False]])))
    for start, end in edges.reshape(-1, 2).tolist():
        priors = evaluations.priors[ends[start] : ends[end]]
        yield start, Evaluations(priors, evaluations.wdl[start:end], evaluations.version)
