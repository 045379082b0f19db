"""How weights travel, in both directions: whoever wants them requests chunks, whoever has them answers.

    WEIGHTS_INFO (or WELCOME) -> GET_CHUNK, at most `WINDOW` unanswered -> CHUNK ... -> sha256 checked

Players pull the current weights from azserver, and azserver pulls new ones from the trainer. `WeightsPull` is
the whole decision of the one who pulls, and pure: events with `now` in, instructions out. The weights
announced last are requested, and unfinished downloads of others are dropped. What came stays over a cut
connection. The one who serves has no state at all: `answer` is its part. The hash is computed as the chunks
come, so that the last one of a large file does not hold up the event loop.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from itertools import chain, islice

from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, Refused, WeightsInfo

WINDOW = 8
"""Chunks requested and not yet received: 4 MB in flight keep a fast line busy."""
TIMEOUT = 10.0
"""Seconds until a chunk is requested again."""
LARGEST = 2 * 1024**3
"""Most bytes of weights that travel; the largest preset has some 100 MB."""
PAUSE = 3.0
"""Seconds to wait after the server refused a chunk (it may have removed the file meanwhile)."""
TRIES = 6
"""How often a file is fetched whose bytes do not have the announced hash. The pauses between double."""


@dataclass(frozen=True)
class Ask:
    """Send GET_CHUNK."""

    sha256: bytes
    offset: int


@dataclass(frozen=True)
class Complete:
    """These bytes have the announced hash: try to use them, then report `settled`."""

    info: WeightsInfo
    data: bytes | bytearray


@dataclass(frozen=True)
class Damaged:
    """The received bytes have another hash. This only needs a line in the log."""

    info: WeightsInfo
    tries: int
    """Tries so far, of TRIES."""
    pause: float
    """Seconds before the next try; 0: these weights are given up."""


Instruction = Ask | Complete | Damaged


def answer(
    request: GetChunk, data: bytes | memoryview | None
) -> tuple[Chunk, bytes | memoryview] | tuple[Refused]:
    """Return what to send to whoever requests a chunk. `data`: its bytes; None: the file is not kept."""
    if data is None:
        reason = "these weights are no longer kept: ask for the current ones"
        return (Refused(Code.UNKNOWN_WEIGHTS, reason, request.offset),)
    return Chunk(request.sha256, request.offset), data


class WeightsPull:
    """At most one file is being downloaded, and only while no complete one waits for its verdict."""

    def __init__(self, window: int = WINDOW, timeout: float = TIMEOUT) -> None:
        self.in_use: WeightsInfo | None = None
        self._damaged_now = 0
        """Tries that ended in a wrong hash, of the weights that are being downloaded."""
        self._window = window
        self._timeout = timeout
        self._joined = False
        self._newest: WeightsInfo | None = None
        """The weights to be downloaded next, or at the moment; None: none."""
        self._refused: tuple[int, bytes] | None = None
        """Version and hash of the weights last found unusable: they are not tried again."""
        self._pulling: WeightsInfo | None = None
        self._settling = False
        self._data = bytearray()
        self._digest, self._digested = hashlib.sha256(), 0
        """Of the bytes before the first one that has not come, and how many these are."""
        self._to_ask: deque[int] = deque()
        self._asked: dict[int, float] = {}
        """Offset -> when to request the chunk again."""
        self._paused_until = 0.0

    def offered(self, info: WeightsInfo | None, now: float) -> list[Instruction]:
        """Handle an announcement of current weights. Older ones than ours were announced before them."""
        if info is not None and info.version > self._best and self._is_usable(info):
            self._newest, self._damaged_now = info, 0
        return self._go_on(now)

    def _is_usable(self, info: WeightsInfo) -> bool:
        return 0 < info.size <= LARGEST and (info.version, info.sha256) != self._refused

    @property
    def _best(self) -> int:
        """Return the version being downloaded, else that in use; -1 if there is none."""
        known = self._newest or self.in_use
        return -1 if known is None else known.version

    def is_new(self, version: int) -> bool:
        """Return whether the server has weights that it has not announced, or whose announcement was lost."""
        refused = -1 if self._refused is None else self._refused[0]
        return version > max(self._best, refused)

    def joined(self, info: WeightsInfo | None, now: float) -> list[Instruction]:
        """Handle WELCOME, which names the current weights: request again what was requested and did not come.

        Older weights than ours, or others of the same version, come from a server whose run was restored from
        a backup. They count, because it accepts no games of versions that it does not know.
        """
        if info is not None and info == self.in_use and not self._settling:
            self._newest = self._pulling = info = None
        return self.wanted(info if info is None or self._is_usable(info) else None, now)

    def wanted(self, info: WeightsInfo | None, now: float) -> list[Instruction]:
        """Pull these weights whatever became of them before; None: those that are being pulled. Request again
        what was requested and did not come."""
        self._joined = True
        self._ask_again(list(self._asked))
        if info is not None and info != self._newest:
            self._newest, self._damaged_now = info, 0
        return self._go_on(now)

    def lost(self) -> None:
        self._joined = False

    def expects(self, sha256: bytes, offset: int, size: int) -> bool:
        """Return whether a chunk of `size` bytes was requested and has not come."""
        info = self._pulling
        if info is None or sha256 != info.sha256 or offset not in self._asked:
            return False
        return size == min(CHUNK, info.size - offset)

    def chunk(self, sha256: bytes, offset: int, data: bytes | memoryview, now: float) -> list[Instruction]:
        """Handle a chunk. Ignored if it was not requested or has the wrong length."""
        info = self._pulling
        if info is None or not self.expects(sha256, offset, len(data)):
            return []
        del self._asked[offset]
        self._data[offset : offset + len(data)] = data
        self._digest_on()
        if self._asked or self._to_ask:
            return self._go_on(now)
        return self._all_here(info, now)

    def chunk_postponed(self, offset: int, until: float) -> None:
        """Handle a server that has this chunk but does not send it now: request it again at `until`."""
        if offset in self._asked:
            self._asked[offset] = until

    def chunk_refused(self, now: float) -> None:
        """Handle a server that no longer has the file: start again with the newest, after a pause."""
        if not self._settling:
            self._pulling = None
            self._paused_until = now + PAUSE

    def settled(self, usable: bool, now: float) -> list[Instruction]:
        """Handle the verdict on what `Complete` delivered."""
        assert self._pulling is not None
        if usable:
            self.in_use = self._pulling
        else:
            self._refused = (self._pulling.version, self._pulling.sha256)
        self._done_with(self._pulling)
        return self._go_on(now)

    def tick(self, now: float) -> list[Instruction]:
        self._ask_again([offset for offset, deadline in self._asked.items() if deadline <= now])
        return self._go_on(now)

    def next_wake(self) -> float | None:
        """Return when `tick` has something to do; None if only another event can change anything."""
        if not self._joined or self._newest is None or self._settling:
            return None
        if self._pulling is None:
            return self._paused_until
        return min(self._asked.values(), default=None)

    def _go_on(self, now: float) -> list[Instruction]:
        if self._newest is None or self._settling or not self._joined or now < self._paused_until:
            return []
        if self._pulling is not self._newest:
            self._pulling = self._newest
            self._data = bytearray(self._newest.size)
            self._digest, self._digested = hashlib.sha256(), 0
            self._to_ask = deque(range(0, self._newest.size, CHUNK))
            self._asked = {}
        asks: list[Instruction] = []
        while self._to_ask and len(self._asked) < self._window:
            offset = self._to_ask.popleft()
            self._asked[offset] = now + self._timeout
            asks.append(Ask(self._pulling.sha256, offset))
        return asks

    def _all_here(self, info: WeightsInfo, now: float) -> list[Instruction]:
        if self._digest.digest() != info.sha256:
            return self._damaged(info, now)
        self._settling = True
        return [Complete(info, self._data)]

    def _digest_on(self) -> None:
        """Digest the bytes up to the first chunk that has not come. Those that are to be requested again, a
        window of them at most, stand before all others."""
        missing = chain(self._asked, islice(self._to_ask, self._window + 1))
        end = min(missing, default=len(self._data))
        if end > self._digested:
            self._digest.update(memoryview(self._data)[self._digested : end])
            self._digested = end

    def _damaged(self, info: WeightsInfo, now: float) -> list[Instruction]:
        self._damaged_now += 1
        if self._damaged_now >= TRIES:
            self._refused = (info.version, info.sha256)
            self._done_with(info)
            return [Damaged(info, TRIES, 0.0), *self._go_on(now)]
        pause = PAUSE * 2 ** (self._damaged_now - 1)
        self._pulling, self._paused_until = None, now + pause
        return [Damaged(info, self._damaged_now, pause)]

    def _ask_again(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self._asked[offset]
        self._to_ask.extendleft(reversed(offsets))

    def _done_with(self, info: WeightsInfo) -> None:
        self._settling = False
        self._pulling = None
        self._data = bytearray()
        if self._newest is info:
            self._newest = None
