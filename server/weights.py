"""The weights of a run: the files on disk, and the chunks of them that peers request.

weights/000045-1a2b3c4d.safetensors    the newest `KEPT` files, and `PAST` older ones spread over the run
weights/current.json                   version, step, sha256, size, game, architecture of the one in use
weights/newest                         a link to that one (`link.weights_files`)
weights/*.partial                      a file that is being written, or whose writer was killed

`WeightsStore` never leaves a file half written. `ChunkService` sends chunks at the rates of `ChunkQueue`,
which is pure. Weights are the only answer that is larger than its question, by a factor of ten thousand, so
they are limited in bytes a second per place and in total. A place is a key or, where no keys are used, an
address. Places take turns, and so do the peers of one place; a peer's oldest request comes first. Requests
beyond the rate wait, and so do those of a peer that has not yet read its previous chunk; nothing is lost. The
address "" (processes of this machine) has no rate limit of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from azselfplay.host.crash_points import reach
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.logs import Repeated
from azselfplay.host.reading import read_struct
from azselfplay.host.runs import write_atomically
from azselfplay.link.pacing import MEBIBYTE, Pace, PaceLimits, Paces
from azselfplay.link.weights_files import evenly_spread, find_weights, point_newest, version_in, weights_path
from azselfplay.link.weights_pull import answer
from protocol.errors import Code
from protocol.messages import CHUNK, GetChunk, GetWeights, WeightsInfo
from protocol.sessions import Session
from server.port import Port

log = logging.getLogger(__name__)
KEPT = 8
"""Number of newest files to keep. A client whose file is gone asks for the current one instead."""
SAVE_AGAIN = 5.0
"""Seconds between two attempts to write `current.json` to a full disk."""
PAST = 56
"""Number of older files to keep, always including the first, about evenly spread in time: `azplay ladder`
rates them later. A file is 0.2 MB (tiny) to 90 MB (alphazero: 6 GB in all). AlphaZero's Figure 1 needs no
more points."""
IN_USE, MOST_READ = 120.0, 16
"""A file stays until nobody has read it for so many seconds, so that slow downloads come to an end; but at
most so many files."""
CHUNKS_KEPT = 128
"""Chunks in memory, 64 MiB: a whole network of that size or less. Clients that hear of new weights together
request the same chunk within seconds."""
TO_PLACE = PaceLimits(rate=32.0 * MEBIBYTE, burst=64.0 * MEBIBYTE)
"""Limits of bytes sent to one place: AlphaZero's network (90 MB) takes a second, and eight clients there get
it within 20 s."""
TO_ALL = PaceLimits(rate=256.0 * MEBIBYTE, burst=256.0 * MEBIBYTE)
"""Limits of bytes sent to all places together."""
LEAST_PRICE = 256 * 1024
"""Least bytes that a chunk counts for, because looking it up and opening its file costs time."""
MOST_CHUNKS = 8
"""Most chunks that may wait for one peer (`docs/protocol.md`)."""
MOST_OF_PLACE = 4096
"""Most chunks that may wait for one place: 512 clients behind one address."""
MOST = 16_384
"""Most chunks that may wait in total."""


class WeightsStore:
    """The folder of a run's weights. Only this process writes to it."""

    def __init__(self, folder: Path, game: str, kept: int = KEPT, past: int = PAST) -> None:
        self.current: WeightsInfo | None = None
        """The weights that players are told of; set by `open` and `adopt`."""
        self._is_saved = True
        """Whether `current.json` names `current`."""
        self._save_at = 0.0
        self._repeated = Repeated(log)
        self._folder = folder
        self._game = game
        self._kept = kept
        self._past = past
        self.about = folder / "current.json"
        self.needed: frozenset[bytes] = frozenset()
        """Hashes of files that are kept besides the current one: those of a gate."""
        self._read_at: dict[bytes, float] = {}
        """When each file was last read by somebody, by its hash."""

    def path(self, info: WeightsInfo) -> Path:
        return weights_path(self._folder, info)

    def has(self, info: WeightsInfo) -> bool:
        return self.path(info).exists()

    def open(self) -> WeightsInfo | None:
        """Read the current weights and use them. Returns None in a new run. Raises what `read` raises."""
        for part in self._folder.glob("*.partial"):
            # Left half written by a crash.
            part.unlink()
        self.current = self.read()
        if self.current is not None:
            # A crash may have come between writing `current.json` and setting the link.
            point_newest(self.path(self.current))
        return self.current

    def read(self) -> WeightsInfo | None:
        """Return the current weights on the disk, after checking the file's hash. None in a new run.

        Raises Fatal(BAD_DATA) when the folder does not hold what `current.json` says, Fatal(DISK) when a file
        cannot be read now.
        """
        try:
            info = read_struct(self.about, WeightsInfo)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Fatal(f"{self.about} cannot be read: {error.strerror}", Exit.DISK) from error
        except ValueError as error:
            raise self._damaged(f"{self.about} cannot be read ({error})") from error
        if info.game != self._game:
            raise self._damaged(f"{self.about} is for the game {info.game}, this run plays {self._game}")
        path = self.path(info)
        try:
            with path.open("rb") as file:
                # Hash the whole file, because the disk may have changed it since it was stored.
                digest = hashlib.file_digest(file, "sha256").digest()
        except FileNotFoundError as error:
            raise self._damaged(f"{path} is missing") from error
        except OSError as error:
            raise Fatal(f"{path} cannot be read: {error.strerror}", Exit.DISK) from error
        if digest != info.sha256:
            raise self._damaged(f"{path} is damaged: its sha256 is {digest.hex()}")
        return info

    def put(self, info: WeightsInfo, data: bytes | bytearray) -> None:
        """Store a file that may become current later, so that it survives a power loss. This may take a
        while. Raises OSError if the disk does not take it."""
        write_atomically(self.path(info), data)

    def add(self, data: bytes, version: int, step: int, architecture: str) -> WeightsInfo:
        """Store a file that was made here (an untrained network) and make it the current one."""
        sha256 = hashlib.sha256(data).digest()
        info = WeightsInfo(version, step, sha256, len(data), self._game, architecture)
        self.put(info, data)
        self.adopt(info)
        return info

    def adopt(self, info: WeightsInfo) -> None:
        """Make a file that is stored here the current one from now on.

        If the disk cannot be written, `current.json` names the previous one until `save` succeeds; after a
        restart that one would be current again.
        """
        self.current = info
        self._is_saved, self._save_at = False, 0.0
        self.save(time.monotonic())

    def save(self, now: float) -> None:
        """Write `current.json` if that failed before. To be called every second or so."""
        if self._is_saved or self.current is None or now < self._save_at:
            return
        try:
            # This file first: a restart goes by it.
            write_atomically(self.about, msgspec.json.encode(self.current))
            point_newest(self.path(self.current))
        except OSError as error:
            self._save_at = now + SAVE_AGAIN
            text = f"{self.about} cannot be written ({error.strerror}), trying again in {SAVE_AGAIN:g} s"
            self._repeated.warning("save", text, now)
            return
        self._is_saved = True
        reach("weights.adopted")
        # Only now: until the write, `current.json` named an older file, which had to stay.
        self.tidy()

    def tidy(self) -> None:
        """Remove older files, except those spread over the run and those that are needed."""
        if not self._is_saved:
            return  # a crash would need the file that current.json names
        current = {self.current.sha256} if self.current else set()
        now = time.monotonic()
        self._read_at = {sha256: at for sha256, at in self._read_at.items() if now - at < IN_USE}
        read = sorted(self._read_at, key=self._read_at.__getitem__)[-MOST_READ:]
        try:
            needed = {find_weights(self._folder, sha256) for sha256 in (*self.needed, *current, *read)}
            # Pick the newest by version, because a clock may have been set back. Sort the others by time, to
            # spread them over it.
            files = sorted(self._folder.glob("*.safetensors"), key=version_in)
        except OSError as error:  # only space is lost
            self._repeated.warning("tidy", f"{self._folder} cannot be read: {error.strerror}", now)
            return
        older = []
        for path in files[: -self._kept]:
            with suppress(OSError):  # somebody has just removed it
                older.append((path.stat().st_mtime_ns, path))
        older.sort()
        stay = evenly_spread([written for written, _ in older], self._past)
        for index, (_, path) in enumerate(older):
            try:
                if index not in stay and path not in needed:
                    path.unlink(missing_ok=True)
            except OSError as error:  # only space is lost
                self._repeated.warning("tidy", f"{path} cannot be removed: {error.strerror}", now)

    def was_read(self, sha256: bytes) -> None:
        """Note that somebody downloads this file."""
        self._read_at[sha256] = time.monotonic()

    def forget(self, info: WeightsInfo) -> None:
        """Remove a file that no evaluator accepts."""
        # The same bytes may have come again under another version, and be in use.
        if self.current is None or self.current.sha256 != info.sha256:
            self.path(info).unlink(missing_ok=True)

    def chunk(self, sha256: bytes, offset: int) -> bytes | None:
        """Return at most `CHUNK` bytes of a file, b"" at its end; None if the file is not stored (any
        more)."""
        current = self.current
        if current is not None and current.sha256 == sha256:
            path: Path | None = self.path(current)  # without searching the folder
        else:
            path = find_weights(self._folder, sha256)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(CHUNK)
        except FileNotFoundError:
            return None

    def _damaged(self, what: str) -> Fatal:
        return Fatal(
            f"{what}; restore {self._folder} from a backup, or delete current.json in it to begin with an "
            "untrained network again (the games stay)",
            Exit.BAD_DATA,
        )


class ChunkService:
    """Answers who asks for weights: connects queue and store. `port` is set once it exists."""

    port: Port

    def __init__(self, store: WeightsStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._queue = ChunkQueue(lambda peer: not self.port.door.unsent(peer))
        self._read: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        """Chunks by hash of the file and offset, least recently read first."""
        self._wake = asyncio.Event()
        """Set when a chunk was requested, or a peer has read what was sent."""

    def on_get_weights(self, session: Session, _message: GetWeights, _frames: list[memoryview]) -> None:
        if self._store.current is None:
            self.port.refuse(session.peer, Code.NO_WEIGHTS, "no weights yet", 0, retry_after=3.0)
        else:
            self.port.send(session.peer, self._store.current)

    def on_get_chunk(self, session: Session, message: GetChunk, _: list[memoryview]) -> None:
        peer = session.peer
        place = f"key {session.owner}" if session.owner else self.port.door.address(peer)
        if self._queue.has(peer, place, message):
            self.port.charge(peer)
        elif self._queue.put(peer, place, message):
            self._wake.set()
        else:
            reason, pause = "too many chunks asked for", self._queue.retry_after(place)
            self.port.refuse(peer, Code.BUSY, reason, message.offset, retry_after=pause)

    def session_ended(self, session: Session) -> None:
        self._queue.forget(session.peer)

    def tick(self, now: float) -> None:
        self._queue.tidy(now)

    async def run(self) -> None:
        """Send at most one chunk per turn of the event loop, so that leaves never wait behind a crowd of
        downloads."""
        # A peer that has read its last chunk may get the next one.
        self.port.door.on_drained = self._wake.set
        while True:
            now = self._clock()
            taken = self._queue.take(now)
            if taken is None:
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._queue.wait(now)):
                        await self._wake.wait()
                continue
            peer, place, message = taken
            size = 0
            try:
                # Read a chunk once while many peers request it: a hash names the bytes uniquely.
                place_in_file = message.sha256, message.offset
                data = self._read.pop(place_in_file, None) or self._store.chunk(*place_in_file)
                if data and not message.offset % CHUNK:  # other offsets are requested by one peer only
                    self._read[place_in_file] = data
                    if len(self._read) > CHUNKS_KEPT:
                        self._read.popitem(last=False)
                if data is None:
                    self.port.charge(peer)
                else:
                    self._store.was_read(message.sha256)
                self.port.send(peer, *answer(message, data))
                size = len(data or b"")
            except Exception as error:  # no file descriptor left, or a disk that cannot be read
                self.port.fault(peer, message, error)
            self._queue.sent(place, size, now)
            # Give leaves that came meanwhile their turn.
            await asyncio.sleep(0)


@dataclass
class _Place:
    """The peers of a place, in the order of their turns, each with its requests."""

    peers: OrderedDict[bytes, deque[GetChunk]] = field(default_factory=OrderedDict)
    count: int = 0


class ChunkQueue:
    """First come, first served within a peer; peers and places take turns."""

    def __init__(
        self, reads: Callable[[bytes], bool], pace: PaceLimits = TO_PLACE, to_all: PaceLimits = TO_ALL
    ) -> None:
        """`reads(peer)` tells whether the peer has read everything that was sent to it."""
        self._reads = reads
        self._rates = pace.rate, to_all.rate
        self._paces = Paces(pace)
        self._to_all = Pace(to_all, 0.0)
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has(self, peer: bytes, place: str, request: GetChunk) -> bool:
        """Return whether this request waits already: a client asks again after some seconds."""
        at = self._places.get(place)
        return at is not None and request in at.peers.get(peer, ())

    def put(self, peer: bytes, place: str, request: GetChunk) -> bool:
        """Queue a request for a chunk. Returns False if too many wait for this peer, its place, or in
        total."""
        at = self._places.get(place) or _Place()
        mine = at.peers.get(peer, deque())
        if len(mine) >= MOST_CHUNKS or at.count >= MOST_OF_PLACE or self._count >= MOST:
            return False
        # Only now, so that a refused request leaves no empty entries.
        self._places[place] = at
        at.peers[peer] = mine
        at.count += 1
        self._count += 1
        mine.append(request)
        return True

    def take(self, now: float) -> tuple[bytes, str, GetChunk] | None:
        """Return peer, place and request of the chunk to send now; None when nothing may be sent yet."""
        if self._to_all.wait(now):
            return None
        for place, at in self._places.items():
            # A place that has used up its rate is passed over, and keeps its turn.
            peer = None if self._paces.wait(place, now) else self._next_at(at)
            if peer is None:
                continue
            request = at.peers[peer].popleft()
            at.peers.move_to_end(peer)
            self._places.move_to_end(place)
            self._removed(1, peer, place)
            return peer, place, request
        return None

    def sent(self, place: str, size: int, now: float) -> None:
        """Note that a chunk of `size` bytes was sent to `place`."""
        # Even an answer without bytes cost a look at the disk.
        price = max(size, LEAST_PRICE)
        self._paces.take(place, now, price)
        self._to_all.take(now, price)

    def wait(self, now: float) -> float | None:
        """Return seconds until `take` returns something; None: not before something is requested or read."""
        # Looking at all places takes too long for every chunk of a crowd.
        if self._places and (pause := self._to_all.wait(now)):
            return pause
        # Only places with a peer that reads: the others wait for the peer, not for time.
        ready = (place for place, at in self._places.items() if self._next_at(at) is not None)
        return min((self._paces.wait(place, now) for place in ready), default=None)

    def retry_after(self, place: str) -> float:
        """Return the seconds in which what waits for `place`, and in total, can be sent; at least 1."""
        of_place = self._places[place].count if place in self._places else 0
        # This machine's own processes have no rate of their own.
        rate, of_all = self._rates if place else (math.inf, self._rates[1])
        return max(1.0, of_place * CHUNK / rate, self._count * CHUNK / of_all)

    def forget(self, peer: bytes) -> None:
        """Drop the requests of a peer that is gone."""
        for place, at in self._places.items():
            if (mine := at.peers.get(peer)) is not None:
                count = len(mine)
                mine.clear()
                self._removed(count, peer, place)
                return

    def tidy(self, now: float) -> None:
        """Forget places that were served long ago. To be called regularly."""
        self._paces.tidy(now)

    def _next_at(self, at: _Place) -> bytes | None:
        return next(filter(self._reads, at.peers), None)

    def _removed(self, count: int, peer: bytes, place: str) -> None:
        """Note that `count` requests of a peer no longer wait."""
        at = self._places[place]
        self._count -= count
        at.count -= count
        if not at.peers[peer]:
            del at.peers[peer]
        if not at.peers:
            del self._places[place]
