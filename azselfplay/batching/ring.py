"""The ring: memory that a producer of leaves shares with an evaluator on the same machine.

A worker writes leaves into a free slot, and sends the slot's number as one byte over a Unix socket. The
evaluator computes them, writes the answers into the same slot, and sends the number back. Nothing else
travels, so a leaf costs a copy in and a copy out. The end of the connection means that the other side is
gone.

The producer makes the memory (a memfd, which has no name and no limit such as that of /dev/shm) and passes it
with its HELLO. So the memory outlives an evaluator that is killed; so does the count, in each slot, of how
often an evaluator has begun to compute it. **Each connection has memory of its own**: an evaluator that was
given up but still computes can write only into its old memory.

    head   int64[HEAD_WORDS], written by the evaluator: what it wants of this producer (`Demand`)
    slot   header int64[HEADER_WORDS] | features | counts | legal actions | priors | win, draw, loss
    slot   ...

A slot holds up to `SLOT_ROWS` rows. Only the side that received a slot's number last may write the slot.
Neither side trusts what the other writes: the evaluator copies a slot before it checks the copy, and the
memory is sealed, so that it cannot shrink under its reader.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal

SLOT_ROWS = 256
"""Most rows in a slot. A slot costs both sides the same time in Python however many rows it has, so slots are
large: a device that wants batches of 1,024 rows from eight workers gets 256 at a time."""
MOST_SLOTS = 250
"""Most slots of a ring. A slot's number is one byte; the numbers above have other meanings."""
LOOK_AT_HEAD = 255
"""The byte by which the evaluator says that it has changed the head."""
MOST_BYTES = 4096
"""Most slot numbers read at once."""
HEAD_WORDS = 8
HEADER_WORDS = 8
_HEADER = struct.Struct(f"<{HEADER_WORDS}q")
_STARTS, _ANSWER = struct.Struct("<q"), struct.Struct("<4q")
_STARTS_AT = 8 * 4
"""Offset in bytes of the header words that the evaluator writes."""
_HELLO = struct.Struct("<8sIIIII96s")
_MAGIC = b"azring01"
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_PAGE = 4096

REFUSED = -1.0
"""The probability of a win that stands for "this row is not answered, and never will be"."""


class BadRing(ValueError):
    """The other side broke the rules of the ring. The text says how."""


class Header(NamedTuple):
    """The first words of a slot. The producer writes them all, the evaluator those from `starts` on."""

    rows: int
    legal_bytes: int
    """Size of the legal actions."""
    is_mask: int
    """Whether the legal actions are masks (`Game.mask_bytes` a row), as remote players send them, or a
    list."""
    owner: int
    """Number of the player whose turns these rows use: 0 for a worker; the front has many players."""
    starts: int = 0
    """How often an evaluator began to compute these rows without answering them."""
    wrong: int = 0
    """How often the answer to some of these rows was not a probability."""
    version: int = 0
    """Version of the weights that answered."""
    refused: int = 0
    """Rows that are not answered, and never will be: their probability of a win is `REFUSED`."""


class Demand(NamedTuple):
    """What the evaluator wants of a producer; the first words of the head."""

    games: int
    """Games in flight; 0: its device has no weights yet."""
    rows: int
    """Most rows in a slot."""


@dataclass(frozen=True)
class Layout:
    """Where everything is in the memory, for one game and history. Both sides must use the same layout."""

    words: int
    """uint64 words of a position's features."""
    max_legal: int
    mask_bytes: int
    slots: int

    @classmethod
    def of(cls, game: Game, history: int, slots: int) -> Layout:
        return cls(game.feature_words(history), game.max_legal, game.mask_bytes, slots)

    @property
    def legal_bytes(self) -> int:
        """Return the room for the legal actions of a slot, as a list or as masks."""
        return _rounded(SLOT_ROWS * max(2 * self.max_legal, self.mask_bytes), 64)

    @property
    def offsets(self) -> tuple[int, int, int, int, int, int]:
        """Return where features, counts, legal actions, priors and wdl begin in a slot, and its end."""
        sizes = (
            8 * HEADER_WORDS,
            8 * SLOT_ROWS * self.words,
            2 * SLOT_ROWS,
            self.legal_bytes,
            _rounded(2 * SLOT_ROWS * self.max_legal, 64),
            12 * SLOT_ROWS,
        )
        ends = np.cumsum(sizes).tolist()
        return ends[0], ends[1], ends[2], ends[3], ends[4], _rounded(ends[5], _PAGE)

    @property
    def size(self) -> int:
        return _PAGE + self.slots * self.offsets[-1]


class Slot:
    """One slot as arrays in the shared memory."""

    __slots__ = ("_at", "_memory", "counts", "features", "legal", "priors", "wdl")

    def __init__(self, memory: mmap.mmap, layout: Layout, index: int) -> None:
        self._memory = memory
        features, counts, legal, priors, wdl, size = layout.offsets
        at = self._at = _PAGE + index * size
        rows, words = SLOT_ROWS, layout.words
        self.features = np.frombuffer(memory, np.uint64, rows * words, at + features).reshape(rows, words)
        self.counts = np.frombuffer(memory, np.uint16, rows, at + counts)
        self.legal = np.frombuffer(memory, np.uint8, layout.legal_bytes, at + legal)
        self.priors = np.frombuffer(memory, np.float16, rows * layout.max_legal, at + priors)
        self.wdl = np.frombuffer(memory, np.float32, 3 * rows, at + wdl).reshape(rows, 3)

    @property
    def header(self) -> Header:
        """Return a copy of the header: the other side may write it at any time."""
        return Header(*_HEADER.unpack_from(self._memory, self._at))

    @header.setter
    def header(self, header: Header) -> None:
        _HEADER.pack_into(self._memory, self._at, *header)

    def begin(self, starts: int) -> None:
        """Note that the computing of the rows begins, for the `starts`-th time. If the process dies over
        them, the next one knows."""
        _STARTS.pack_into(self._memory, self._at + _STARTS_AT, starts)

    def end(self, wrong: int, version: int = 0, refused: int = 0) -> None:
        """Note that the rows were computed, and with what result."""
        _ANSWER.pack_into(self._memory, self._at + _STARTS_AT, 0, wrong, version, refused)

    @property
    def answer(self) -> tuple[int, int]:
        """Return the version that answered, and the number of refused rows."""
        _, _, version, refused = _ANSWER.unpack_from(self._memory, self._at + _STARTS_AT)
        return version, refused

    def write(self, header: Header, frames: Sequence[npt.NDArray[Any]]) -> None:
        """Write leaves: `frames` are features, counts and legal actions, as in EVALUATE."""
        features, counts, legal = frames
        self.features[: header.rows] = features
        self.counts[: header.rows] = counts
        self.legal[: header.legal_bytes] = legal.reshape(-1).view(np.uint8)
        self.header = header


class RingMemory:
    """The memory of one connection. Its pages are freed with the last reference to any of its arrays."""

    def __init__(self, descriptor: int, layout: Layout) -> None:
        """Map the memory behind `descriptor`, and close the descriptor. Raises Fatal if there is no room for
        it."""
        self.layout = layout
        try:
            self._memory = mmap.mmap(descriptor, layout.size)
        except (OSError, ValueError) as error:
            raise _no_memory(layout, error) from error
        finally:
            os.close(descriptor)
        # Views, not copies: what the other side writes is seen at once.
        self._head = np.frombuffer(self._memory, np.int64, HEAD_WORDS, 0)
        self.slots = [Slot(self._memory, layout, index) for index in range(layout.slots)]

    @property
    def demand(self) -> Demand:
        return Demand(*self._head[:2].tolist())

    @demand.setter
    def demand(self, demand: Demand) -> None:
        self._head[:2] = demand


def create(layout: Layout) -> tuple[RingMemory, int]:
    """Return new memory, and a descriptor to pass on and close. Raises Fatal if there is no room for it."""
    descriptor = -1
    try:
        descriptor = os.memfd_create("azselfplay-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, layout.size)
        # The size is set before, because the seals freeze it.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        return RingMemory(os.dup(descriptor), layout), descriptor
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise _no_memory(layout, error) from error


def hello(layout: Layout, name: str) -> bytes:
    """Return the first bytes of a connection; the descriptor of the memory travels with them. `name` is for
    the evaluator's log."""
    words = layout.words, layout.max_legal, layout.mask_bytes, layout.slots
    return _HELLO.pack(_MAGIC, *words, SLOT_ROWS, name.encode()[:96])


HELLO_BYTES = _HELLO.size


def attach(data: bytes, descriptors: Sequence[int], expected: Layout) -> tuple[RingMemory, str]:
    """Return the memory that came with a HELLO, and the producer's name. Closes the descriptors.

    `expected`: the evaluator's own layout; only the number of slots may differ. Raises BadRing if anything is
    not as it should be: another game, memory of another size, or memory that could shrink."""
    kept = -1
    try:
        if len(data) != _HELLO.size or len(descriptors) != 1:
            raise BadRing(f"a HELLO of {len(data)} bytes with {len(descriptors)} descriptors")
        magic, words, max_legal, mask_bytes, slots, rows, name = _HELLO.unpack(data)
        layout = Layout(words, max_legal, mask_bytes, slots)
        # The rows of a slot are part of the format: both sides must be of the same version.
        if magic != _MAGIC or rows != SLOT_ROWS:
            raise BadRing("a HELLO of another version of azselfplay")
        if not 1 <= slots <= MOST_SLOTS:
            raise BadRing(f"{slots} slots, expected 1 to {MOST_SLOTS}")
        if (words, max_legal, mask_bytes) != (expected.words, expected.max_legal, expected.mask_bytes):
            raise BadRing(f"rings of another game or history: {layout}, expected {expected}")
        (descriptor,) = descriptors
        size = os.fstat(descriptor).st_size
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError as error:
            raise BadRing("the memory is an ordinary file, which could shrink") from error
        # Memory that shrinks under its reader ends the reader with SIGBUS.
        if size != layout.size or seals & _SEALS != _SEALS:
            raise BadRing(f"memory of {size} bytes with seals {seals}, expected {layout.size} and {_SEALS}")
        # `RingMemory` closes this one itself.
        kept = descriptor
        return RingMemory(descriptor, layout), name.rstrip(b"\0").decode(errors="replace")
    finally:
        for descriptor in descriptors:
            if descriptor != kept:
                os.close(descriptor)


def _rounded(size: int, to: int) -> int:
    return -(-size // to) * to


def _no_memory(layout: Layout, error: Exception) -> Fatal:
    mib = layout.size / 2**20
    what = f"there is no memory for a ring of {layout.slots} slots ({mib:.0f} MiB): {error}"
    return Fatal(
        f"{what}; give this machine or container more memory, or start fewer workers", Exit.TRY_AGAIN
    )
