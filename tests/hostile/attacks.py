"""Attacks on a real azserver whose cost only its memory can show.

Attacks that end in one refusal are tested on the front alone, in tests/server.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgpack
from peers import come_from, crowd
from raw_zmtp import GREETING, Cut, frame, pour, unfinished_multipart
from target import Target

MEGABYTE = 2**20
HELD_MB = 288.0
"""MB by which the front's memory may grow over its value before all attacks: 256 for all peers together
(decision 0021)."""
UNFINISHED = 24 * MEGABYTE
"""Bytes of one endless message."""
READERS = 40
"""Connections per stroke that send requests and do not read."""
LARGE, LARGE_MESSAGES = bytes(4 * MEGABYTE), 8
"""A frame, and the number of messages with such a frame that each of four peers sends per stroke."""


def unfinished_messages(target: Target) -> Iterator[None]:
    """Messages that always announce another frame, before HELLO and after it, with large frames and with
    empty ones (libzmq keeps 64 bytes even for an empty frame)."""
    with crowd() as peers:
        while True:
            for port in (target.port, target.port + 1):
                for peer in peers.before_and_after_hello(port):
                    unfinished_multipart(peer, UNFINISHED)
                if peer := peers.peer(port):
                    unfinished_multipart(peer, MEGABYTE, frame_size=0)
            yield


def unread_weights(target: Target) -> Iterator[None]:
    """Peers request the weights over and over and read none: d99ef01 keeps 64 chunks for each."""
    with crowd() as peers:
        while True:
            for _ in range(READERS):
                peer = peers.peer(target.port + 1)
                weights = (peer.join("watcher") if peer else {}).get("weights")
                if peer and weights:
                    ask = {"type": "get_chunk", "sha256": weights["sha256"], "offset": 0}
                    part = frame(msgpack.packb(ask))
                    pour(peer, part, 100 * len(part))
            yield


def half_handshakes(target: Target) -> Iterator[None]:
    """Connections that stop in the middle of the greeting or of READY, send invalid bytes, or send READY with
    megabytes of properties."""
    huge = frame(b"\x05READY" + (b"\x01x" + (MEGABYTE).to_bytes(4) + bytes(MEGABYTE)) * 3, 4)
    with crowd() as peers:
        while True:
            http = b"GET / HTTP/1.1\r\n\r\n"
            for words in (b"", GREETING[:11], GREETING, GREETING + huge, http, b"\xff" * 4096):
                for offset in (0, 1):
                    if one := peers.silent(target.port + offset):
                        with suppress(Cut, OSError):
                            one.sendall(words)
            yield


def flood_of_large_messages(target: Target) -> Iterator[None]:
    """Peers that have joined send messages of 4 MiB that are refused: leaves of the wrong
    size, and games whose header cannot be read. A peer that is cut dials again."""
    evaluate = msgpack.packb({"type": "evaluate", "request": 1, "rows": 1})
    parts = ([evaluate, LARGE, b"", b""], [b"\x81\xa4type\xa8put_game", LARGE])
    messages = [b"".join(frame(part, 1) for part in one[:-1]) + frame(one[-1]) for one in parts]
    with crowd() as peers:
        while True:
            for offset, message in enumerate(messages):
                for _ in range(2):
                    peer = peers.peer(target.port + offset)
                    if peer is None or peer.join("client").get("type") != "welcome":
                        continue
                    with suppress(Cut, TimeoutError):
                        for _ in range(LARGE_MESSAGES):
                            peer.send_bytes(message)
            yield
            peers.cut()


@dataclass(frozen=True)
class Attack:
    """`run(target)` makes one stroke per `next`, and cuts its connections when it is closed."""

    run: Callable[[Target], Iterator[None]]
    strokes: int = 2
    """Number of strokes in `make test-nightly`."""

    @property
    def name(self) -> str:
        return self.run.__name__

    def begin(self, target: Target) -> Iterator[None]:
        """Run the attack from an address of its own."""
        come_from(1 + ATTACKS.index(self))
        return self.run(target)


ATTACKS = (
    Attack(unfinished_messages, strokes=3),
    Attack(unread_weights, strokes=1),
    Attack(half_handshakes, strokes=16),
    Attack(flood_of_large_messages),
)
