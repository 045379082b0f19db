"""One ROUTER socket with its sessions: reads, checks, and hands each message to the handler of its type.

Nothing a peer sends can do more than be counted: bytes that are no map are dropped, a message out of
shape or place is refused, and who has not said HELLO is asked to. A fault of ours in a handler is logged,
counted and answered (`internal`); only a Fatal ends the process.
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
from protocol.outline import HELLO, hello_refusal, outline, request_of
from protocol.sessions import Session, SessionTable, hello_first
from runtime.logs import Repeated
from runtime.sockets import Channel, Frame, Socket
from server.figures import Figures

log = logging.getLogger(__name__)

ANYONE = frozenset({"worker", "client", "trainer", "watcher"})
PLAYERS = frozenset({"worker", "client"})
TRAINER = frozenset({"trainer"})

FAULT = "a fault in the server, its log has more"
"""Reason of an `internal`."""
FAULT_RETRY = 5.0
"""Seconds after which a peer may try again what met a fault."""

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

    def fault(self, peer: bytes, message: Message, error: Exception) -> None:
        """Note an exception in the handling of `message` and answer it. Raises it again if it is a Fatal."""
        self._figures.faults.note(f"{self._name} port, {_tag(message)}", error, self._clock())
        number = getattr(message, "request", getattr(message, "offset", 0))
        self.refuse(peer, Code.INTERNAL, FAULT, number, retry_after=FAULT_RETRY)

    def expire(self, now: float) -> None:
        """End the sessions whose lease has run out."""
        for session in self.sessions.expire(now):
            self._ended(session, session.ended)

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
        with self._figures.faults.survived(f"{self._name} port", self._clock()):
            self._read(frames)

    def _read(self, frames: list[memoryview]) -> None:
        peer = bytes(frames[0])
        try:
            if len(frames) < 2:
                raise BadMessage("no frames behind the peer's identity")
            message = decode(frames[1])
        except BadMessage as error:
            self._malformed(peer, str(error))
            self._answer_malformed(peer, frames[1] if len(frames) > 1 else b"", str(error))
            return
        try:
            self._on_message(peer, message, frames[2:])
        except BadMessage as error:
            self._malformed(peer, str(error))
            self.refuse(peer, Code.BAD_FRAMES, f"{_tag(message)}: {error}", getattr(message, "request", 0))

    def _answer_malformed(self, peer: bytes, header: bytes | memoryview, error: str) -> None:
        """Tell the sender of a map of the wrong shape; bytes that are no map get no answer."""
        entries = outline(header)
        if entries is None:
            return
        if entries.get("type") == HELLO:
            self._refuse_hello(peer, hello_refusal(entries, error))
        elif self.sessions.touch(peer, self._clock()) is None:
            self.send(peer, hello_first())
        else:
            self.refuse(peer, Code.BAD_MESSAGE, error, request_of(entries))

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
        answer = self._join(peer, hello, now)
        self.expire(now)
        if isinstance(answer, Goodbye):
            self._warn.warning(answer.code, f"refused {_who(hello)}: {answer.reason}", now)
            self._refuse_hello(peer, answer)
            return
        self.send(peer, answer)
        if known is None or known.number != answer.session:
            log.info("%s has joined the %s port", _who(hello), self._name)

    def _join(self, peer: bytes, hello: Hello, now: float) -> Welcome | Goodbye:
        try:
            return self.sessions.join(peer, hello, now)
        except Exception as error:
            self._figures.faults.note(f"{self._name} port, hello", error, now)
            return Goodbye(Code.INTERNAL, FAULT, FAULT_RETRY)

    def _refuse_hello(self, peer: bytes, goodbye: Goodbye) -> None:
        """No session, and none of before either."""
        self.send(peer, goodbye)
        if (session := self.sessions.leave(peer)) is not None:
            self._ended(session, goodbye.reason)

    def _route(self, session: Session, message: AnyMessage, frames: list[memoryview]) -> None:
        route = self._routes.get(type(message))
        if route is None:
            reason = f"{_tag(message)} does not belong on the {self._name} port"
            self._malformed(_peer(session), reason)
            self.refuse(_peer(session), Code.BAD_MESSAGE, reason, getattr(message, "request", 0))
            return
        if session.role not in route.roles:
            reason = f"a {session.role} may not send {_tag(message)}"
            self._malformed(_peer(session), reason)
            self.refuse(_peer(session), Code.ROLE_NOT_ALLOWED, reason, getattr(message, "request", 0))
            return
        if len(frames) != route.frames:
            raise BadMessage(f"{len(frames)} frames after the header, expected {route.frames}")
        try:
            route.handler(session, message, frames)
        except BadMessage:
            raise
        except Exception as error:
            self.fault(_peer(session), message, error)

    def _malformed(self, peer: bytes, reason: str) -> None:
        self._figures.protocol_errors += 1
        session = self.sessions.get(peer)
        who = _who(session.hello) if session else "a peer without session"
        self._warn.warning(
            "malformed", f"{self._name} port: dropped a message of {who}: {reason}", self._clock()
        )

    def _ended(self, session: Session, reason: str) -> None:
        log.info("%s has left the %s port: %s", _who(session.hello), self._name, reason)
        with self._figures.faults.survived(f"{self._name} port, end of a session", self._clock()):
            self._on_end(session)


def peer_of(session: Session) -> bytes:
    """The ROUTER's identity of a session's peer."""
    peer = session.peer
    assert isinstance(peer, bytes)
    return peer


_peer = peer_of


def _tag(message: Message) -> str:
    """The message's `type` on the wire."""
    return str(message.__struct_config__.tag)


def _who(hello: Hello) -> str:
    return f"{hello.role} {hello.name}".strip()
