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

`WeightsDownloader` does the I/O. Its users (azserver, workers with a network of their own, and a trainer that
begins with the server's weights) differ only in what `use` does with a complete file. Weights that cannot be
used are rejected, and the old ones stay; a file that cannot be written to the disk is kept in memory and
tried again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.weights_files import LARGEST, Use
from azselfplay.link.weights_web import read_file
from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, GetWeights, Message, Pong, Refused, WeightsInfo, Welcome

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
WRITE_AGAIN = 5.0
"""Seconds between two attempts to write to a full disk."""
SERVERS_FILE = (
    ": azserver's file is damaged, or something on the way changes bytes. Run azserver doctor on that "
    "machine, and restore the file in the run's folder weights/ from a backup"
)
"""What to do when the server's weights stay damaged."""

log = logging.getLogger(__name__)


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


class WeightsPull:
    """At most one file is being downloaded, and only while no complete one waits for its verdict."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.in_use: WeightsInfo | None = None
        self._damaged: WeightsInfo | None = None
        self._tries = 0
        """The weights that last came with a wrong hash, and how often they did."""
        self._timeout = self._patience = timeout
        self._joined = False
        self._newest: WeightsInfo | None = None
        """The weights announced last: to be downloaded next, or at the moment; None: none."""
        self._refused: tuple[int, bytes] | None = None
        """Version and hash of the weights last found unusable: they are not tried again."""
        self._pulling: WeightsInfo | None = None
        self.url = ""
        """The web server's folder, as the server named it last; "": there is none."""
        self._is_fetching = False
        """Whether the current download comes from the web server."""
        self._not_fetched: WeightsInfo | None = None
        """The weights last found missing or damaged on the web server."""
        self._settling = False
        self._data = bytearray()
        self._digest, self._digested = hashlib.sha256(), 0
        """Hash of the bytes before the first missing one, and their number."""
        self._to_ask: deque[int] = deque()
        self._asked: dict[int, float] = {}
        """Offset -> when to request the chunk again, in the order of the requests."""
        self._postponed: set[int] = set()
        """Offsets that the server told us to request later: they are not late then."""
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
            self._newest = self._pulling = info = None
        elif info is not None and not self._is_usable(info):
            info = None
        elif info is not None and self._pulling is not None and info.version > self._pulling.version:
            self._newest, info = info, None  # next, after those being downloaded
        return self.wanted(info, now)

    def wanted(self, info: WeightsInfo | None, now: float) -> list[Instruction]:
        """Pull `info` and nothing else, even if it was refused before; None: go on with what is being pulled.
        After `lost`, requests without an answer are sent again. Without, the answers are on their way: if a
        slow line made the other side repeat its announcement, another copy would only fill it."""
        if not self._joined:
            self._ask_again(list(self._asked))
        self._joined = True
        if info is not None and info != self._newest:
            self._newest, self._paused_until = info, 0.0
            if not self._settling:
                self._pulling = None
        return self._go_on(now)

    def lost(self) -> None:
        self._joined = False

    def expects(self, sha256: bytes, offset: int, size: int) -> bool:
        """Return whether a chunk of `size` bytes was requested and has not come."""
        info = self._pulling
        if info is None or sha256 != info.sha256 or offset not in self._asked:
            return False
        # The last chunk is shorter.
        return size == min(CHUNK, info.size - offset)

    def chunk(self, sha256: bytes, offset: int, data: bytes | memoryview, now: float) -> list[Instruction]:
        """Handle a chunk. Ignored if it was not requested or has the wrong length."""
        info = self._pulling
        if info is None or not self.expects(sha256, offset, len(data)):
            return []
        # Answers come in the order of the requests. So on a slow line those for later requests are still on
        # their way, and requesting them again would only fill it.
        in_order = list(self._asked)
        for later in in_order[in_order.index(offset) + 1 :]:
            self._asked[later] = max(self._asked[later], now + self._patience)
        del self._asked[offset]
        self._data[offset : offset + len(data)] = data
        # Bytes before the first gap are digested at once: hashing a large file at its end would hold up the
        # event loop. Chunks to be requested again are among the first WINDOW + 1 of `_to_ask`.
        missing = chain(self._asked, islice(self._to_ask, WINDOW + 1))
        end = min(missing, default=len(self._data))
        self._is_silent = False
        if end > self._digested:
            self._digest.update(memoryview(self._data)[self._digested : end])
            self._digested = end
        if self._asked or self._to_ask:
            return self._go_on(now)
        if self._digest.digest() == info.sha256:
            self._settling = True
            return [Complete(info, self._data)]
        if self._is_fetching:
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
        self._pulling, self._paused_until = None, now + pause
        return [WrongHash(info, tries, pause)]

    def arriving(self, info: WeightsInfo, now: float) -> None:
        """Note that a web server has sent a part of the awaited chunk."""
        if self._is_fetching and info is self._pulling:
            self._is_silent = False
            self._asked = dict.fromkeys(self._asked, now + self._timeout)

    def not_fetched(self, info: WeightsInfo, reason: str, now: float) -> list[Instruction]:
        """Handle a web server that does not send the right bytes: request the whole file from the server, or
        begin with newer weights."""
        if not self._is_fetching or info is not self._pulling:
            return []
        self._not_fetched = info
        self._pulling, self._is_fetching = None, False
        return [NotFetched(info, reason), *self._go_on(now)]

    def chunk_postponed(self, offset: int, until: float) -> None:
        """Handle a server that has this chunk but does not send it now: request it again at `until`."""
        if offset in self._asked and not self._is_fetching:
            # First in the order: no answer to another request says anything about this one.
            del self._asked[offset]
            self._asked = {offset: until, **self._asked}
            self._postponed.add(offset)

    def chunk_refused(self, offset: int, now: float) -> None:
        """Handle a server that no longer has the file: start again with the newest, after a pause."""
        # A file that comes from the web server does not need the server.
        if offset in self._asked and not self._is_fetching:
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
        # A list, because `_ask_again` deletes from `_asked`.
        late = [offset for offset, deadline in self._asked.items() if deadline <= now]
        if late and self._is_fetching and self._pulling is not None:
            return self.not_fetched(self._pulling, f"nothing came for {self._timeout:.0f} s", now)
        # On a slow line the first copies still come, and then the second ones, which take as long again.
        if set(late) - self._postponed:
            self._patience = min(2 * self._patience, LONGEST_TIMEOUT)
        self._ask_again(late)
        return self._go_on(now)

    def next_wake(self) -> float | None:
        """Return when `tick` has something to do; None if only another event can change anything."""
        if self._newest is None or self._settling or not (self._joined or self._is_fetching):
            return None
        if self._pulling is None:
            return self._paused_until
        return min(self._asked.values(), default=None)

    def _go_on(self, now: float) -> list[Instruction]:
        if self._newest is None or self._settling or now < self._paused_until:
            return []
        # A web server needs no session.
        if not (self._joined or self._is_fetching):
            return []
        asks: list[Instruction] = []
        info, is_silent = self._pulling, self._is_fetching and self._is_silent
        # Newer weights do not wait for a web server that has sent nothing yet.
        if info is None or (is_silent and info is not self._newest):
            self._pulling = info = self._newest
            self._data = bytearray(info.size)
            self._digest, self._digested, self._is_silent = hashlib.sha256(), 0, True
            # In order, because the hash is computed as the chunks come.
            self._to_ask = deque(range(0, info.size, CHUNK))
            self._asked, self._postponed, self._patience = {}, set(), self._timeout
            self._is_fetching = bool(self.url) and info != self._not_fetched
            if self._is_fetching:
                asks.append(Fetch(info, self.url))
        # A web server sends in order, so only the next chunk is awaited.
        while self._to_ask and len(self._asked) < (1 if self._is_fetching else WINDOW):
            offset = self._to_ask.popleft()
            self._asked[offset] = now + self._patience
            if not self._is_fetching:
                asks.append(GetChunk(info.sha256, offset))
        return asks

    def _ask_again(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self._asked[offset]
            self._postponed.discard(offset)
        # To the front of the queue, because the hash cannot pass the first gap. `extendleft` reverses the
        # order.
        self._to_ask.extendleft(reversed(offsets))

    def _done_with(self, info: WeightsInfo) -> None:
        self._settling = self._is_fetching = False
        self._pulling = None
        self._data = bytearray()
        # Newer weights may have been announced while these were tried.
        if self._newest is info:
            self._newest = None


# ---- Around it: the loop that pulls ----------------------------------------------------------------------


def _log_end(info: WeightsInfo, fault: str) -> None:
    if fault:
        log.error("weights version %d cannot be used, and the old ones stay: %s", info.version, fault)
    else:
        log.info("weights version %d (step %d) are in use", info.version, info.step)


class WeightsDownloader:
    """Pulls weights and uses them. The owner runs `run` and passes on the messages that arrive. `send`: as in
    `link.connection.Connection`."""

    def __init__(
        self,
        use: Use,
        send: Callable[..., bool],
        pull: WeightsPull | None = None,
        on_end: Callable[[WeightsInfo, str], None] = _log_end,
        advice: str = SERVERS_FILE,
    ) -> None:
        """`on_end(info, fault)` is called with the outcome for weights that were pulled. `advice`: the end of
        the message about bytes that stay damaged."""
        self._decided = asyncio.Event()
        """Set once some weights are in use, or were given up for the reason `_damage`."""
        self._damage = ""
        self._use = use
        self._send = send
        self._pull = pull or WeightsPull()
        self._on_end = on_end
        self._advice = advice
        self._wake = asyncio.Event()
        self._fetch: Fetch | None = None
        """A read from a web server that has not begun yet."""
        self._fetching: asyncio.Task[None] | None = None
        self._complete: Complete | None = None
        """A complete download that is to be used at `_settle_at` or as soon as possible."""
        self._settle_at = 0.0

    async def first(self) -> None:
        """Wait until some weights are in use. Raises Fatal(BAD_DATA) if the available ones cannot be
        downloaded."""
        await self._decided.wait()
        if self._pull.in_use is None:
            raise Fatal(self._damage, Exit.BAD_DATA)

    def joined(self, welcome: Welcome) -> None:
        self._react(self._pull.joined(welcome.weights, self._now(), welcome.weights_url))

    def lost(self) -> None:
        self._pull.lost()

    def on_message(self, message: Message, frames: Sequence[memoryview]) -> None:
        """Handle what a player receives on the bulk port, as far as it is about weights."""
        match message:
            case Chunk():
                self.on_chunk(message, frames)
            case WeightsInfo():
                self._react(self._pull.offered(message, self._now()))
            case Refused(code=Code.UNKNOWN_WEIGHTS | Code.BUSY | Code.INTERNAL):
                self.on_refused(message)
            case Pong(version) if self._pull.is_new(version):
                self._send(GetWeights())
            case _:
                pass

    def wanted(self, info: WeightsInfo) -> None:
        """Pull these weights from the side that announced them, even if they were refused before."""
        self._react(self._pull.wanted(info, self._now()))

    def on_chunk(self, message: Chunk, frames: Sequence[memoryview]) -> bool:
        """Handle a chunk. Returns False for one that was not requested."""
        return len(frames) == 1 and self._take(message.sha256, message.offset, frames[0])

    def _take(self, sha256: bytes, offset: int, data: bytes | memoryview) -> bool:
        if not self._pull.expects(sha256, offset, len(data)):
            return False
        self._react(self._pull.chunk(sha256, offset, data, self._now()))
        return True

    def on_refused(self, message: Refused) -> None:
        """Request the chunk again at the time that a busy server names; otherwise start the file again."""
        log.warning("the server refuses a piece of the weights: %s", message.reason)
        now = self._now()
        if message.retry_after > 0:
            self._pull.chunk_postponed(message.request, now + message.retry_after)
        else:
            self._pull.chunk_refused(message.request, now)
        self._wake.set()

    async def run(self) -> None:
        """Download and load until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                waits = (self._pull.next_wake(), self._settle_at if self._complete is not None else None)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min((at for at in waits if at is not None), default=None)):
                        await self._wake.wait()
                # Clear the event before looking at the time: later events set it again.
                self._wake.clear()
                self._carry_out(self._pull.tick(self._now()))
                if self._fetch is not None:
                    begun = self._read(self._fetch)
                    # At most one task reads: what an earlier one reads is no longer wanted.
                    self._end_fetching()
                    self._fetching = group.create_task(begun)
                if self._complete is None or self._now() < self._settle_at:
                    continue
                info = self._complete.info
                try:
                    fault = await self._use(info, self._complete.data)
                except OSError as error:
                    # A full disk: the bytes stay in memory, and are tried again.
                    self._settle_at = self._now() + WRITE_AGAIN
                    text = "weights version %d cannot be written (%s), trying again"
                    log.warning(text, info.version, error)
                    continue
                self._complete, self._settle_at = None, 0.0
                self._on_end(info, fault)
                # Newer weights may have been announced meanwhile; the next turn begins with them.
                self._react(self._pull.settled(not fault, self._now()))
                if not fault:
                    self._decided.set()

    async def _read(self, fetch: Fetch) -> None:
        """Read a file from a web server, or report why that failed."""
        info = fetch.info
        try:
            await read_file(
                fetch.url,
                info,
                partial(self._take, info.sha256),
                lambda: self._pull.arriving(info, self._now()),
            )
        except (ValueError, OSError) as error:
            self._react(self._pull.not_fetched(info, str(error), self._now()))

    def _end_fetching(self) -> None:
        self._fetch = None
        if self._fetching is not None:
            self._fetching.cancel()

    def _react(self, instructions: list[Instruction]) -> None:
        """Carry out the instructions of an outside event, and make `run` check the time again."""
        self._carry_out(instructions)
        self._wake.set()

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case GetChunk():
                    self._send(instruction)
                case Fetch():
                    self._fetch = instruction
                case NotFetched(info, reason):
                    self._end_fetching()
                    text = "weights version %d do not come from %s (%s): fetching them from the server"
                    log.warning(text, info.version, self._pull.url, reason)
                case Complete():
                    self._complete = instruction
                case WrongHash(info, tries, 0.0):
                    fault = f"they came {tries} times with another SHA-256 than announced{self._advice}"
                    self._damage = f"weights version {info.version} cannot be used: {fault}"
                    self._decided.set()
                    self._on_end(info, fault)
                case WrongHash(info, tries, pause):
                    log.warning(
                        "weights version %d came with another SHA-256 than announced (%d of %d tries); "
                        "fetching weights again in %.0f s",
                        *(info.version, tries, TRIES, pause),
                    )

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
