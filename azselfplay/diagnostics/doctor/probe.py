"""Queries a server, as any peer would: each port, its status, and for a moment its evaluators.

The calls block, with deadlines, because a doctor does one thing after the other.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import zmq
from zmq.utils.monitor import recv_monitor_message

from azselfplay.diagnostics.doctor.service import PortFacts, ServiceFacts, Throughput
from azselfplay.games import get_game
from azselfplay.games.names import UnknownGame
from azselfplay.host.config import software
from azselfplay.host.ports import Address, unknown_name
from azselfplay.link.connection import REFUSED_HANDSHAKES, refusal
from azselfplay.link.sockets import (
    BULK_LIMIT,
    LEAVES_LIMIT,
    Context,
    Frame,
    Socket,
    dial,
    new_context,
    new_dealer,
    plain,
)
from protocol.errors import Code
from protocol.keys import DialKeys
from protocol.messages import (
    PROTOCOL_VERSION,
    BadMessage,
    Bye,
    Evaluate,
    Evaluated,
    GetStatus,
    Goodbye,
    Hello,
    Message,
    Refused,
    Status,
    Welcome,
    decode,
    encode,
)

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
"""Seconds to wait for an answer to HELLO or GET_STATUS; a busy server may take seconds."""
ROWS = 128
"""Leaves in one request, as workers send them."""
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

    def send(self, message: Message, *frames: Frame, seconds: float = ANSWER_SECONDS) -> bool:
        # If nobody reads, the queue is full, and sending would block for ever.
        if not self._wait(zmq.POLLOUT, time.monotonic() + seconds):
            return False
        self._socket.send_multipart([encode(message), *map(plain, frames)])
        return True

    def receive(self, *kinds: type[Message], until: float) -> Message | None:
        """Return the next message of one of these kinds; other messages are dropped. None if it has not come
        in time."""
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
        if not self.send(hello):
            return None
        answer = self.receive(Welcome, Goodbye, until=time.monotonic() + ANSWER_SECONDS)
        assert answer is None or isinstance(answer, Welcome | Goodbye)
        return answer

    def close(self) -> None:
        self.send(Bye(), seconds=0.1)
        self._socket.disable_monitor()
        # Linger, in milliseconds, for the BYE: without BYE, the server would keep the session until its lease
        # expires.
        self._socket.close(200)


@contextmanager
def _peer(context: Context, address: Address, name: str) -> Iterator[_Peer]:
    endpoint = address.leaves if name == "leaves" else address.bulk
    peer = _Peer(context, endpoint, dict(PORTS)[name], address.keys)
    try:
        yield peer
    finally:
        peer.close()


def probe(address: Address, seconds: float = 0.0, run: str = "", game: str = "") -> ServiceFacts:
    """Gather the facts; takes up to ten seconds for a port that does not answer.

    seconds: how long the throughput is measured; 0: not at all. run, game: see `ServiceFacts`.
    """
    context = new_context()
    try:
        ports, status, ahead = [], None, None
        for offset, (name, _) in enumerate(PORTS):
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
            with _peer(context, address, name) as peer:
                answer = peer.hello("watcher")
                ports.append(PortFacts(name, place, answer=answer, refused=peer.refused))
                # The status of one port is enough.
                if not isinstance(answer, Welcome) or status is not None:
                    continue
                asked = time.time()
                found = None
                if peer.send(GetStatus()):
                    found = peer.receive(Status, until=time.monotonic() + ANSWER_SECONDS)
                if isinstance(found, Status):
                    status = found
                    there = found.figures.get("time")
                    # The server read its clock after about half of the round trip.
                    if isinstance(there, int | float):
                        ahead = there - (asked + time.time()) / 2
        figures = status.figures if status else None
        facts = ServiceFacts(ports, software(), figures, ahead, None, run, game)
        welcome = ports[0].answer
        if seconds and isinstance(welcome, Welcome) and figures and figures.get("evaluators"):
            facts = replace(facts, throughput=_throughput(context, address, welcome, seconds))
        return facts
    finally:
        # Linger, in milliseconds: the doctor must end even if nobody reads its last messages.
        context.destroy(200)


# ---- throughput --------------------------------------------------------------------------------


def _throughput(context: Context, address: Address, watched: Welcome, seconds: float) -> Throughput:
    """Request evaluations like a player for some seconds, with as many in flight as are granted."""
    # A server lets nobody play with the server's own key, and logs a warning about such a peer.
    if address.keys is not None and address.keys.own.public == address.keys.server:
        return Throughput(only_watches=True)
    with _peer(context, address, "leaves") as peer:
        welcome = peer.hello("client")
        if not isinstance(welcome, Welcome):
            reason = welcome.reason if welcome else "the server did not answer"
            only_watches = welcome is not None and welcome.code == Code.ROLE_NOT_ALLOWED
            return Throughput(why_not=reason, only_watches=only_watches)
        # No more than the server lets us have in flight.
        rows = max(1, min(ROWS, welcome.credits))
        try:
            frames = empty_leaves(watched.game, int(watched.self_play.get("history") or 0), rows)
        except UnknownGame as error:
            return Throughput(why_not=str(error))
        in_flight = max(1, welcome.credits // rows)  # requests that may be unanswered
        began = last = time.monotonic()
        answered, first, waiting, number = 0, 0.0, dict[int, int](), 0
        while True:
            while time.monotonic() < began + seconds and len(waiting) < in_flight:
                number += 1
                waiting[number] = rows
                if not peer.send(Evaluate(number, rows), *frames):
                    return Throughput(why_not="the server does not read what is sent")
            answer: Message | None = None
            if waiting:
                answer = peer.receive(Evaluated, Refused, Goodbye, until=began + seconds + ANSWER_SECONDS)
            if isinstance(answer, Refused | Goodbye):
                return Throughput(why_not=answer.reason)
            if not isinstance(answer, Evaluated):  # all were answered, or the server has gone silent
                # Never 0, because rates are divided by it.
                took = max(last - began, 1e-3) if answered else seconds + ANSWER_SECONDS
                return Throughput(answered, took, first)
            last = time.monotonic()
            first = first or last - began
            answered += answer.rows
            # A request may be answered in parts.
            waiting[answer.request] = waiting.get(answer.request, 0) - answer.rows
            if waiting[answer.request] <= 0:
                del waiting[answer.request]


def empty_leaves(name: str, history: int, rows: int) -> tuple[Frame, Frame, Frame]:
    """Return the frames of EVALUATE for empty boards with one legal action each. The work of a device does
    not depend on the positions, and so no rules need to be compiled."""
    game = get_game(name)
    features = np.zeros((rows, game.feature_words(history or game.history)), np.uint64)
    counts, actions = np.ones(rows, np.uint16), np.zeros(rows, np.uint16)
    if not game.mask_bytes:
        return features, counts, actions
    masks = np.zeros((rows, game.mask_bytes), np.uint8)
    masks[:, 0] = 1
    return features, counts, masks
