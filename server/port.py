"""One door with its sessions: reads and checks each message, and hands it to the handler of its type.

The worst effect of a bad message is that it is counted. Bytes that are not a map are dropped, a malformed or
misplaced message is refused, and a peer that has not said HELLO is asked to say it. An exception in one of
our handlers is logged, counted and answered (`internal`); only a Fatal ends the process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from azselfplay.link.door import Door
from protocol.errors import Code
from protocol.keys import role_refusal
from protocol.messages import (
    HELLO,
    MAX_HEADER,
    MAX_HELLO,
    TAGS,
    BadMessage,
    Bye,
    Goodbye,
    Message,
    Outline,
    Ping,
    Pong,
    Refused,
    Welcome,
    decode,
    decode_hello,
    encode,
    outline,
    tag_of,
)
from protocol.sessions import Session, SessionTable, hello_first, hello_refusal, who_of
from server.metrics import Figures

log = logging.getLogger(__name__)

ANYONE = frozenset({"worker", "client", "trainer", "watcher"})
PLAYERS = frozenset({"worker", "client"})
TRAINER = frozenset({"trainer"})

SOON = 5.0
"""Seconds. A peer that may say HELLO again within this time only waits for something to start or end; the log
does not call it refused."""
FAULT = "a fault in the server, its log has more"
"""Reason in an `internal` refusal."""
FAULT_RETRY = 5.0
"""Seconds after which a peer may repeat a message that caused a fault."""

Handler = Callable[[Session, Any, list[memoryview]], None]


@dataclass(frozen=True)
class Route:
    """Handler for messages of one type: who may send them, and with how many frames after the header."""

    handler: Handler
    roles: frozenset[str] = ANYONE
    frames: int = 0
    is_work: bool = False
    """True if credits or windows bound these messages. Others are limited to a rate per peer
    (`Door.charge`)."""


class Port:
    """Sessions of one socket. `on_end(session)` is called once for each session that ended."""

    def __init__(
        self,
        name: str,
        door: Door,
        sessions: SessionTable,
        routes: Mapping[type[Message], Route],
        figures: Figures,
        *,
        on_end: Callable[[Session], None],
        version: Callable[[], int],
    ) -> None:
        """`name`: for the log. `version` returns the current weights version, for PONG. Without a route for
        PING, a PING is answered without being decoded."""
        self._name = name
        self.sessions = sessions
        self.door = door
        # One count of faults for all parts of the server.
        door.faults = figures.faults
        self._routes = {_tag(kind): route for kind, route in routes.items()}
        self._figures = figures
        self._on_end = on_end
        self._version = version
        self._in_hand, self._unpaid = b"", 0
        """Sender of the message being handled, and its bytes that are not charged yet."""

    def start(self) -> None:
        """Accept peers. Must be called in the thread of the event loop."""
        self.door.start(self._on_frames, self._on_gone)

    def close(self) -> None:
        self.door.close()

    def send(self, peer: bytes, message: Message, *frames: bytes | memoryview) -> bool:
        """Send a message. Returns False when the peer is gone or does not read."""
        return self.door.send(peer, (encode(message), *frames))

    def charge(self, peer: bytes) -> None:
        """Charge `peer` for a message that brings no work, and for its bytes if it is the message in hand. A
        peer that sends many such messages is read more slowly."""
        size = self._unpaid if peer == self._in_hand else 0
        # The bytes are charged once, however often the message in hand is charged.
        self._unpaid -= size
        self.door.charge(peer, size)

    def refuse(self, peer: bytes, code: Code, reason: str, request: int, retry_after: float = 0.0) -> None:
        """Tell `peer` that one of its messages is refused."""
        self.charge(peer)
        self.send(peer, Refused(code, reason[:2000], request, retry_after))

    def fault(self, peer: bytes, message: Message, error: Exception) -> None:
        """Note an exception raised while handling `message`, and answer the message. Raises it again if it is
        a Fatal."""
        self._figures.faults.note(f"{self._name} port, {_tag(message)}", error)
        # The number by which the peer knows its message: EVALUATE has a request number, GET_CHUNK an offset.
        number = getattr(message, "request", getattr(message, "offset", 0))
        self.refuse(peer, Code.INTERNAL, FAULT, number, retry_after=FAULT_RETRY)

    def expire(self, now: float) -> None:
        """End the sessions whose lease has run out, or that others replaced."""
        for session in self.sessions.expire(now):
            self._ended(session, session.ended, "lease" if session.is_silent else "ended")

    def end(self, session: Session, goodbye: Goodbye) -> None:
        """End a session from the server's side."""
        if self.sessions.leave(session.peer) is not None:
            self.send(session.peer, goodbye)
            self._ended(session, goodbye.reason, "ended")

    def say_goodbye(self, goodbye: Goodbye) -> None:
        """Tell all sessions that this server is ending."""
        for session in self.sessions.all():
            self.send(session.peer, goodbye)

    def revoke(self) -> None:
        """Act on a change of the allowed keys: end the sessions whose key is no longer allowed."""
        for peer in self.door.revoked():
            if (session := self.sessions.get(peer)) is not None:
                self.end(session, _REVOKED)
            self.door.cut_off(peer, "its key is not allowed any more")

    # ---- inside -----------------------------------------------------------------------------

    def _on_frames(self, peer: bytes, frames: list[memoryview]) -> None:
        now, header = time.monotonic(), frames[0]
        self._in_hand, self._unpaid = peer, sum(map(len, frames))
        try:
            # Decode nothing before it is known that the sender may send it.
            session = self.sessions.touch(peer, now)
            # A peer without a session may send nothing but a HELLO.
            longest = MAX_HELLO if session is None else MAX_HEADER
            tag = tag_of(header) if len(header) <= longest else None
            route = None if session is None or tag is None else self._routes.get(tag)
            if session is not None and route is not None and route.is_work and session.role in route.roles:
                self._handle(session, route, header, frames[1:])
                return
            if route is None or not route.is_work:
                self.charge(peer)
            if len(header) > longest:
                reason = f"frame 0 has {len(header)} bytes, expected at most {longest}"
                self._misfit(peer, session, reason, 0)
            elif tag is None:
                self._malformed(peer, "frame 0 is no MessagePack map with text keys")
            elif tag == HELLO:
                self._on_hello(peer, header, now)
            elif session is None:
                self.send(peer, hello_first())
            else:
                self._on_message(session, tag, header, frames[1:])
        except Exception as error:
            self._figures.faults.note(f"{self._name} port", error)
        finally:
            self._in_hand, self._unpaid = b"", 0

    def _on_gone(self, peer: bytes, why: str) -> None:
        """End the session of a connection that ended. The peer sends unfinished work again on its next
        connection."""
        if (session := self.sessions.leave(peer)) is not None:
            self._ended(session, why or "it hung up", "hung_up")

    def _misfit(
        self, peer: bytes, session: Session | None, reason: str, request: int, code: Code = Code.BAD_MESSAGE
    ) -> None:
        """Count an invalid message, and tell its sender."""
        self._malformed(peer, reason)
        if session is None:
            # The peer may not know that its session has ended.
            self.send(peer, hello_first())
        else:
            self.refuse(peer, code, reason, request)

    def _on_message(
        self, session: Session, tag: str, header: bytes | memoryview, frames: list[memoryview]
    ) -> None:
        peer = session.peer
        if tag == _PING:
            # Any PING keeps the session alive; only a port that counts evaluations decodes it.
            if (route := self._routes.get(_PING)) is not None:
                try:
                    route.handler(session, decode(header), [])
                except BadMessage as error:
                    self._malformed(peer, str(error))
            self.send(peer, Pong(self._version(), session.number))
        elif tag == _BYE:
            self.sessions.leave(peer)
            self._ended(session, "", "left")
        elif (route := self._routes.get(tag)) is not None and session.role in route.roles:
            self._handle(session, route, header, frames)
        else:
            # This session may not send messages of this type here.
            code, reason = Code.ROLE_NOT_ALLOWED, f"a {session.role} may not send {tag}"
            if tag not in TAGS:
                code, reason = Code.BAD_MESSAGE, f"no message has the type {tag[:40]!r}"
            elif route is None:
                code, reason = Code.BAD_MESSAGE, f"{tag} does not belong on the {self._name} port"
            self._misfit(peer, session, reason, _request_in(header), code)

    def _handle(
        self, session: Session, route: Route, header: bytes | memoryview, frames: list[memoryview]
    ) -> None:
        peer = session.peer
        try:
            message = decode(header)
        except BadMessage as error:
            self._misfit(peer, session, str(error), _request_in(header))
            return
        try:
            if len(frames) != route.frames:
                raise BadMessage(f"{len(frames)} frames after the header, expected {route.frames}")
            route.handler(session, message, frames)
        except BadMessage as error:
            number = getattr(message, "request", 0)
            self._misfit(peer, session, f"{_tag(message)}: {error}", number, Code.BAD_FRAMES)
        except Exception as error:
            # A fault in this server must not end the sessions of other peers.
            self.fault(peer, message, error)

    def _on_hello(self, peer: bytes, header: bytes | memoryview, now: float) -> None:
        try:
            hello = decode_hello(header)
        except BadMessage as error:
            self._malformed(peer, str(error))
            self._refuse_hello(peer, hello_refusal(outline(header) or Outline(), str(error)))
            return
        known = self.sessions.get(peer)
        answer: Welcome | Goodbye | None = role_refusal(self.door.owner(peer), hello.role)
        if answer is None:
            try:
                answer = self.sessions.join(peer, hello, now, self._owner(peer))
            except Exception as error:
                self._figures.faults.note(f"{self._name} port, hello", error)
                answer = Goodbye(Code.INTERNAL, FAULT, FAULT_RETRY)
        self.expire(now)
        if isinstance(answer, Goodbye):
            who = who_of(hello, self._owner(peer))
            if 0 < answer.retry_after <= SOON:  # a short wait is no cause for concern
                log.info("%s has to wait a moment: %s", who, answer.reason)
            else:
                log.warning("refused %s: %s", who, answer.reason)
            self._refuse_hello(peer, answer)
            return
        self.door.admit(peer)
        self.send(peer, answer)
        if known is None or known.number != answer.session:
            # The port is part of the text, by which `RepeatFilter` counts.
            log.info(f"%s has joined the {self._name} port", who_of(hello, self._owner(peer)))

    def _owner(self, peer: bytes) -> str:
        owner = self.door.owner(peer)
        return "" if owner is None else owner.name

    def _refuse_hello(self, peer: bytes, goodbye: Goodbye) -> None:
        """Refuse a HELLO; the peer has no session any more, not even an earlier one."""
        self.send(peer, goodbye)
        if (session := self.sessions.leave(peer)) is not None:
            self._ended(session, goodbye.reason, "refused")

    def _malformed(self, peer: bytes, reason: str) -> None:
        self._figures.protocol_errors += 1
        session = self.sessions.get(peer)
        who = session.who if session else "a peer without session"
        log.warning("%s port: dropped a message of %s: %s", self._name, who, reason)

    def _ended(self, session: Session, reason: str, end: str) -> None:
        """Handle the end of a session. `reason`: for people, "" if the peer left on purpose. `end`: one of
        `server.metrics.ENDS`."""
        self._figures.disconnects[end] += 1
        log.info(f"%s has left the {self._name} port%s", session.who, reason and f": {reason}")
        # On the same connection a new session may have begun already.
        if self.sessions.get(session.peer) is None:
            # The connection stays open without a session: the peer may say HELLO again.
            self.door.dismiss(session.peer)
        with self._figures.faults.survived(f"{self._name} port, end of a session"):
            self._on_end(session)


_REVOKED = Goodbye(
    Code.KEY_REVOKED,
    "this key is not allowed here any more; `azserver allow` on the server's machine allows it",
)


def _tag(message: Message | type[Message]) -> str:
    """Return the message's `type` on the wire."""
    return str(message.__struct_config__.tag)


_PING, _BYE = _tag(Ping), _tag(Bye)


def _request_in(header: bytes | memoryview) -> int:
    """Return the request's number in a header that was not decoded."""
    seen = outline(header)
    return 0 if seen is None else seen.request
