"""How weights travel, in both directions: one side requests chunks, the side with the file answers.

    WEIGHTS_INFO (or WELCOME) -> GET_CHUNK, at most `WINDOW` unanswered -> CHUNK ... -> sha256 checked

Players pull the current weights from azserver, and azserver pulls new ones from the trainer. `WeightsPull`
makes all decisions of the pulling side, and is pure: events with `now` in, instructions out. A player
finishes the download that has begun, and then requests the weights announced last: otherwise, where a
download takes longer than the time between two versions, no file would ever be whole. Received chunks
survive a cut connection. The serving side has no state at all: `answer` is its part. The hash is computed as
the chunks come, so that the last one of a large file does not hold up the event loop.

A server may name a folder on a web server that also has its files (`weights_url`). The files are then read
from the web server, in the same chunks but in one stream. Only a file that is missing or damaged there is
requested from the server.

`link.weights_downloader` does the I/O.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from itertools import chain, islice

from azselfplay.link.weights_files import LARGEST
from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, Refused, WeightsInfo

WINDOW = 8
"""Chunks requested and not yet received: 4 MB in flight keep a fast line busy."""
TIMEOUT = 10.0
"""Seconds until a chunk is requested again; doubles for the rest of the file whenever chunks are late."""
LONGEST_TIMEOUT = 160.0
"""Longest such time in seconds. A line of 0.4 Mbit/s takes it for two copies of a window."""
PAUSE = 3.0
"""Seconds to wait after the server refused a chunk (it may have removed the file meanwhile)."""
TRIES = 6
"""How often a file is fetched whose bytes do not have the announced hash. Pauses between the tries double."""


@dataclass(frozen=True)
class Complete:
    """These bytes have the announced hash: try to use them, then report `settled`."""

    info: WeightsInfo
    data: bytes | bytearray


@dataclass(frozen=True)
class WrongHash:
    """The received bytes have another hash. This only needs a line in the log."""

    info: WeightsInfo
    tries: int
    """Tries so far, of TRIES."""
    pause: float
    """Seconds before the next try; 0: these weights are given up."""


@dataclass(frozen=True)
class Fetch:
    """Read the file from the folder `url` on a web server, and no other file; pass its pieces to `chunk`."""

    info: WeightsInfo
    url: str


@dataclass(frozen=True)
class NotFetched:
    """Stop reading the file from the web server: the server itself sends it. The reason is for the log."""

    info: WeightsInfo
    reason: str


Instruction = GetChunk | Complete | WrongHash | Fetch | NotFetched


def answer(
    request: GetChunk, data: bytes | memoryview | None
) -> tuple[Chunk, bytes | memoryview] | tuple[Refused]:
    """Return what to send to whoever requests a chunk. `data`: its bytes; None: the file is not kept."""
    if data is None:
        reason = "these weights are no longer kept: ask for the current ones"
        return (Refused(Code.UNKNOWN_WEIGHTS, reason, request.offset),)
    return Chunk(request.sha256, request.offset), data


class _Download:
    """The file that is being downloaded."""

    def __init__(self, info: WeightsInfo, patience: float, *, from_web: bool) -> None:
        self.info = info
        self.from_web = from_web
        """Whether it comes from the web server, and not in answers of the server."""
        self.data = bytearray(info.size)
        self.to_ask = deque(range(0, info.size, CHUNK))
        """Offsets to request, in order, because the hash is computed as the chunks come."""
        self.asked: dict[int, float] = {}
        """Offset -> when to request the chunk again, in the order of the requests."""
        self.postponed: set[int] = set()
        """Offsets that the server told us to request later: they are not late then."""
        self.patience = patience
        """Seconds until a chunk is requested again."""
        self.has_received = False
        self._digest, self._digested = hashlib.sha256(), 0
        """Hash of the bytes before the first missing one, and their number."""

    @property
    def sha256(self) -> bytes:
        """The hash of a file whose chunks have all come."""
        return self._digest.digest()

    def take(self, offset: int, data: bytes | memoryview, now: float) -> None:
        """Take a chunk that was requested."""
        # Answers come in the order of the requests. So on a slow line those for later requests are still on
        # their way, and requesting them again would only fill it.
        in_order = list(self.asked)
        for later in in_order[in_order.index(offset) + 1 :]:
            self.asked[later] = max(self.asked[later], now + self.patience)
        del self.asked[offset]
        self.data[offset : offset + len(data)] = data
        self.has_received = True
        # Bytes before the first gap are digested at once: hashing a large file at its end would hold up the
        # event loop. Chunks to be requested again are among the first WINDOW + 1 of `to_ask`.
        missing = chain(self.asked, islice(self.to_ask, WINDOW + 1))
        end = min(missing, default=len(self.data))
        if end > self._digested:
            self._digest.update(memoryview(self.data)[self._digested : end])
            self._digested = end

    def ask_again(self, offsets: list[int]) -> None:
        """Request these chunks as the next ones."""
        for offset in offsets:
            del self.asked[offset]
            self.postponed.discard(offset)
        # To the front of the queue, because the hash cannot pass the first gap. `extendleft` reverses the
        # order.
        self.to_ask.extendleft(reversed(offsets))


class WeightsPull:
    """At most one file is being downloaded, and only while no complete one waits for its verdict."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.in_use: WeightsInfo | None = None
        self._damaged: WeightsInfo | None = None
        self._tries = 0
        """The weights that last came with a wrong hash, and how often they did."""
        self._timeout = timeout
        self._joined = False
        self._newest: WeightsInfo | None = None
        """The weights announced last: to be downloaded next, or at the moment; None: none."""
        self._refused: tuple[int, bytes] | None = None
        """Version and hash of the weights last found unusable: they are not tried again."""
        self._download: _Download | None = None
        self.url = ""
        """The web server's folder, as the server named it last; "": there is none."""
        self._not_fetched: WeightsInfo | None = None
        """The weights last found missing or damaged on the web server."""
        self._settling = False
        """Whether the download is complete and waits for its verdict."""
        self._paused_until = 0.0

    def offered(self, info: WeightsInfo | None, now: float) -> list[Instruction]:
        """Handle an announcement of current weights. Ignored if they are not newer than ours: it came
        late."""
        if info is not None and info.version > self._best and self._is_usable(info):
            self._newest, self._paused_until = info, 0.0
        return self._go_on(now)

    def _is_usable(self, info: WeightsInfo) -> bool:
        return 0 < info.size <= LARGEST and (info.version, info.sha256) != self._refused

    @property
    def _best(self) -> int:
        """Return the newest version announced, else that in use; -1 if there is none."""
        known = self._newest or self.in_use
        return -1 if known is None else known.version

    def is_new(self, version: int) -> bool:
        """Return whether the server has weights that it has not announced, or whose announcement was lost."""
        refused = -1 if self._refused is None else self._refused[0]
        return version > max(self._best, refused)

    def joined(self, info: WeightsInfo | None, now: float, url: str = "") -> list[Instruction]:
        """Handle WELCOME, which names the current weights and perhaps a folder on a web server that has them:
        request again what was requested and did not come.

        Older weights than ours, or others of the same version, come from a server whose run was restored from
        a backup. They replace ours, because that server accepts no games of versions that it does not know.
        """
        self.lost()
        self.url = url
        if info is not None and info == self.in_use and not self._settling:
            # The server plays with the weights that we have: whatever was on its way is of no use.
            self._newest = self._download = info = None
        elif info is not None and not self._is_usable(info):
            info = None
        elif info is not None and self._download is not None and info.version > self._download.info.version:
            self._newest, info = info, None  # next, after those being downloaded
        return self.wanted(info, now)

    def wanted(self, info: WeightsInfo | None, now: float) -> list[Instruction]:
        """Pull `info` and nothing else, even if it was refused before; None: go on with what is being pulled.
        After `lost`, requests without an answer are sent again. Without, the answers are on their way: if a
        slow line made the other side repeat its announcement, another copy would only fill it."""
        if not self._joined and self._download is not None:
            self._download.ask_again(list(self._download.asked))
        self._joined = True
        if info is not None and info != self._newest:
            self._newest, self._paused_until = info, 0.0
            if not self._settling:
                self._download = None
        return self._go_on(now)

    def lost(self) -> None:
        self._joined = False

    def expects(self, sha256: bytes, offset: int, size: int) -> bool:
        """Return whether a chunk of `size` bytes was requested and has not come."""
        download = self._download
        if download is None or sha256 != download.info.sha256 or offset not in download.asked:
            return False
        # The last chunk is shorter.
        return size == min(CHUNK, download.info.size - offset)

    def chunk(self, sha256: bytes, offset: int, data: bytes | memoryview, now: float) -> list[Instruction]:
        """Handle a chunk. Ignored if it was not requested or has the wrong length."""
        download = self._download
        if download is None or not self.expects(sha256, offset, len(data)):
            return []
        download.take(offset, data, now)
        if download.asked or download.to_ask:
            return self._go_on(now)
        info = download.info
        if download.sha256 == info.sha256:
            self._settling = True
            return [Complete(info, download.data)]
        if download.from_web:
            return self.not_fetched(info, "it has another SHA-256 than announced", now)
        tries = 1 + (self._tries if info == self._damaged else 0)
        self._damaged, self._tries = info, tries
        # Newer weights are pulled next, if there are some.
        if tries >= TRIES and self._newest is info:
            self._damaged = None
            self._refused = (info.version, info.sha256)
            self._done_with(info)
            return [WrongHash(info, TRIES, 0.0), *self._go_on(now)]
        pause = PAUSE * 2 ** (tries - 1) if self._newest is info else PAUSE
        self._download, self._paused_until = None, now + pause
        return [WrongHash(info, tries, pause)]

    def arriving(self, info: WeightsInfo, now: float) -> None:
        """Note that a web server has sent a part of the awaited chunk."""
        download = self._download
        if download is not None and download.from_web and info is download.info:
            download.has_received = True
            download.asked = dict.fromkeys(download.asked, now + self._timeout)

    def not_fetched(self, info: WeightsInfo, reason: str, now: float) -> list[Instruction]:
        """Handle a web server that does not send the right bytes: request the whole file from the server, or
        begin with newer weights."""
        download = self._download
        if download is None or not download.from_web or info is not download.info:
            return []
        self._not_fetched, self._download = info, None
        return [NotFetched(info, reason), *self._go_on(now)]

    def chunk_postponed(self, offset: int, until: float) -> None:
        """Handle a server that has this chunk but does not send it now: request it again at `until`."""
        download = self._download
        if download is not None and not download.from_web and offset in download.asked:
            # First in the order: no answer to another request says anything about this one.
            del download.asked[offset]
            download.asked = {offset: until, **download.asked}
            download.postponed.add(offset)

    def chunk_refused(self, offset: int, now: float) -> None:
        """Handle a server that no longer has the file: start again with the newest, after a pause."""
        # A file that comes from the web server does not need the server.
        download = self._download
        if download is not None and not download.from_web and offset in download.asked:
            self._download = None
            self._paused_until = now + PAUSE

    def settled(self, usable: bool, now: float) -> list[Instruction]:
        """Handle the verdict on what `Complete` delivered."""
        assert self._download is not None
        info = self._download.info
        if usable:
            self.in_use = info
        else:
            self._refused = (info.version, info.sha256)
        self._done_with(info)
        return self._go_on(now)

    def tick(self, now: float) -> list[Instruction]:
        if (download := self._download) is not None:
            # A list, because `ask_again` deletes from `asked`.
            late = [offset for offset, deadline in download.asked.items() if deadline <= now]
            if late and download.from_web:
                return self.not_fetched(download.info, f"nothing came for {self._timeout:.0f} s", now)
            # On a slow line the first copies still come, and then the second ones, which take as long again.
            if set(late) - download.postponed:
                download.patience = min(2 * download.patience, LONGEST_TIMEOUT)
            download.ask_again(late)
        return self._go_on(now)

    @property
    def _is_cut(self) -> bool:
        """Return whether nothing can be requested. A web server needs no session."""
        return not self._joined and (self._download is None or not self._download.from_web)

    def next_wake(self) -> float | None:
        """Return when `tick` has something to do; None if only another event can change anything."""
        if self._newest is None or self._settling or self._is_cut:
            return None
        if self._download is None:
            return self._paused_until
        return min(self._download.asked.values(), default=None)

    def _go_on(self, now: float) -> list[Instruction]:
        if self._newest is None or self._settling or self._is_cut or now < self._paused_until:
            return []
        asks: list[Instruction] = []
        download, newest = self._download, self._newest
        # Newer weights do not wait for a web server that has sent nothing yet.
        is_silent = download is not None and download.from_web and not download.has_received
        if download is None or (is_silent and download.info is not newest):
            from_web = bool(self.url) and newest != self._not_fetched
            self._download = download = _Download(newest, self._timeout, from_web=from_web)
            if from_web:
                asks.append(Fetch(newest, self.url))
        # A web server sends in order, so only the next chunk is awaited.
        while download.to_ask and len(download.asked) < (1 if download.from_web else WINDOW):
            offset = download.to_ask.popleft()
            download.asked[offset] = now + download.patience
            if not download.from_web:
                asks.append(GetChunk(download.info.sha256, offset))
        return asks

    def _done_with(self, info: WeightsInfo) -> None:
        self._settling, self._download = False, None
        # Newer weights may have been announced while these were tried.
        if self._newest is info:
            self._newest = None
