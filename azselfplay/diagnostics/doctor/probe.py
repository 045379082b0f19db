"""Queries a server, as any peer would: each port, and its status.

The calls block, with deadlines, because a doctor does one thing after the other.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from typing import TypeVar

import zmq
from zmq.utils.monitor import recv_monitor_message

from azselfplay.diagnostics.doctor.service import PortFacts, ServiceFacts
from azselfplay.host.config import software
from azselfplay.host.ports import Address, unknown_name
from azselfplay.link.connection import REFUSED_HANDSHAKES, refusal
from azselfplay.link.sockets import (
    BULK_LIMIT,
    LEAVES_LIMIT,
    Context,
    Socket,
    dial,
    new_context,
    new_dealer,
)
from protocol.keys import DialKeys
from protocol.messages import (
    PROTOCOL_VERSION,
    BadMessage,
    Bye,
    GetStatus,
    Goodbye,
    Hello,
    Message,
    Status,
    Welcome,
    decode,
    encode,
)

M = TypeVar("M", bound=Message)

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
"""Seconds to wait for an answer to HELLO or GET_STATUS; a busy server may take seconds."""
PORTS = (("leaves", LEAVES_LIMIT), ("bulk", BULK_LIMIT))


class _Peer:
    """One connection."""

    def __init__(self, context: Context, endpoint: str, limit: int, keys: DialKeys | None) -> None:
        self._socket: Socket = new_dealer(context, endpoint, limit=limit, keys=keys)
        self._keys = keys
        # Open the monitor before dialling: libzmq reports a refused handshake only once, to existing
        # monitors.
        self._monitor = self._socket.get_monitor_socket(REFUSED_HANDSHAKES)
        dial(self._socket, endpoint)
        self.refused = ""
        """Why the server refused the handshake."""

    def send(self, message: Message, seconds: float = ANSWER_SECONDS) -> bool:
        # If nobody reads, the queue is full, and sending would block for ever.
        if not self._wait(zmq.POLLOUT, time.monotonic() + seconds):
            return False
        self._socket.send(encode(message))
        return True

    def receive(self, *kinds: type[M]) -> M | None:
        """Return the next message of one of these kinds; other messages are dropped. None if it has not come
        in time."""
        until = time.monotonic() + ANSWER_SECONDS
        while self._wait(zmq.POLLIN, until):
            try:
                message = decode(self._socket.recv_multipart()[0])
            # The message may be of another version; the answer to HELLO says so.
            except BadMessage:
                continue
            if isinstance(message, kinds):
                return message
        return None

    def _wait(self, flag: int, until: float) -> bool:
        """Return whether the socket can be read or written in time. Returns False at once if the handshake is
        refused."""
        poller = zmq.Poller()
        poller.register(self._socket, flag)
        poller.register(self._monitor, zmq.POLLIN)
        while not self.refused and (left := until - time.monotonic()) > 0:
            ready = dict(poller.poll(int(1000 * left)))
            if self._monitor in ready:
                event = recv_monitor_message(self._monitor)
                self.refused = refusal(event["event"], event["value"], self._keys, "client")
            elif ready:
                return True
        return False

    def hello(self, role: str) -> Welcome | Goodbye | None:
        hello = Hello(
            PROTOCOL_VERSION, role, f"doctor on {socket.gethostname()[:80]}/{os.getpid()}", software()
        )
        answer = self.receive(Welcome, Goodbye) if self.send(hello) else None
        assert answer is None or isinstance(answer, Welcome | Goodbye)
        return answer

    def close(self) -> None:
        self.send(Bye(), 0.1)
        self._socket.disable_monitor()
        # Linger, in milliseconds, for the BYE: without BYE, the server would keep the session until its lease
        # expires.
        self._socket.close(200)


def probe(address: Address, run: str = "", game: str = "") -> ServiceFacts:
    """Gather the facts; takes up to ten seconds for a port that does not answer. run, game: see
    `ServiceFacts`."""
    context = new_context()
    try:
        ports, status, ahead = [], None, None
        for offset, (name, limit) in enumerate(PORTS):
            place = f"{address.host}:{address.port + offset}"
            # Try a plain connection first, because ZeroMQ would keep retrying without an error.
            unreachable = ""
            try:
                socket.create_connection((address.host, address.port + offset), CONNECT_SECONDS).close()
            except (socket.gaierror, UnicodeError) as error:
                unreachable = unknown_name(address.host, error)
            except TimeoutError:
                unreachable = f"no answer within {CONNECT_SECONDS:.0f} s (a firewall, or no such machine)"
            except OSError as error:
                unreachable = error.strerror or str(error)
            if unreachable:
                ports.append(PortFacts(name, place, unreachable))
                continue
            endpoint = (address.leaves, address.bulk)[offset]
            with closing(_Peer(context, endpoint, limit, address.keys)) as peer:
                answer = peer.hello("watcher")
                ports.append(PortFacts(name, place, answer=answer, refused=peer.refused))
                # The status of one port is enough.
                if not isinstance(answer, Welcome) or status is not None:
                    continue
                asked = time.time()
                if peer.send(GetStatus()) and (found := peer.receive(Status)) is not None:
                    status, there = found, found.figures.get("time")
                    # The server read its clock after about half of the round trip.
                    if isinstance(there, int | float):
                        ahead = there - (asked + time.time()) / 2
        figures = status.figures if status else None
        return ServiceFacts(ports, software(), figures, ahead, run, game)
    finally:
        # Linger, in milliseconds: the doctor must end even if nobody reads its last messages.
        context.destroy(200)
