"""One ROUTER socket with its sessions: reads, checks, and hands each message to the handler of its type.

Nothing a peer sends can do more than be counted: bytes that are no message are dropped, a message out of
place is refused, and who has not said HELLO is asked to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.errors import Code
from protocol.messages import (
    AnyMessage,
    BadMessage,
    Bye,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    Refused,
    Welcome,
    decode,
    encode,
)
from protocol.sessions import Session, SessionTable, hello_first
from runtime.logs import Repeated
from runtime.sockets import Channel, Frame, Socket
from server.figures import Figures

log = logging.getLogger(__name__)

ANYONE = frozenset({"worker", "client", "trainer", "watcher"})
PLAYERS = frozenset({"worker", "client"})
TRAINER = frozenset({"trainer"})

Handler = Callable[[Session, Any, list[memoryview]], None]


@dataclass(frozen=True)
class Route:
    """Where messages of one type go: who may send them, with how many frames behind the header."""

    handler: Handler
    roles: frozenset[str] = ANYONE
    frames: int = 0


class Port:
    """Sessions of one socket. `on_end(session)` is called once for each session that ended."""

    def __init__(
        self,
        name: str,
        socket: Socket,
        sessions: SessionTable,
        routes: Mapping[type[Message], Route],
        figures: Figures,
        *,
        on_end: Callable[[Session], None],
        version: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name`: for the log. `version` gives the current weights version, for PONG."""
        self._name = name
        self.sessions = sessions
        self.channel = Channel(socket, self._on_frames)
        self._routes = routes
        self._figures = figures
        self._on_end = on_end
        self._version = version
        self._clock = clock
        self._warn = Repeated(log)

    def send(self, peer: bytes, message: Message, *frames: Frame) -> bool:
        """False when the peer is gone or does not read."""
        return self.channel.send([peer, encode(message), *frames])

    def refuse(self, peer: bytes, code: Code, reason: str, request: int, retry_after: float = 0.0) -> None:
        self.send(peer, Refused(code, reason[:2000], request, retry_after))

    def expire(self, now: float) -> None:
        """End the sessions whose lease has run out."""
        for session in self.sessions.expire(now):
            self._ended(session, "nothing heard from it")

    def end(self, session: Session, goodbye: Goodbye) -> None:
        """End a session from our side."""
        if self.sessions.leave(_peer(session)) is not None:
            self.send(_peer(session), goodbye)
            self._ended(session, goodbye.reason)

    def say_goodbye(self, goodbye: Goodbye) -> None:
        """Tell all sessions that this server ends."""
        for session in self.sessions.all():
            self.send(_peer(session), goodbye)

    # ---- inside -----------------------------------------------------------------------------

    def _on_frames(self, frames: list[memoryview]) -> None:
        peer = bytes(frames[0])
        try:
            if len(frames) < 2:
                raise BadMessage("no frames behind the peer's identity")
            message = decode(frames[1])
        except BadMessage as error:
            self._malformed(peer, str(error))
            return
        try:
            self._on_message(peer, message, frames[2:])
        except BadMessage as error:
            self._malformed(peer, str(error))
            if request := getattr(message, "request", 0):
                self.refuse(peer, Code.BAD_FRAMES, str(error), request)

    def _on_message(self, peer: bytes, message: AnyMessage, frames: list[memoryview]) -> None:
        now = self._clock()
        if isinstance(message, Hello):
            self._on_hello(peer, message, now)
            return
        session = self.sessions.touch(peer, now)
        if session is None:
            self.send(peer, hello_first())
        elif isinstance(message, Ping):
            self.send(peer, Pong(self._version()))
        elif isinstance(message, Bye):
            self.sessions.leave(peer)
            self._ended(session, "on purpose")
        else:
            self._route(session, message, frames)

    def _on_hello(self, peer: bytes, hello: Hello, now: float) -> None:
        known = self.sessions.get(peer)
        answer = self.sessions.join(peer, hello, now)
        self.expire(now)
        self.send(peer, answer)
        if isinstance(answer, Goodbye):
            self._warn.warning(answer.code, f"refused {_who(hello)}: {answer.reason}", now)
        elif isinstance(answer, Welcome) and (known is None or known.number != answer.session):
            log.info("%s has joined the %s port", _who(hello), self._name)

    def _route(self, session: Session, message: AnyMessage, frames: list[memoryview]) -> None:
        route = self._routes.get(type(message))
        if route is None:
            raise BadMessage(f"{type(message).__name__} does not belong on this port")
        if session.role not in route.roles:
            reason = f"a {session.role} may not send {type(message).__name__}"
            self._malformed(_peer(session), reason)
            self.refuse(_peer(session), Code.ROLE_NOT_ALLOWED, reason, getattr(message, "request", 0))
            return
        if len(frames) != route.frames:
            raise BadMessage(f"{len(frames)} frames after the header, expected {route.frames}")
        route.handler(session, message, frames)

    def _malformed(self, peer: bytes, reason: str) -> None:
        self._figures.protocol_errors += 1
        session = self.sessions.get(peer)
        who = _who(session.hello) if session else "a peer without session"
        self._warn.warning(
            "malformed", f"{self._name} port: dropped a message of {who}: {reason}", self._clock()
        )

    def _ended(self, session: Session, reason: str) -> None:
        log.info("%s has left the %s port: %s", _who(session.hello), self._name, reason)
        self._on_end(session)


def peer_of(session: Session) -> bytes:
    """The ROUTER's identity of a session's peer."""
    peer = session.peer
    assert isinstance(peer, bytes)
    return peer


_peer = peer_of


def _who(hello: Hello) -> str:
    return f"{hello.role} {hello.name}".strip()
