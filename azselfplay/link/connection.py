"""A connection that joins, stays alive and joins again: Channel + ClientSession + one timer.

The session makes all decisions (`protocol.sessions`, pure); this file only carries them out.

libzmq queues what is sent while there is no connection, and would send it on the next one before our HELLO.
It does not dial again after a refused handshake, nor after a message that breaks its protocol, such as a
damaged header or a frame that is too large. So `Connection` reads from libzmq's monitor when a
connection begins and ends, and why a server refused one. Nothing is sent while there is no connection, a
connection that has ended is dropped with its queue, and `Redial` (pure) decides when to dial again.
`link.sockets.new_dealer` says why libzmq's own option for this (IMMEDIATE) cannot be used.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import zmq
from zmq.utils.monitor import parse_monitor_message

from azselfplay.host.aio import first_of
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.ports import unknown_name
from azselfplay.link.keys import as_text
from azselfplay.link.sockets import LEAVES_LIMIT, Channel, Context, Frame, dial, hang_up, new_dealer
from protocol.errors import Code
from protocol.keys import DialKeys
from protocol.messages import BadMessage, Bye, Goodbye, Hello, Message, Ping, Welcome, decode, encode
from protocol.sessions import ClientSession, Instruction, Lost

log = logging.getLogger(__name__)

FIRST_NOTICE = 4.0
"""Seconds without an answer at the start after which the user who gave the address is told."""
WAIT_NOTICE = 60.0
"""Seconds between two log lines that say that we are waiting for the server."""
NOT_NOW_HOLDS = 90.0
"""Seconds for which a server's "not now" counts as the reason for waiting; longer than the wait it
requests."""
BYE_LINGER = 200
"""Milliseconds that BYE has to be sent."""
REACT_AFTER = 0.001
"""Seconds added to a due time, so that the timer never fires just before it."""
AFTER_AN_END = 0.2
"""Fewest seconds between the end of a connection and the next dial. The wait is drawn at random, up to twice
as long, so that the peers of a restarting server do not all dial at once. Each further end without a session
in between doubles it, up to `FIRST_REDIAL`."""
FIRST_REDIAL = 30.0
"""Seconds without a sign of the server after which we dial again: the longest time that libzmq waits between
two attempts. The time doubles until something is heard, so that many peers do not dial an absent server at
once."""
LONGEST_REDIAL = 600.0
"""Longest wait between two dials."""
UNKNOWN_KEY = 400
"""The server's ERROR for an unknown key, as the monitor reports it (`protocol.curve`). Any other code means a
wrong server key."""
REFUSED_HANDSHAKES = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
"""Events of the monitor that `refusal` explains."""
MONITORED = REFUSED_HANDSHAKES | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED

OnMessage = Callable[[Message, list[memoryview]], None]


@dataclass(frozen=True)
class ConnectionSettings:
    """How connections differ besides their endpoints."""

    server: str = ""
    """HOST:PORT as the user gave it, for messages; empty for ipc, which has no such name."""
    carries: str = ""
    """What this connection is for; used in messages of a process with two connections to one server."""
    max_wait: float = 0.0
    """Seconds without a session after which `Connection.run` gives up; 0: never."""
    limit: int = LEAVES_LIMIT
    """Most bytes in a message: see `link.sockets.new_dealer`."""
    hwm: int = 64
    """Most messages in a queue: see `link.sockets.new_dealer`."""
    keys: DialKeys | None = None
    """Keys for a server that requires one."""


class Connection:
    """A DEALER connection to azserver. Callbacks run in the event loop and must not block.

    `on_message(message, frames)`: called for every message that is not about the session itself.
    `on_joined(welcome)`: a session has begun, the first one or a later one: send again what is unanswered.
    `on_lost(reason)`: the session has ended; the connection rejoins by itself. `on_unreadable(header,
    error)`: a message was dropped because its header could not be decoded.
    """

    def __init__(
        self,
        context: Context,
        endpoint: str,
        hello: Hello,
        *,
        on_message: OnMessage,
        on_joined: Callable[[Welcome], None] = lambda _: None,
        on_lost: Callable[[str], None] = lambda _: None,
        on_unreadable: Callable[[memoryview, str], None] = lambda _header, _error: None,
        settings: ConnectionSettings = ConnectionSettings(),
    ) -> None:
        self.endpoint = endpoint
        self._name = settings.server or endpoint
        """The server as the user gave it: with one of its ports only."""
        self._server = f"{self._name} ({settings.carries})" if settings.carries else self._name
        self._first_notice = FIRST_NOTICE if settings.server else WAIT_NOTICE
        self._keys, self._role = settings.keys, hello.role
        self._socket = new_dealer(
            context, endpoint, limit=settings.limit, hwm=settings.hwm, keys=settings.keys
        )
        self._monitor = Channel(self._socket.get_monitor_socket(MONITORED), self._on_event)
        # Dial after the monitor exists: libzmq reports a refused handshake only once, and does not dial
        # again.
        dial(self._socket, endpoint)
        self._redial = Redial()
        self._is_connected = False
        self._has_ended = False
        """True after a connection ended, until something arrives on the next one."""
        self._channel = Channel(self._socket, self._on_frames)
        self._session = ClientSession(hello, time.monotonic(), random.Random())
        self._on_message = on_message
        self._on_joined = on_joined
        self._on_lost = on_lost
        self._on_unreadable = on_unreadable
        self._max_wait = settings.max_wait
        self._unsent_hello: Message | None = None
        self._changed = asyncio.Event()
        """Set when the session's next due time may have changed."""
        self._refused: Fatal | None = None
        """What ends `run`: the server rejects this peer for good."""
        self._alone_since = time.monotonic()
        self._next_notice = 0.0
        self._looking_up: asyncio.Task[None] | None = None
        self._not_now = ""
        """The reason that the server last gave for making this peer wait."""
        self._not_now_at = -math.inf
        self.evaluations: Callable[[], int] = lambda: 0
        """Returns the number that PING carries: the evaluations of the peer's own network in this session."""
        self.on_not_now: Callable[[Goodbye], None] = lambda _: None
        """Called when the server makes this peer wait for its session, once for each reason."""

    @property
    def welcome(self) -> Welcome | None:
        """WELCOME of the current session; None while there is none."""
        return self._session.welcome

    @property
    def is_up(self) -> bool:
        """Return whether there is a session, and no sign that the server is gone."""
        return self.welcome is not None and not self._has_ended

    def send(self, message: Message, *frames: Frame) -> bool:
        """Send a message. Returns False if there is no session or the queue is full: then keep the message
        and send it later."""
        return self.welcome is not None and self._send(message, *frames)

    async def run(self) -> None:
        """Stay connected until cancelled; send BYE at the end.

        Raises Fatal(PROTOCOL or REFUSED) if the server rejects this peer for good, and Fatal(UNREACHABLE)
        after `max_wait` seconds without a session.
        """
        now = time.monotonic()
        self._alone_since = now
        self._next_notice = now + self._first_notice
        self._channel.start()
        self._monitor.start()
        try:
            self._carry_out(self._session.tick(now))
            while True:
                # Wait until something changes, or until the session, `_redial` or `_watch_absence` is due.
                dues = [self._session.due(), self._redial.due()]
                if self.welcome is None:  # only then has `_watch_absence` anything to do
                    dues.append(self._next_notice)
                    dues += [self._alone_since + self._max_wait] if self._max_wait else []
                delay = max(0.0, min(dues) - time.monotonic()) + REACT_AFTER
                await first_of(self._changed, seconds=delay)
                if self._refused is not None:
                    raise self._refused
                # Clear the event before looking at the session: later changes set it again.
                self._changed.clear()
                now = time.monotonic()
                self._carry_out(self._session.tick(now))
                self._watch_absence(now)
                if not self.is_up and not self._waits_for(now):
                    self._redial.waits(now)
                # What libzmq has not sent yet is lost, as at any end of a connection.
                if self._redial.take(now):
                    log.debug("nothing comes from %s; dialling again", self._server)
                    self._is_connected = False
                    hang_up(self._socket, self.endpoint)
                    self._socket.connect(self.endpoint)
        finally:
            if self._looking_up is not None:
                self._looking_up.cancel()
            # BYE goes out first; the socket is closed behind it.
            self._carry_out(self._session.leave())
            if not self._socket.closed:
                self._socket.disable_monitor()
            self._monitor.close()
            self._channel.close(BYE_LINGER)

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                # The session knows when to send a PING, but not the number that it carries.
                case Ping():
                    self._send(Ping(self.evaluations()))
                case Hello() | Bye():
                    sent = self._send(instruction)
                    # `_on_event` sends a HELLO that came before the connection was there.
                    self._unsent_hello = instruction if isinstance(instruction, Hello) and not sent else None
                case Welcome():
                    self._redial.joined()
                    self._not_now = ""
                    log.info("joined %s: run %s, game %s", self._server, instruction.run, instruction.game)
                    self._on_joined(instruction)
                case Lost(reason):
                    log.warning("lost the session with %s: %s; joining again", self._server, reason)
                    self._alone_since = time.monotonic()
                    self._next_notice = self._alone_since + WAIT_NOTICE
                    self._on_lost(reason)
                case Goodbye(code, reason):
                    versions = (Code.PROTOCOL_TOO_OLD, Code.PROTOCOL_TOO_NEW)
                    exit_code = Exit.PROTOCOL if code in versions else Exit.REFUSED
                    self._refused = Fatal(f"{self._name} refuses this session: {reason}", exit_code)
            self._changed.set()

    def _send(self, message: Message, *frames: Frame) -> bool:
        return self._is_connected and self._channel.send([encode(message), *frames])

    def _on_frames(self, frames: list[memoryview]) -> None:
        self._has_ended = False
        # Even a message that cannot be decoded shows that the server is there.
        self._redial.received()
        try:
            message = decode(frames[0])
        except BadMessage as error:
            log.warning("dropped a message from %s that is not ours: %s", self._server, error)
            self._on_unreadable(frames[0], str(error))
            return
        # Read `welcome` before the session handles the message, which may be the WELCOME.
        now, joining = time.monotonic(), self.welcome is None
        if instructions := self._session.on_message(message, now):
            self._carry_out(instructions)
        if joining and isinstance(message, Goodbye) and message.retry_after > 0:
            # The server makes us wait. Log that now; `_watch_absence` repeats it later.
            if message.reason != self._waits_for(now):
                log.info("%s does not accept this process yet: %s; asking again", self._name, message.reason)
                self._next_notice = now + WAIT_NOTICE
                self.on_not_now(message)
            self._not_now, self._not_now_at = message.reason, now
        # WELCOME and GOODBYE concern only the session, which has handled them above.
        if not isinstance(message, Welcome | Goodbye):
            self._on_message(message, frames[1:])

    def _waits_for(self, now: float) -> str:
        """Return the reason that the server gave recently for making us wait; "" if it gave none."""
        return self._not_now if now - self._not_now_at < NOT_NOW_HOLDS else ""

    def _on_event(self, frames: list[memoryview]) -> None:
        """Handle what libzmq's monitor says: a connection has begun or ended, or was refused."""
        event = parse_monitor_message([bytes(frame) for frame in frames])
        kind = int(event["event"])
        if kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._is_connected = True
            # Send an unsent HELLO now, instead of waiting until the session repeats it.
            if self._unsent_hello is not None and self._send(self._unsent_hello):
                self._unsent_hello = None
        elif kind == zmq.EVENT_DISCONNECTED:
            # A connection that never had a session has nothing to lose.
            if self.is_up:
                log.warning("the connection to %s has ended; dialling again", self._server)
            # The session may continue: the peer goes on with it on the next connection, and the server says
            # if it has ended.
            self._has_ended, self._is_connected = True, False
            hang_up(self._socket, self.endpoint)
            self._redial.ended(time.monotonic(), random.uniform(1.0, 2.0))
            self._changed.set()
        elif reason := refusal(kind, int(event["value"]), self._keys, self._role):
            self._refused = Fatal(f"{self._name} does not let this process in: {reason}", Exit.REFUSED)
            self._changed.set()

    def _watch_absence(self, now: float) -> None:
        """Log now and then that the server does not answer; give up after `max_wait`."""
        if self.welcome is not None:
            return
        alone = now - self._alone_since
        reason = self._waits_for(now)
        # The server is there, so host and port are right: only the server's own reason helps.
        if self._max_wait and alone >= self._max_wait and reason:
            text = f"{self._name} did not accept this process for {alone:.0f} s: {reason}"
            raise Fatal(text, Exit.UNREACHABLE)
        if self._max_wait and alone >= self._max_wait:
            raise Fatal(
                f"no azserver answered at {self._name} for {alone:.0f} s: check that it runs, that host "
                "and port are right, and (from another machine) that it was started with --listen 0.0.0.0 "
                "and that no firewall blocks it",
                Exit.UNREACHABLE,
            )
        if now < self._next_notice:
            return
        self._next_notice = now + WAIT_NOTICE
        if reason:
            log.warning("%s makes this process wait: %s (%.0f s so far)", self._name, reason, alone)
        # No warning yet: the server may have been started at the same moment.
        elif alone < WAIT_NOTICE:
            how_long = f"for {self._max_wait:.0f} s" if self._max_wait else "until one does"
            what_to_do = f"check host and port; `azclient doctor {self._name}` says more"
            log.info("no azserver answers at %s yet; trying %s (%s)", self._name, how_long, what_to_do)
            self._looking_up = asyncio.create_task(self._look_up())
        else:
            log.warning("no azserver at %s (%.0f s so far)", self._name, alone)

    async def _look_up(self) -> None:
        """Warn if the server's name has no address: libzmq does not, and looks the name up again and
        again."""
        host = urlsplit(self.endpoint).hostname
        if not host or not self.endpoint.startswith("tcp:"):
            return
        try:
            await asyncio.get_running_loop().getaddrinfo(host, None)
        except (OSError, UnicodeError) as error:
            log.warning("%s; check it, or give the machine's address", unknown_name(host, error))


class Redial:
    """Decides when to dial again. Waits are counted from the end of a connection, or from the beginning of a
    time without a session, until something is heard."""

    def __init__(self) -> None:
        self._quiet_since = math.inf
        self._wait = FIRST_REDIAL
        self._after_end = AFTER_AN_END

    def waits(self, now: float) -> None:
        """Note that nothing comes from the server: the connection has ended, or there is no session."""
        self._quiet_since = min(self._quiet_since, now)

    def ended(self, now: float, factor: float) -> None:
        """Note that the connection has ended: dial soon (`AFTER_AN_END`, times `factor`), and after that with
        the usual waits."""
        self._quiet_since, self._wait = now, factor * self._after_end
        self._after_end = min(2 * self._after_end, FIRST_REDIAL / 2)

    def joined(self) -> None:
        """Note that a session has begun: a message alone may come from a server that ends each connection."""
        self._after_end = AFTER_AN_END

    def received(self) -> None:
        """Note that a message has come."""
        self._quiet_since, self._wait = math.inf, FIRST_REDIAL

    def due(self) -> float:
        """Return when to call `take` if nothing else happens; inf: never."""
        return self._quiet_since + self._wait

    def take(self, now: float) -> bool:
        """Return whether to dial now. If so, the next wait begins now."""
        if now < self.due():
            return False
        self._quiet_since = now
        self._wait = min(max(2 * self._wait, FIRST_REDIAL), LONGEST_REDIAL)
        return True


def refusal(event: int, value: int, keys: DialKeys | None, role: str) -> str:
    """Explain an event of the monitor to a person: what is wrong, a colon, what to do. "" if the server
    refused nothing."""
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and keys is not None:
        # The server ended the handshake before it looked at our own key.
        if value != UNKNOWN_KEY:
            return "--server-key is not the key of this server: give the one that it prints at its start"
        kind = "trainer" if role == "trainer" else "client"
        allow = f"azserver allow {kind} NAME '{as_text(keys.own.public)}'"
        return f"it does not allow this key (or not any more): on its machine, run {allow}"
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
        if keys is not None:
            return "it asks for no keys (--insecure, or for its own machine only): leave --server-key out"
        return (
            "it asks for a key: run `azclient keygen` here, have it allowed there (`azserver allow`), and "
            "give --server-key, which azserver prints at its start"
        )
    return ""
