"""The weights of a run: the files on disk, and the chunks of them that peers request.

weights/000045-1a2b3c4d.safetensors    the newest `KEPT` files, and `PAST` older ones spread over the run
weights/current.json                   version, step, sha256, size, game, architecture of the one in use
weights/newest                         a link to that one (`link.weights_files`)
weights/*.partial                      a file that is being written, or whose writer was killed

`WeightsStore` never leaves a file half written. `ChunkService` sends chunks in the order of `ChunkQueue`:
peers take turns, and a peer's oldest request comes first. Weights are the only answer that is larger than its
question, by a factor of ten thousand. So a turn of the event loop sends one chunk at most, and a peer that
has not read its previous chunk waits. There is no limit in bytes a second: for a crowd, let a web server send
the weights (`--weights-url`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.reading import read_struct
from azselfplay.host.runs import reach, write_atomically
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
"""Number of older files to keep, always including the first, about evenly spread over the versions: `azplay
ladder` rates them later. A file is 0.2 MB (tiny) to 90 MB (alphazero: 6 GB in all). AlphaZero's Figure 1
needs no more points."""
IN_USE, MOST_READ = 120.0, 16
"""A file stays until nobody has read it for so many seconds, so that slow downloads come to an end; but at
most so many files."""
CHUNKS_KEPT = 128
"""Chunks in memory, 64 MiB: a whole network of that size or less. Clients that hear of new weights together
request the same chunk within seconds."""
MOST_CHUNKS = 8
"""Most chunks that may wait for one peer (`docs/protocol.md`)."""
RETRY = 1.0
"""Seconds after which a peer asks again for a chunk beyond those."""


class WeightsStore:
    """The folder of a run's weights. Only this process writes to it."""

    def __init__(self, folder: Path, game: str, kept: int = KEPT, past: int = PAST) -> None:
        self.current: WeightsInfo | None = None
        """The weights that players are told of; set by `open` and `adopt`."""
        self._is_saved = True
        """Whether `current.json` names `current`."""
        self._save_at = 0.0
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
            text = "%s cannot be written (%s), trying again in %g s"
            log.warning(text, self.about, error.strerror, SAVE_AGAIN)
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
            # By version, because times are lost with `cp -r`, and a clock may have been set back.
            files = sorted(self._folder.glob("*.safetensors"), key=version_in)
        except OSError as error:  # only space is lost
            log.warning("%s cannot be read: %s", self._folder, error.strerror)
            return
        older = files[: -self._kept]
        stay = evenly_spread([*map(version_in, older)], self._past)
        for index, path in enumerate(older):
            try:
                if index not in stay and path not in needed:
                    path.unlink(missing_ok=True)
            except OSError as error:  # only space is lost
                log.warning("%s cannot be removed: %s", path, error.strerror)

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

    def __init__(self, store: WeightsStore) -> None:
        self._store = store
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
        if self._queue.has(peer, message):
            self.port.charge(peer)
        elif self._queue.put(peer, message):
            self._wake.set()
        else:
            reason = "too many chunks asked for"
            self.port.refuse(peer, Code.BUSY, reason, message.offset, retry_after=RETRY)

    def session_ended(self, session: Session) -> None:
        self._queue.forget(session.peer)

    async def run(self) -> None:
        """Send at most one chunk per turn of the event loop, so that leaves never wait behind a crowd of
        downloads."""
        # A peer that has read its last chunk may get the next one.
        self.port.door.on_drained = self._wake.set
        while True:
            taken = self._queue.take()
            if taken is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            peer, message = taken
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
            except Exception as error:  # no file descriptor left, or a disk that cannot be read
                self.port.fault(peer, message, error)
            # Give leaves that came meanwhile their turn.
            await asyncio.sleep(0)


class ChunkQueue:
    """The chunks that peers have requested. First come, first served within a peer; peers take turns."""

    def __init__(self, reads: Callable[[bytes], bool]) -> None:
        """`reads(peer)` tells whether the peer has read everything that was sent to it."""
        self._reads = reads
        self._requests: OrderedDict[bytes, deque[GetChunk]] = OrderedDict()
        """Of each peer that waits, in the order of their turns."""

    def has(self, peer: bytes, request: GetChunk) -> bool:
        """Return whether this request waits already: a client asks again after some seconds."""
        return request in self._requests.get(peer, ())

    def put(self, peer: bytes, request: GetChunk) -> bool:
        """Queue a request for a chunk. Returns False if too many wait for this peer."""
        mine = self._requests.setdefault(peer, deque())
        if len(mine) >= MOST_CHUNKS:
            return False
        mine.append(request)
        return True

    def take(self) -> tuple[bytes, GetChunk] | None:
        """Return peer and request of the chunk to send now; None if nobody who reads waits for one."""
        peer = next(filter(self._reads, self._requests), None)
        if peer is None:
            return None
        request = self._requests[peer].popleft()
        if self._requests[peer]:
            self._requests.move_to_end(peer)
        else:
            del self._requests[peer]
        return peer, request

    def forget(self, peer: bytes) -> None:
        """Drop the requests of a peer that is gone."""
        self._requests.pop(peer, None)
