"""Brings finished games to the trainer: decides which games to offer when, and when a game may leave the
spool.

`Uploader` is one task that writes, sends and deletes; calls that block run in a thread. Games that finish
while the thread writes others are written together next time, and share one sync of the folder.

`Uploads` decides, and is pure: events with `now` in, instructions out. Delivery is at least once: a game is
offered again after a silence, after every re-join and after `retry`, until a final acknowledgement comes. The
trainer recognises the uid, so the game counts once. A congestion window limits the games in flight. After
`retry` the window shrinks to the number of games that were not sent back, at least one. Each final answer
adds one, as far as the window of bytes allows. So a server without a trainer is offered one game now and
then, and a full server is sent about as many as it accepts.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from azselfplay.host.runs import reach
from client.spool import CODES, KEPT, Spool, SpooledGame, Terms, code_of
from protocol.credits import LEAST_GAME_BYTES, SESSION_BYTES, counted_bytes
from protocol.errors import Code
from protocol.messages import GameAck, PutGame
from protocol.records import GameRecord, to_bytes

WRITE_AGAIN = 5.0
"""Seconds between attempts to write to a disk that is full or failing."""
MOST_IN_FLIGHT = SESSION_BYTES // LEAST_GAME_BYTES
"""Most games offered and not yet acknowledged, if all of them are small."""
TIMEOUT = 30.0
"""Seconds until an unacknowledged game is offered again. If one is late, they double for all games in flight:
on a slow or shared uplink the first copies are still on their way. An answer in time ends that."""
LONGEST_TIMEOUT = 90.0
"""Longest such time in seconds; azserver forgets a game that is not offered again for 120 s."""
UNSENT_PAUSE = 0.2
"""Seconds until games are offered again that the connection did not take: its queue was full."""
SHORTEST_RETRY = 1.0
"""Seconds to wait after `retry` when the server named no time."""
MOST_WAITING = 512
"""Most games that wait for the trainer before no new ones are started. Waiting games grow old, and on a
shared machine more playing would take processor time from the trainer."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Write:
    uid: bytes
    data: bytes
    done: asyncio.Future[None]


class Uploader:
    """Stores finished games and brings them to the server. `send` is that of `RemoteEvaluator`.

    The owner calls `joined`, `lost` and `acknowledged`, and runs `run` in its task group.
    """

    def __init__(self, spool: Spool, send: Callable[..., bool], uploads: Uploads | None = None) -> None:
        self.spool = spool
        self.room = asyncio.Event()
        """Set while new games may start: the spool is open, writable and not full, and the trainer, if there
        is one, is not far behind."""
        self.quiet = asyncio.Event()
        """Set while nothing is being written, and no game that was sent waits for its acknowledgement."""
        self.empty = asyncio.Event()
        """Set while no finished game waits, here or in the spool."""
        self.stored = 0
        """Games acknowledged as stored since the start, duplicates included."""
        self._send = send
        self._uploads = uploads or Uploads()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._writes: list[_Write] = []
        """At most one per game coroutine, because each waits until its game is on disk."""
        self._instructions: list[Instruction] = []
        self._write_at = 0.0
        self._failed: list[Instruction] = []
        """Deletions and moves that the disk did not carry out; tried again at `_again_at`."""
        self._again_at = 0.0
        self._terms = Terms("", 0)
        """Terms of the current session."""
        self._check_kept = False
        self._has_logged_behind = False

    @property
    def why_no_new_games(self) -> str:
        """Why no new games may start at the moment, as text for people; "" if they may."""
        if self._write_at:
            return "finished games cannot be written to the spool"
        if self.spool.full:
            return "the spool is full"
        if self._uploads.trainer_is_behind:
            return self._uploads.sent_back or "they finish faster than the trainer takes them"
        return ""

    async def save(self, record: GameRecord) -> None:
        """Return once the game will survive a crash of this machine. Raises protocol.records.BadRecord."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._writes.append(_Write(record.uid, to_bytes(record), done))
        self._wake_up()
        await done

    def joined(self, terms: Terms | None = None, *, trainer_present: bool = True) -> None:
        """Begin a session. `terms`: the terms under which games are accepted; kept games that fit them are
        offered again."""
        if terms is not None:
            self._terms, self._check_kept = terms, True
        self._enqueue(self._uploads.joined(self._loop.time(), trainer_present=trainer_present))

    def new_version(self, version: int) -> None:
        """Note the version of the server's current weights. A server whose run was restored from a backup may
        by now know the weights of kept games."""
        # The version only grows here: an announcement may come late.
        if version > self._terms.version:
            self._terms = replace(self._terms, version=version)
            self._check_kept = self._check_kept or self.spool.kept > 0
            self._wake.set()

    def lost(self) -> None:
        self._uploads.lost()

    def acknowledged(self, ack: GameAck) -> None:
        reach("uploader.acknowledged")
        instructions = self._uploads.acknowledged(ack, self._loop.time())
        self.stored += ack in instructions and ack.status in ("stored", "duplicate")
        self._enqueue(instructions)

    @property
    def unwritten(self) -> int:
        """Return how many finished games are not on disk yet."""
        return len(self._writes)

    def write_now(self) -> None:
        """Try the disk again now, and not some seconds after it failed."""
        self._write_at = self._again_at = 0.0
        self._wake.set()

    async def run(self) -> None:
        """Open the spool, then work until cancelled."""
        for uid, size in (await asyncio.to_thread(self.spool.open)).items():
            self._enqueue(self._uploads.add(uid, size, self._loop.time()))
        if self.spool.games:
            log.info("%d games from an earlier start wait in %s", self.spool.games, self.spool.folder)
        kept_at: float | None = None
        while True:
            self._update_room()
            self._update_idle()
            again_at = self._again_at if self._failed else None
            # Somebody may move the kept games away, to make room. Other work must not put off this look.
            if not self.spool.full or not self.spool.kept:
                kept_at = None
            elif kept_at is None:
                kept_at = self._loop.time() + WRITE_AGAIN
            dues = [self._uploads.next_wake(), self._write_at if self._writes else None, again_at, kept_at]
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min((due for due in dues if due is not None), default=None)):
                    await self._wake.wait()
            # Clear before the work: whatever comes during the work must wake the next turn.
            self._wake.clear()
            await self._work()
            if kept_at is not None and self._loop.time() >= kept_at:
                kept_at = None
                with suppress(OSError):
                    await asyncio.to_thread(self.spool.count_kept)

    async def _work(self) -> None:
        """Do what is due. The event loop runs while a thread works, so more may become due meanwhile."""
        self._instructions += self._uploads.tick(self._loop.time())
        if self._writes and self._loop.time() >= self._write_at:
            # Start a new list: games that finish while the thread works must not be added to the one it has.
            writes, self._writes = self._writes, []
            try:
                await asyncio.to_thread(self.spool.write, [(write.uid, write.data) for write in writes])
            except OSError as error:
                log.error("cannot write %d games (%s); trying again in %g s", len(writes), error, WRITE_AGAIN)
                # Put them in front, so that games are written in the order in which they finished.
                self._writes = writes + self._writes
                self._write_at = self._loop.time() + WRITE_AGAIN
            else:
                self._write_at = 0.0
                for write in writes:
                    self._enqueue(self._uploads.add(write.uid, len(write.data), self._loop.time()))
                    if not write.done.done():  # the waiting game may have been given up
                        write.done.set_result(None)
        instructions, self._instructions = self._instructions, []
        if self._loop.time() >= self._again_at:
            instructions, self._failed = self._failed + instructions, []
        if instructions:
            games, gone, failed = await asyncio.to_thread(self._carry_out, instructions)
            now = self._loop.time()
            if failed:
                self._failed += failed
                self._again_at = now + WRITE_AGAIN
            unsent: list[bytes] = []
            for game in games:
                if not self._send(PutGame(game.uid, game.sha256), game.data):
                    unsent.append(game.uid)
                reach("uploader.sent")
            self._uploads.unsent(unsent, now)
            for uid in gone:
                self._enqueue(self._uploads.gone(uid, now))
        if self._check_kept:
            self._check_kept = False
            back = await asyncio.to_thread(self.spool.take_back, self._terms)
            for uid, size in back.items():
                self._enqueue(self._uploads.add(uid, size, self._loop.time()))

    def _enqueue(self, instructions: list[Instruction]) -> None:
        """Note what to do, and wake `run` to do it and to look at the time."""
        self._instructions += instructions
        self._wake_up()

    def _wake_up(self) -> None:
        """Wake `run` because there is work."""
        self.quiet.clear()
        self.empty.clear()
        self._wake.set()

    def _update_room(self) -> None:
        """Allow or stop new games, and log it when that changes."""
        room = not self.spool.full and not self._write_at
        may_start = room and not self._uploads.trainer_is_behind
        if may_start and not self.room.is_set():
            self.room.set()
        elif not may_start and self.room.is_set():
            self.room.clear()
            if not room:
                self._log_full()
            elif not self._has_logged_behind:
                # Log this only once: with small games the state would change every second.
                self._has_logged_behind = True
                log.info(
                    "games finish faster than the trainer takes them: new ones start as it catches up, so "
                    "that they are played with newer weights"
                )

    def _log_full(self) -> None:
        log.warning(
            "starting no new games: %s; %d games (%.1f MB) wait in %s for the trainer",
            self.why_no_new_games,
            self.spool.games,
            self.spool.bytes / 1e6,
            self.spool.folder,
        )
        if self.spool.kept:
            log.warning(
                "%d more (%.1f MB) in %s were refused for their settings, weights or run: they are offered "
                "again when these fit; move that folder away if they never will",
                self.spool.kept,
                self.spool.kept_bytes / 1e6,
                self.spool.folder / KEPT,
            )

    def _update_idle(self) -> None:
        """Set `quiet` and `empty` once nothing is left to do; `_wake_up` clears them."""
        if not (self._writes or self._instructions or self._uploads.in_flight):
            self.quiet.set()
            if not self.spool.games:
                self.empty.set()

    def _carry_out(
        self, instructions: list[Instruction]
    ) -> tuple[list[SpooledGame], list[bytes], list[Instruction]]:
        """Do blocking work in a thread. Returns the games to send, the uids of those that are missing or
        damaged, and the deletions and moves that the disk did not carry out."""
        games, gone, failed = list[SpooledGame](), list[bytes](), list[Instruction]()
        for instruction in instructions:
            try:
                match instruction:
                    case Put(uid):
                        game = self.spool.read(uid)
                        if game is None:
                            gone.append(uid)
                        else:
                            games.append(game)
                    case GameAck(uid, "stored" | "duplicate"):
                        self.spool.delete(uid)
                    case GameAck(uid, "rejected", reason) if code_of(reason) in CODES:
                        self.spool.keep(uid, reason, self._terms)
                    case GameAck(uid, status, reason):
                        self.spool.set_aside(uid, f"{status}: {reason}")
            except OSError as error:
                log.error("game %s stays in the spool: %s", instruction.uid.hex(), error)
                # A game that cannot be read now is offered again after the usual timeout, as if its
                # acknowledgement had been lost.
                if not isinstance(instruction, Put):
                    failed.append(instruction)
        return games, gone, failed


@dataclass(frozen=True)
class Put:
    """Send this game's record."""

    uid: bytes


Instruction = Put | GameAck
"""A GAME_ACK is a final answer: the game leaves the spool, or moves to `kept/` or `rejected/`."""


class Uploads:
    """Every game in the spool is either waiting to be offered or offered and in flight."""

    def __init__(self, window: int = SESSION_BYTES, timeout: float = TIMEOUT) -> None:
        """`window`: bytes of games that may be in flight; a single game may have more."""
        self._window = window
        self._timeout = self._shortest = timeout
        self._counted: dict[bytes, int] = {}
        """Bytes that each game counts for in the window."""
        self._waiting: deque[bytes] = deque()
        self._offered: dict[bytes, float] = {}
        """Games in flight, with the time of the offer; the earliest first."""
        self._late: set[bytes] = set()
        """Games that were late once: an answer may be that to an earlier copy."""
        self._bytes = 0
        """Bytes that the games in flight count for."""
        self._room = MOST_IN_FLIGHT
        """Number of games that may be in flight."""
        self._joined = False
        self._has_trainer = False
        self._paused_until = 0.0
        self.sent_back = ""
        """Why the game answered last was sent back; "" if it was not."""

    @property
    def in_flight(self) -> int:
        return len(self._offered)

    @property
    def trainer_is_behind(self) -> bool:
        """Return whether a trainer is present and accepts games more slowly than they finish. Without a
        trainer, games are kept for it."""
        return self._joined and self._has_trainer and len(self._waiting) > MOST_WAITING

    def add(self, uid: bytes, size: int, now: float) -> list[Instruction]:
        """Add a game of `size` bytes that is now in the spool."""
        self._counted[uid] = counted_bytes(size)
        self._waiting.append(uid)
        return self._offer(now)

    def joined(self, now: float, *, trainer_present: bool = True) -> list[Instruction]:
        """Begin a new session. Games in flight are offered again, because their acknowledgements may be lost.

        Without a trainer, one game is offered until it gets a final answer.
        """
        self._joined = True
        self.sent_back = ""
        self._has_trainer = trainer_present
        # A single game finds out whether there is a trainer by now.
        self._room = MOST_IN_FLIGHT if trainer_present else 1
        self._paused_until = now
        self._take_back(list(self._offered))
        return self._offer(now)

    def lost(self) -> None:
        """End the session: nothing is sent until the next `joined`."""
        self._joined = False

    def unsent(self, uids: list[bytes], now: float) -> None:
        """Note that these games could not be sent, which takes no room in the window. They are the next."""
        # An acknowledgement of an earlier offer may have come meanwhile.
        # A game stands here twice if it was offered twice, before and after a new session began.
        back = [uid for uid in dict.fromkeys(uids) if uid in self._offered]
        self._take_back(back)
        if back:
            self._paused_until = max(self._paused_until, now + UNSENT_PAUSE)

    def gone(self, uid: bytes, now: float) -> list[Instruction]:
        """Forget a game that is no longer in the spool (unreadable or moved aside)."""
        self._forget(uid)
        return self._offer(now)

    def acknowledged(self, ack: GameAck, now: float) -> list[Instruction]:
        """Handle the server's answer to a game. Ignored for a game that is not in the spool.

        `retry` is about the server (no trainer, disk full), not about this game. This game goes behind the
        others, and nothing is offered before `retry_after` has passed. After that, no more games are in
        flight than the server still has from us.
        """
        # The game was offered twice, and answered before.
        if ack.uid not in self._counted:
            return []
        if ack.status == "rejected" and ack.reason.startswith(Code.BAD_HASH):
            # The game was damaged on its way, because its hash was right when sent. It is offered again after
            # the usual timeout.
            return []
        if ack.uid not in self._late and now < self._offered.get(ack.uid, -math.inf) + self._shortest:
            self._timeout = self._shortest
        # The answer says whether there is a trainer; WELCOME may be out of date.
        self._has_trainer = not ack.reason.startswith(Code.NO_TRAINER)
        self.sent_back = ack.reason if ack.status == "retry" else ""
        if ack.status == "retry":
            if ack.uid in self._offered:
                self._land(ack.uid)
                self._waiting.append(ack.uid)
                self._room = max(1, min(self._room, len(self._offered)))
            pause = max(ack.retry_after, SHORTEST_RETRY)
            self._paused_until = max(self._paused_until, now + pause)
            return []
        self._forget(ack.uid)
        # Grow by one per accepted game: the server may be full of games of others.
        self._room = min(MOST_IN_FLIGHT, self._room + 1)
        return [ack, *self._offer(now)]

    def tick(self, now: float) -> list[Instruction]:
        """Handle timeouts and the end of a pause. To be called at `next_wake`."""
        if late := [uid for uid, at in self._offered.items() if at + self._timeout <= now]:
            self._timeout = min(2 * self._timeout, LONGEST_TIMEOUT)
            self._late.update(late)
        self._take_back(late)
        return self._offer(now)

    def next_wake(self) -> float | None:
        """Return when `tick` has something to do; None if only another event can change anything."""
        if not self._joined:
            return None
        times = [at + self._timeout for at in list(self._offered.values())[:1]]
        # The end of a pause matters only if a game could be offered then.
        if self._has_room():
            times.append(self._paused_until)
        return min(times, default=None)

    def _has_room(self) -> bool:
        """Return whether a game waits, and the games in flight leave room for it."""
        if not self._waiting or len(self._offered) >= self._room:
            return False
        return not self._offered or self._bytes + self._counted[self._waiting[0]] <= self._window

    def _offer(self, now: float) -> list[Instruction]:
        offered: list[Instruction] = []
        if not self._joined or now < self._paused_until:
            return offered
        while self._has_room():
            uid = self._waiting.popleft()
            self._offered[uid] = now
            self._bytes += self._counted[uid]
            offered.append(Put(uid))
        return offered

    def _take_back(self, uids: list[bytes]) -> None:
        for uid in uids:
            self._land(uid)
        self._waiting.extendleft(reversed(uids))

    def _land(self, uid: bytes) -> None:
        """Note that a game is not in flight any more."""
        del self._offered[uid]
        self._bytes -= self._counted[uid]

    def _forget(self, uid: bytes) -> None:
        if uid in self._offered:
            self._land(uid)
        elif uid in self._counted:
            self._waiting.remove(uid)
        self._counted.pop(uid, None)
        self._late.discard(uid)
