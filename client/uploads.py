"""Which finished games to offer to the server when, and when a game may leave the spool.

Pure: events with `now` in, instructions out. Delivery is at least once: a game is offered again after
`TIMEOUT`, after every re-join and after `retry`, and only a final acknowledgement ends that. The uid makes
the trainer count it once.

The answers determine how many games are in flight at a time. After `retry` it is the number of games that
were not sent back, at least one; each final answer adds one, up to the window. So a server without a trainer
is asked with one game now and then, and a full server is sent about as many as it accepts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from protocol.errors import Code
from protocol.messages import GameAck

WINDOW = 16
"""Games offered and not yet acknowledged."""
TIMEOUT = 30.0
"""Seconds until an unacknowledged game is offered again."""
SHORTEST_RETRY = 1.0
"""Seconds to wait after `retry` when the server named no time."""
MOST_WAITING = 512
"""Most games that wait for the trainer before no new ones are started. Waiting games grow old,
and where both share a machine, playing more would take the trainer's processor time."""


@dataclass(frozen=True)
class Put:
    """Send this game's record."""

    uid: bytes


@dataclass(frozen=True)
class Delete:
    """Remove this game from the spool: the trainer has stored it."""

    uid: bytes


@dataclass(frozen=True)
class SetAside:
    """Move this game to the rejected ones, with the reason: the trainer will never accept it."""

    uid: bytes
    status: str
    reason: str


Instruction = Put | Delete | SetAside


class Uploads:
    """Every game in the spool is either waiting to be offered or offered and in flight."""

    def __init__(self, window: int = WINDOW, timeout: float = TIMEOUT) -> None:
        self._window = window
        self._timeout = timeout
        self._waiting: deque[bytes] = deque()
        self._deadlines: dict[bytes, float] = {}
        """Games in flight, earliest deadline first (all have the same timeout)."""
        self._room = window
        """Number of games that may be in flight; at most the window."""
        self._joined = False
        self._has_trainer = False
        self._paused_until = 0.0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._deadlines)

    @property
    def trainer_is_behind(self) -> bool:
        """Return whether a trainer is present and accepts games more slowly than they finish. Without a
        trainer, games are kept for it."""
        return self._joined and self._has_trainer and len(self._waiting) > MOST_WAITING

    def add(self, uid: bytes, now: float) -> list[Instruction]:
        """Add a game that is now in the spool."""
        self._waiting.append(uid)
        return self._offer(now)

    def joined(self, now: float, *, trainer_present: bool = True) -> list[Instruction]:
        """Begin a new session. Games in flight are offered again, because their acknowledgement may be lost.

        Without a trainer, one game is offered until it gets a final answer.
        """
        self._joined = True
        self._has_trainer = trainer_present
        self._room = self._window if trainer_present else 1
        self._paused_until = now
        self._take_back(list(self._deadlines))
        return self._offer(now)

    def lost(self) -> None:
        """End the session: nothing is sent until the next `joined`."""
        self._joined = False

    def gone(self, uid: bytes, now: float) -> list[Instruction]:
        """Forget a game that is no longer in the spool (unreadable or moved aside)."""
        self._forget(uid)
        return self._offer(now)

    def acknowledged(self, ack: GameAck, now: float) -> list[Instruction]:
        """Handle the server's answer to a game. Ignored for a game that is not in the spool.

        `retry` is about the server (no trainer, disk full), not about this game. Nothing is offered before
        `retry_after` has passed, this game goes behind the others, and then no more games are offered than
        the server still has from us.
        """
        if ack.uid not in self._deadlines and ack.uid not in self._waiting:
            return []
        if ack.status == "rejected" and ack.reason.startswith(Code.BAD_HASH):
            # Damaged on its way: what we sent had the hash. It is offered again after the usual timeout.
            return []
        self._has_trainer = not ack.reason.startswith(Code.NO_TRAINER)
        if ack.status == "retry":
            if self._deadlines.pop(ack.uid, None) is not None:
                self._waiting.append(ack.uid)
                self._room = max(1, min(self._room, len(self._deadlines)))
            pause = max(ack.retry_after, SHORTEST_RETRY)
            self._paused_until = max(self._paused_until, now + pause)
            return []
        self._forget(ack.uid)
        self._room = min(self._window, self._room + 1)
        final: Instruction = (
            Delete(ack.uid)
            if ack.status in ("stored", "duplicate")
            else SetAside(ack.uid, ack.status, ack.reason)
        )
        return [final, *self._offer(now)]

    def tick(self, now: float) -> list[Instruction]:
        """Handle timeouts and the end of a pause. To be called at `next_wake`."""
        self._take_back([uid for uid, deadline in self._deadlines.items() if deadline <= now])
        return self._offer(now)

    def next_wake(self) -> float | None:
        """Return when `tick` has something to do; None if only another event can change anything."""
        if not self._joined:
            return None
        times = list(self._deadlines.values())[:1]
        if self._waiting and len(self._deadlines) < self._room:
            times.append(self._paused_until)
        return min(times, default=None)

    def _offer(self, now: float) -> list[Instruction]:
        offered: list[Instruction] = []
        if not self._joined or now < self._paused_until:
            return offered
        while self._waiting and len(self._deadlines) < self._room:
            uid = self._waiting.popleft()
            self._deadlines[uid] = now + self._timeout
            offered.append(Put(uid))
        return offered

    def _take_back(self, uids: list[bytes]) -> None:
        for uid in uids:
            del self._deadlines[uid]
        self._waiting.extendleft(reversed(uids))

    def _forget(self, uid: bytes) -> None:
        if self._deadlines.pop(uid, None) is None and uid in self._waiting:
            self._waiting.remove(uid)
