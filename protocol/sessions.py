"""Sessions, both ends: joining, keeping alive, losing and rejoining. No sockets and no clock inside.

Each call is `(event, now) -> instructions`; the owner of the socket carries them out. A session is a lease.
Any traffic renews it, and a client sends a PING once a heartbeat. PONG names the server's session, so the
client notices if a WELCOME was lost or came from an earlier server. The end of a session loses nothing,
because the side that still has unfinished work sends it again.
"""

from __future__ import annotations

import math
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from protocol.errors import Code
from protocol.messages import (
    PROTOCOL_VERSION,
    ROLES,
    Bye,
    Goodbye,
    Hello,
    Message,
    Outline,
    Ping,
    Pong,
    Welcome,
)

MAX_SESSIONS = 10_000
"""Most sessions of one port of a server."""
HELLO_FIRST = 0.2
"""Shortest wait before another HELLO, in seconds."""
HELLO_LONGEST = 30.0
"""Longest wait before another HELLO, in seconds."""
SHORTEST_HEARTBEAT = 0.1
"""Shortest interval between PINGs in seconds, whatever WELCOME says."""


@dataclass(frozen=True)
class Lost:
    """The session has ended; the state machine tries to rejoin by itself."""

    reason: str


Instruction = Hello | Ping | Bye | Welcome | Goodbye | Lost
"""HELLO, PING, BYE: send it to the server. WELCOME: the session has begun, (re)send whatever is unanswered.
GOODBYE: the server will not accept this client, now or later: stop, and show the user its reason."""


class ClientSession:
    """The client's end. Call `tick` at `due()`; the first call says HELLO."""

    def __init__(self, hello: Hello, now: float, rng: random.Random) -> None:
        self.welcome: Welcome | None = None
        """WELCOME of the current session; None while there is none."""
        self._is_over = False
        """Whether the server has refused this client for good, or the client has left."""
        self._hello = hello
        self._rng = rng
        self._wait = HELLO_FIRST
        self._hello_at = now
        self._last_received = now
        self._ping_at = math.inf

    def on_message(self, message: Message, now: float) -> list[Instruction]:
        """Handle any message from the server; each one shows that the server is alive."""
        if self._is_over:
            return []
        self._last_received = now
        known = None if self.welcome is None else self.welcome.session
        if isinstance(message, Welcome):
            if known == message.session:
                return []  # the answer to a HELLO that was sent twice
            lost: list[Instruction] = [Lost("the server began another session")] if known is not None else []
            self.welcome = message
            self._wait = HELLO_FIRST
            self._ping_at = now + _heartbeat(message)
            return [*lost, message]
        if isinstance(message, Goodbye):
            if message.retry_after <= 0 and message.code != Code.HELLO_REQUIRED:
                self._is_over, self.welcome = True, None
                return [message]
            # While joining, a HELLO is already on its way or scheduled: a HELLO for each GOODBYE would flood
            # the server.
            instructions = self._lose(message.reason, now) if known is not None else []
            if message.code != Code.HELLO_REQUIRED:
                # Wait longer than asked, by a random time, because a full server tells all its clients the
                # same time.
                jitter = self._rng.uniform(1.0, 1.5)
                self._hello_at = now + max(HELLO_FIRST, message.retry_after * jitter)
            return instructions
        # 0: the server has named no session.
        if isinstance(message, Pong) and known is not None and message.session not in (0, known):
            return self._lose("the server has begun another session", now)
        return []

    def tick(self, now: float) -> list[Instruction]:
        """Return what is due: a HELLO, a PING, or the loss of the session."""
        if now < self.due():
            return []
        if self.welcome is None:
            self._schedule_hello(now)
            return [self._hello]
        if now >= self._lost_at(self.welcome):
            return self._lose(f"nothing heard from the server for {now - self._last_received:.1f} s", now)
        self._ping_at = now + _heartbeat(self.welcome)
        return [Ping()]

    def due(self) -> float:
        """Return when `tick` is needed if nothing else happens; inf: never."""
        if self._is_over:
            return math.inf
        if self.welcome is None:
            return self._hello_at
        return min(self._lost_at(self.welcome), self._ping_at)

    def leave(self) -> list[Instruction]:
        """Leave on purpose: send BYE if there is a session to end."""
        joined = self.welcome is not None
        self._is_over, self.welcome = True, None
        return [Bye()] if joined else []

    def _lost_at(self, welcome: Welcome) -> float:
        return self._last_received + max(welcome.lease, 2 * SHORTEST_HEARTBEAT)

    def _schedule_hello(self, now: float) -> None:
        """Use decorrelated jitter, so that clients that lost a server together do not all rejoin at once."""
        self._wait = min(HELLO_LONGEST, self._rng.uniform(HELLO_FIRST, max(HELLO_FIRST, 3 * self._wait)))
        self._hello_at = now + self._wait

    def _lose(self, reason: str, now: float) -> list[Instruction]:
        self.welcome = None
        self._wait = HELLO_FIRST
        # A new number, so that the server does not take this HELLO for the old one sent again.
        self._hello = msgspec.structs.replace(self._hello, join=self._hello.join + 1)
        self._schedule_hello(now)
        return [Lost(reason)]


def _heartbeat(welcome: Welcome) -> float:
    return max(welcome.heartbeat, SHORTEST_HEARTBEAT)


@dataclass
class Session:
    """The server's end: a peer that has said HELLO and was welcomed."""

    number: int
    """A random number, so that a session of an earlier server is never mistaken for one of this server."""
    peer: bytes
    """Where answers go: the number that the server's door gave the connection."""
    hello: Hello
    joined_at: float
    last_received: float
    owner: str = ""
    """Name of the key that the peer has proved; "" where no key is needed."""
    ended: str = ""
    """Why `SessionTable.expire` returned the session."""
    is_silent: bool = False
    """Whether its lease ran out; otherwise another session replaced it."""

    @property
    def role(self) -> str:
        return self.hello.role

    @property
    def who(self) -> str:
        return who_of(self.hello, self.owner)


def who_of(hello: Hello, owner: str) -> str:
    """Return a peer's name for the log. `owner`: the name of its key, "" if it has shown none."""
    who = f"{hello.role} {hello.name}".strip()
    return f"{who} (key of {owner})" if owner else who


class SessionTable:
    """All sessions of a server. `welcome(session, now)` returns the WELCOME, or a GOODBYE that refuses the
    peer."""

    def __init__(
        self,
        welcome: Callable[[Session, float], Welcome | Goodbye],
        *,
        lease: float,
        rng: random.Random,
        limit: int = MAX_SESSIONS,
    ) -> None:
        """`lease`: seconds of silence after which a session ends. `limit`: most sessions. If all are taken, a
        newcomer replaces a session of the key that has the most, if its own key then still has fewer."""
        self._welcome = welcome
        self._lease = lease
        self._rng = rng
        self._limit = limit
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        """Ordered by when each was last heard, oldest first."""
        self._roles: Counter[str] = Counter()
        self._owned: Counter[str] = Counter()
        """Sessions by key; no zeros."""
        self._ended: list[Session] = []
        """Sessions that the next `expire` returns: `join` reports none in the middle of a HELLO."""

    def join(self, peer: bytes, hello: Hello, now: float, owner: str = "") -> Welcome | Goodbye:
        """Answer a HELLO; `owner` as in `Session`. The same HELLO again is a resend, and keeps the session. A
        different HELLO from the same peer ends its session (the next `expire` returns it) and begins a new
        one."""
        refusal = version_refusal(hello.protocol, hello.role)
        if refusal is not None:
            return refusal
        present = self._sessions.get(peer)
        # The WELCOME may have been lost, so send it again.
        if present is not None and present.hello == hello:
            self.touch(peer, now)
            return self._welcome(present, now)
        if present is not None:
            self._end(present, "it said hello anew")
        if len(self._sessions) >= self._limit:
            # End the newest session of the key with the most sessions, unless `owner` would have as many with
            # its new one.
            crowd, most = max(self._owned.items(), key=lambda one: one[1], default=("", 0))
            if most <= self._owned[owner] + 1:
                return Goodbye(Code.BUSY, f"the server has {self._limit} sessions, its limit", HELLO_LONGEST)
            crowding = (one for one in self._sessions.values() if one.owner == crowd)
            leaving = max(crowding, key=lambda one: one.joined_at)
            self._end(leaving, f"there are {self._limit} sessions, and its key has most of them")
        # A number that nobody can guess, and that no earlier server has used.
        number = self._rng.getrandbits(62)
        session = Session(number, peer, hello, joined_at=now, last_received=now, owner=owner)
        # Count the session only once it is welcome: it may be refused for lack of credits.
        answer = self._welcome(session, now)
        if isinstance(answer, Welcome):
            self._sessions[peer] = session
            self._roles[session.role] += 1
            if owner:
                self._owned[owner] += 1
        return answer

    def touch(self, peer: bytes, now: float) -> Session | None:
        """Renew the lease of `peer`, which sent something. Returns None if the peer has no session: answer it
        with `hello_first`."""
        session = self._sessions.get(peer)
        if session is not None:
            session.last_received = now
            self._sessions.move_to_end(peer)
        return session

    def leave(self, peer: bytes) -> Session | None:
        """End the session of `peer`, which said BYE or cannot be reached any more."""
        session = self._sessions.get(peer)
        if session is not None:
            self._remove(session)
        return session

    def expire(self, now: float) -> list[Session]:
        """Return the sessions that ended since the last call: lease over, or replaced by a new HELLO."""
        while self._sessions:
            # Sessions are ordered by when they were last heard, so the first that is in time ends the search.
            oldest = next(iter(self._sessions.values()))
            if now < oldest.last_received + self._lease:
                break
            oldest.is_silent = True
            self._end(oldest, f"nothing heard from it for {now - oldest.last_received:.0f} s")
        ended, self._ended = self._ended, []
        return ended

    def get(self, peer: bytes) -> Session | None:
        return self._sessions.get(peer)

    def count(self, role: str) -> int:
        """Return the number of sessions with this role. Each STATUS asks for this number, so it is kept up to
        date and not counted anew."""
        return self._roles[role]

    def by_key(self) -> Counter[str]:
        """Return the number of sessions of each key that has any, by the key's name; see `count`."""
        return self._owned.copy()

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def _end(self, session: Session, why: str) -> None:
        session.ended = why
        self._remove(session)
        self._ended.append(session)

    def _remove(self, session: Session) -> None:
        del self._sessions[session.peer]
        self._roles[session.role] -= 1
        if session.owner:
            self._owned[session.owner] -= 1
            if not self._owned[session.owner]:
                del self._owned[session.owner]


def version_refusal(protocol: int, role: str) -> Goodbye | None:
    """Return the GOODBYE for a peer that speaks another protocol version; it says which side to upgrade."""
    if protocol == PROTOCOL_VERSION:
        return None
    older = protocol < PROTOCOL_VERSION
    code = Code.PROTOCOL_TOO_OLD if older else Code.PROTOCOL_TOO_NEW
    side = role if older else "server"
    versions = f"this {role} speaks protocol {protocol}, the server {PROTOCOL_VERSION}"
    return Goodbye(code, f"{versions}: upgrade the {side}")


def hello_refusal(seen: Outline, error: str) -> Goodbye:
    """Return the final GOODBYE for a malformed HELLO: it checks the version, then the role, then gives
    `error`."""
    # The role only chooses the sentence; an unknown role counts as a client's.
    known = seen.role if seen.role in ROLES else "client"
    if seen.protocol is not None and (refusal := version_refusal(seen.protocol, known)) is not None:
        return refusal
    if seen.role not in ("", known):
        return Goodbye(Code.ROLE_NOT_ALLOWED, f"role {seen.role[:40]!r} is none of {', '.join(ROLES)}")
    return Goodbye(Code.BAD_MESSAGE, f"this hello cannot be read: {error}"[:2000])


def hello_first() -> Goodbye:
    """Return the answer to a message from a peer that has no session."""
    reason = "no session here: say hello first (it ended, the server was restarted, or there never was one)"
    return Goodbye(Code.HELLO_REQUIRED, reason)
