"""The evaluator's end of all rings: accepts producers, says which slots are filled, and returns them.

Everything a producer writes is copied before it is checked. A producer that breaks the rules is named in the
log, and its connection is closed. The connection is also closed when the producer's process has ended. Either
way, its unanswered slots are forgotten.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from azselfplay.batching.ring import (
    HELLO_BYTES,
    LOOK_AT_HEAD,
    MOST_BYTES,
    REFUSED,
    SLOT_ROWS,
    BadRing,
    Demand,
    Header,
    Layout,
    RingMemory,
    Slot,
    attach,
)
from azselfplay.host.ports import listen

MOST_TRIES = 1000
"""A slot whose header claims more starts or wrong answers than this holds rubbish, because rows are refused
after two of either."""
_CREDENTIALS = struct.Struct("3i")
log = logging.getLogger("evaluator")


@dataclass(eq=False, slots=True)
class Filled:
    """A slot that its producer has filled. The evaluator holds the slot until it has answered or refused
    it."""

    ring: Ring
    index: int
    header: Header
    """The header when the slot arrived."""
    arrived: float
    """Seconds on the caller's clock."""
    rows: int
    owner: tuple[Ring, int]
    """Whose turns the slot uses: those of a worker, or of one of the front's players."""
    wrong: int = 0
    """How often the answers to some of its rows were not probabilities."""

    @property
    def starts(self) -> int:
        return self.header.starts

    @property
    def slot(self) -> Slot:
        return self.ring.memory.slots[self.index]

    def begin(self) -> None:
        """Note in the slot that its rows are going to be computed."""
        self.slot.begin(self.starts + 1)

    def answer(
        self,
        priors: npt.NDArray[np.generic],
        wdl: npt.NDArray[np.float32],
        version: int,
        refused: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Write the answers, `priors [sum of counts]` and `wdl [rows, 3]`, and return the slot. `refused`:
        [rows] True for rows that are not answered."""
        if not self.ring.is_open:
            return
        slot = self.slot
        slot.priors[: len(priors)] = priors
        slot.wdl[: self.rows] = wdl
        if refused is not None:
            # After the copy, to overwrite the network's answers to these rows.
            slot.wdl[: self.rows][refused] = REFUSED
        slot.end(self.wrong, version, 0 if refused is None else int(refused.sum()))
        self.ring.give_back(self.index)

    def try_again(self) -> None:
        """Note that an answer was wrong, and that the rows will be computed again."""
        self.wrong += 1
        self.slot.end(self.wrong)

    def refuse(self) -> None:
        """Return the slot without answers."""
        if self.ring.is_open:
            self.slot.wdl[: self.rows] = REFUSED
            self.slot.end(self.wrong, refused=self.rows)
            self.ring.give_back(self.index)


class Ring:
    """One producer's ring."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.is_open = True
        self.name = "a producer without a name"
        self.memory: RingMemory
        self._has_hello = False
        self._held: set[int] = set()
        """Slots that the evaluator holds at the moment."""
        self._sent = Demand(0, 0)
        self._out = bytearray()

    def read(self, layout: Layout, now: float) -> list[Filled] | None:
        """Return newly filled slots; None at the end of the connection. Raises BadRing."""
        if not self._has_hello:
            data, descriptors, _, _ = socket.recv_fds(self.connection, HELLO_BYTES, 4)
            if not data and not descriptors:
                return None
            self.memory, self.name = attach(data, descriptors, layout)
            self._has_hello = True
            return []
        data = self.connection.recv(MOST_BYTES)
        if not data:
            return None
        filled = []
        for index in data:
            if index >= len(self.memory.slots):
                raise BadRing(f"slot {index} of {len(self.memory.slots)}")
            # The slot would be computed, and returned, twice.
            if index in self._held:
                raise BadRing(f"slot {index}, which it has not got back yet")
            # One copy is both checked and used, because the producer may change the header meanwhile.
            header = self.memory.slots[index].header
            rows, size, starts, wrong = header.rows, header.legal_bytes, header.starts, header.wrong
            most = layout.mask_bytes * rows if header.is_mask else 2 * layout.max_legal * rows
            if not 1 <= rows <= SLOT_ROWS or not 1 <= size <= most:
                raise BadRing(f"slot {index} with {rows} rows and {size} bytes of actions")
            if not (0 <= starts <= MOST_TRIES and 0 <= wrong <= MOST_TRIES):
                raise BadRing(f"slot {index}, begun {starts} and answered wrongly {wrong} times")
            self._held.add(index)
            filled.append(Filled(self, index, header, now, rows, (self, header.owner), wrong))
        return filled

    @property
    def is_up(self) -> bool:
        """Return whether its producer has said HELLO and is still there."""
        return self._has_hello and self.is_open

    def give_back(self, index: int) -> None:
        """Return a slot to the producer with the next `flush`."""
        self._held.discard(index)
        self._out.append(index)

    def send_demand(self, demand: Demand) -> None:
        """Tell the producer what is wanted of it, if that has changed."""
        if self.is_up and self._sent != demand:
            self._sent = self.memory.demand = demand
            self._out.append(LOOK_AT_HEAD)

    def flush(self) -> bool:
        """Send what is to be sent. Returns False if the producer is gone."""
        if self._out and self.is_open:
            try:
                # This never waits: a producer has at most 250 slots, and a socket holds thousands of bytes.
                del self._out[: self.connection.send(self._out)]
            except OSError:
                return False
        return True

    def close(self) -> None:
        self.is_open = False
        self.connection.close()


class Rings:
    """All rings of one evaluator, behind one Unix socket."""

    def __init__(
        self, path: Path, layout: Layout, selector: selectors.BaseSelector, on_close: Callable[[Ring], None]
    ) -> None:
        """Listen at `path`. The folder around it must be closed to other users. `on_close(ring)` must forget
        the ring's slots. Raises Fatal as `listen` does."""
        self._layout = layout
        self._selector = selector
        self._on_close = on_close
        self.rings: set[Ring] = set()
        self._listener = listen([f"ipc://{path}"])[0]
        selector.register(self._listener, selectors.EVENT_READ, self)

    def accept(self) -> None:
        """Accept producers whose processes belong to this user."""
        with suppress(BlockingIOError, ConnectionError):
            while True:
                connection, _ = self._listener.accept()
                found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                _, user, _ = _CREDENTIALS.unpack(found)
                # The folder should be closed to other users; this check is for a folder that is not.
                if user != os.getuid():
                    log.warning("user %d may not use this evaluator", user)
                    connection.close()
                    continue
                connection.setblocking(False)
                ring = Ring(connection)
                self.rings.add(ring)
                self._selector.register(connection, selectors.EVENT_READ, ring)

    def read(self, ring: Ring, now: float) -> list[Filled]:
        """Return what a producer has filled. Closes the ring if the producer is gone, or writes rubbish."""
        try:
            filled = ring.read(self._layout, now)
        except BlockingIOError:
            return []
        except ConnectionError:  # the producer ended with answers unread
            filled = None
        except (BadRing, OSError) as error:
            self.cut_off(ring, error)
            return []
        # The end of the connection: the process has ended, or has gone to another evaluator.
        if filled is None:
            self.close(ring)
            return []
        return filled

    def cut_off(self, ring: Ring, error: Exception) -> None:
        """Close the ring of a producer that breaks the rules, and log which rule."""
        log.warning("%s is cut off: %s", ring.name, error)
        self.close(ring)

    def close(self, ring: Ring) -> None:
        """Forget a ring. Its memory is freed when no batch on the device needs it any more."""
        if ring in self.rings:
            self.rings.discard(ring)
            self._selector.unregister(ring.connection)
            ring.close()
            self._on_close(ring)

    def flush(self) -> None:
        """Send what is to be sent. Closes the rings whose producers are gone."""
        for ring in [ring for ring in self.rings if not ring.flush()]:
            self.close(ring)
