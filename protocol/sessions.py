"""Sessions, both ends: joining, keeping alive, losing and joining again. No sockets, no clock inside.

Each call is `(event, now) -> instructions`; whoever owns the socket carries them out. A session is a
lease: any traffic renews it, PING goes out when one direction was quiet, and its end loses nothing,
because whatever matters is resent by the side that still has it.
"""

from __future__ import annotations

import math
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum

import msgspec

from protocol.errors import REJOIN_CODES, Code
from protocol.messages import PROTOCOL_VERSION, AnyMessage, Bye, Goodbye, Hello, Ping, Welcome

MAX_SESSIONS = 10_000
"""Sessions of one port of a server at most."""
HELLO_FIRST = 0.2
"""Seconds: shortest wait before another HELLO."""
HELLO_LONGEST = 30.0
"""Seconds: longest wait before another HELLO."""
SHORTEST_HEARTBEAT = 0.1
"""Seconds: whatever WELCOME says, no client sends PING more often."""


@dataclass(frozen=True)
class Send:
    """Send this message to the server."""

    message: AnyMessage


@dataclass(frozen=True)
class Joined:
    """The session has begun: (re)send what is unanswered."""

    welcome: Welcome


@dataclass(frozen=True)
class Lost:
    """The session has ended; the machine goes on trying to join by itself."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """The server does not want this client, now or later: stop, and tell the user its reason."""

    goodbye: Goodbye


Instruction = Send | Joined | Lost | Refused


class ClientState(Enum):
    NEW = "new"
    JOINING = "joining"
    JOINED = "joined"
    REFUSED = "refused"
    LEFT = "left"


class ClientSession:
    """The client's end. Call `tick` at `due()`, and `sent` whenever something else went out."""

    def __init__(self, hello: Hello, now: float, rng: random.Random) -> None:
        self.state = ClientState.NEW
        self.welcome: Welcome | None = None
        """Of the session at hand; None while there is none."""
        self._hello = hello
        self._rng = rng
        self._wait = HELLO_FIRST
        self._hello_at = now
        self._heard_at = now
        self._sent_at = now
        self._pinged_at = -math.inf

    def start(self, now: float) -> list[Instruction]:
        """Say HELLO for the first time. Does nothing when called again."""
        if self.state is not ClientState.NEW:
            return []
        self.state = ClientState.JOINING
        return [self._say_hello(now)]

    def on_message(self, message: AnyMessage, now: float) -> list[Instruction]:
        """Whatever came from the server; all of it shows that the server is alive."""
        if self.state in (ClientState.NEW, ClientState.REFUSED, ClientState.LEFT):
            return []
        self._heard_at = now
        if isinstance(message, Welcome):
            return self._on_welcome(message, now)
        if isinstance(message, Goodbye):
            return self._on_goodbye(message, now)
        return []

    def sent(self, now: float) -> None:
        """Something was sent: no PING is needed for a while."""
        self._sent_at = now

    def tick(self, now: float) -> list[Instruction]:
        """Time has passed."""
        if self.state is ClientState.JOINING and now >= self._hello_at:
            return [self._say_hello(now)]
        if self.state is not ClientState.JOINED or self.welcome is None:
            return []
        if now >= self._lost_at(self.welcome):
            return self._lose(f"nothing heard from the server for {now - self._heard_at:.1f} s", now)
        if now >= self._ping_at(self.welcome):
            self._sent_at = self._pinged_at = now
            return [Send(Ping())]
        return []

    def due(self) -> float | None:
        """When `tick` has something to do if nothing else happens; None: never."""
        if self.state is ClientState.JOINING:
            return self._hello_at
        if self.state is ClientState.JOINED and self.welcome is not None:
            return min(self._lost_at(self.welcome), self._ping_at(self.welcome))
        return None

    def leave(self, now: float) -> list[Instruction]:
        """Leave on purpose: BYE if there is a session to end."""
        joined = self.state is ClientState.JOINED
        self.state, self.welcome = ClientState.LEFT, None
        self._sent_at = now
        return [Send(Bye())] if joined else []

    def _ping_at(self, welcome: Welcome) -> float:
        """A peer that only tells hears nothing, and one that only listens is forgotten: both ping."""
        quiet_since = min(self._sent_at, self._heard_at)
        return max(quiet_since, self._pinged_at) + max(welcome.heartbeat, SHORTEST_HEARTBEAT)

    def _lost_at(self, welcome: Welcome) -> float:
        return self._heard_at + max(welcome.lease, 2 * SHORTEST_HEARTBEAT)

    def _say_hello(self, now: float) -> Instruction:
        self._schedule_hello(now)
        self._sent_at = now
        return Send(self._hello)

    def _schedule_hello(self, now: float) -> None:
        """Decorrelated jitter: clients that lost a server together do not come back together."""
        self._wait = min(HELLO_LONGEST, self._rng.uniform(HELLO_FIRST, max(HELLO_FIRST, 3 * self._wait)))
        self._hello_at = now + self._wait

    def _on_welcome(self, welcome: Welcome, now: float) -> list[Instruction]:
        again = self.state is ClientState.JOINED
        if again and self.welcome is not None and self.welcome.session == welcome.session:
            return []
        instructions: list[Instruction] = [Lost("the server began another session")] if again else []
        self.state, self.welcome = ClientState.JOINED, welcome
        self._wait = HELLO_FIRST
        self._sent_at = now
        return [*instructions, Joined(welcome)]

    def _on_goodbye(self, goodbye: Goodbye, now: float) -> list[Instruction]:
        if goodbye.code in REJOIN_CODES:
            # While joining, HELLO is under way already: answering each such GOODBYE would make a storm.
            return self._lose(goodbye.reason, now) if self.state is ClientState.JOINED else []
        if goodbye.retry_after > 0:
            instructions = self._lose(goodbye.reason, now) if self.state is ClientState.JOINED else []
            self._hello_at = now + max(HELLO_FIRST, goodbye.retry_after * self._rng.uniform(1.0, 1.5))
            return instructions
        self.state, self.welcome = ClientState.REFUSED, None
        return [Refused(goodbye)]

    def _lose(self, reason: str, now: float) -> list[Instruction]:
        self.state, self.welcome = ClientState.JOINING, None
        self._wait = HELLO_FIRST
        self._hello = msgspec.structs.replace(self._hello, join=self._hello.join + 1)
        self._schedule_hello(now)
        return [Lost(reason)]


@dataclass
class Session:
    """The server's end: a peer that has said HELLO and was welcomed."""

    number: int
    """Random, so that no session of an earlier server is taken for one of this."""
    peer: Hashable
    """Where answers go: the door's number of its connection."""
    hello: Hello
    joined_at: float
    heard_at: float
    owner: str = ""
    """Name of the key that it has shown; "" where it needs none."""
    ended: str = ""
    """Why it came out of `SessionTable.expire`."""

    @property
    def role(self) -> str:
        return self.hello.role

    @property
    def who(self) -> str:
        return who_of(self.hello, self.owner)


def who_of(hello: Hello, owner: str) -> str:
    """A peer as the log names it. `owner`: the name of its key, "" if it has shown none."""
    who = f"{hello.role} {hello.name}".strip()
    return f"{who} (key of {owner})" if owner else who


class SessionTable:
    """All sessions of a server. `welcome(session, now)` makes the WELCOME, or a GOODBYE that refuses."""

    def __init__(
        self,
        welcome: Callable[[Session, float], Welcome | Goodbye],
        *,
        lease: float,
        rng: random.Random,
        limit: int = MAX_SESSIONS,
    ) -> None:
        """`lease`: seconds of silence after which a session ends. `limit`: sessions at most."""
        self._welcome = welcome
        self._lease = lease
        self._rng = rng
        self._limit = limit
        self._sessions: OrderedDict[Hashable, Session] = OrderedDict()
        """Least recently heard first."""
        self._roles: Counter[str] = Counter()
        self._replaced: list[Session] = []

    def join(self, peer: Hashable, hello: Hello, now: float, owner: str = "") -> Welcome | Goodbye:
        """Answer a HELLO; `owner` as of `Session`. The same HELLO again is a resend and keeps the session;
        another one from the same peer ends it (it comes out of the next `expire`) and begins a new one."""
        refusal = version_refusal(hello.protocol, hello.role)
        if refusal is not None:
            return refusal
        present = self._sessions.get(peer)
        if present is not None and present.hello == hello:
            self.touch(peer, now)
            return self._welcome(present, now)
        if present is not None:
            present.ended = "it said hello anew"
            self._remove(present)
            self._replaced.append(present)
        if len(self._sessions) >= self._limit:
            return Goodbye(Code.BUSY, f"the server has {self._limit} sessions, its limit", HELLO_LONGEST)
        number = self._rng.getrandbits(62)
        session = Session(number, peer, hello, joined_at=now, heard_at=now, owner=owner)
        answer = self._welcome(session, now)
        if isinstance(answer, Welcome):
            self._sessions[peer] = session
            self._roles[session.role] += 1
        return answer

    def touch(self, peer: Hashable, now: float) -> Session | None:
        """Something came from `peer`: renew its lease. None: it has no session, answer `hello_first`."""
        session = self._sessions.get(peer)
        if session is not None:
            session.heard_at = now
            self._sessions.move_to_end(peer)
        return session

    def leave(self, peer: Hashable) -> Session | None:
        """`peer` said BYE, or cannot be reached any more."""
        session = self._sessions.get(peer)
        if session is not None:
            self._remove(session)
        return session

    def expire(self, now: float) -> list[Session]:
        """Sessions that ended since the last call: lease over, or replaced by a new HELLO."""
        ended, self._replaced = self._replaced, []
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if now < oldest.heard_at + self._lease:
                break
            oldest.ended = f"nothing heard from it for {now - oldest.heard_at:.0f} s"
            self._remove(oldest)
            ended.append(oldest)
        return ended

    def get(self, peer: Hashable) -> Session | None:
        return self._sessions.get(peer)

    def count(self, role: str) -> int:
        """How many sessions have this role. Asked for with each STATUS, so it is kept and not looked up."""
        return self._roles[role]

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def _remove(self, session: Session) -> None:
        del self._sessions[session.peer]
        self._roles[session.role] -= 1


def version_refusal(protocol: int, role: str) -> Goodbye | None:
    """The GOODBYE for a peer that speaks another protocol; it says which side to upgrade."""
    if protocol == PROTOCOL_VERSION:
        return None
    older = protocol < PROTOCOL_VERSION
    code = Code.PROTOCOL_TOO_OLD if older else Code.PROTOCOL_TOO_NEW
    side = role if older else "server"
    versions = f"this {role} speaks protocol {protocol}, the server {PROTOCOL_VERSION}"
    return Goodbye(code, f"{versions}: upgrade the {side}")


def hello_first() -> Goodbye:
    """The answer to a message from a peer that has no session."""
    reason = "no session here: say hello first (it ended, the server was restarted, or there never was one)"
    return Goodbye(Code.HELLO_REQUIRED, reason)
