"""Items 9 and 13: no file descriptors left, endless messages, subscriptions, weights that are not read, half
handshakes."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from peers import crowd
from raw_zmtp import GREETING, Cut, frame, subscriptions, unfinished_multipart, unread_chunks
from target import Target

MEGABYTE = 2**20
UNFINISHED = 24 * MEGABYTE
"""Bytes of one endless message."""
SUBSCRIBED = 8 * MEGABYTE
"""Bytes of subscriptions of one peer; a PUB accepts about 3 MB before it has sent something."""
ANNOUNCED_WITHIN = 10.0
"""Seconds that a listener waits for an announcement; there is one every 3 s."""
READERS = 40
"""Connections per stroke that send requests and do not read."""


def unfinished_messages(target: Target) -> Iterator[None]:
    """Item 13. Messages that always announce another frame, before HELLO and after it, with large frames and
    with empty ones (libzmq keeps 64 bytes even for an empty frame)."""
    with crowd() as peers:
        while True:
            for port in (target.port, target.port + 1):
                for peer in peers.before_and_after_hello(port):
                    unfinished_multipart(peer, UNFINISHED)
                if peer := peers.peer(port):
                    unfinished_multipart(peer, MEGABYTE, frame_size=0)
            yield


def endless_subscriptions(target: Target) -> Iterator[None]:
    """Item 13. Ever new subscriptions, on the port of announcements (P + 2) if there is one, and on others,
    where they are not allowed; then the connections are cut. d99ef01 keeps 46 bytes for each byte sent, and
    its next announcement ends it by an assertion of libzmq (`stream_engine_base.cpp:310`)."""
    while True:
        with crowd() as peers:
            for offset, kind in ((2, "SUB"), (2, "XSUB"), (0, "SUB"), (1, "DEALER")):
                if peer := peers.peer(target.port + offset, socket_type=kind):
                    subscriptions(peer, SUBSCRIBED)
        with crowd() as peers:
            if listener := peers.peer(target.port + 2, socket_type="SUB"):
                listener.send_command("SUBSCRIBE")
                for _ in range(2):
                    listener.wait_for("weights_info", seconds=ANNOUNCED_WITHIN)
        yield


def unread_weights(target: Target) -> Iterator[None]:
    """Item 13. Peers request the weights over and over and read none: d99ef01 keeps 64 chunks for each."""
    with crowd() as peers:
        while True:
            for _ in range(READERS):
                peer = peers.peer(target.port + 1)
                weights = (peer.join("watcher") if peer else {}).get("weights")
                if peer and weights:
                    unread_chunks(peer, weights["sha256"], requests=100)
            yield


def half_handshakes(target: Target) -> Iterator[None]:
    """Item 13, and not in the issue: connections that stop in the middle of the greeting or of READY, send
    invalid bytes, or send READY with megabytes of properties."""
    huge = frame(b"\x05READY" + (b"\x01x" + (MEGABYTE).to_bytes(4) + bytes(MEGABYTE)) * 3, 4)
    with crowd() as peers:
        while True:
            for words in (
                b"",
                GREETING[:11],
                GREETING,
                GREETING + huge,
                b"GET / HTTP/1.1\r\n\r\n",
                b"\xff" * 4096,
            ):
                for offset in (0, 1):
                    if one := peers.silent(target.port + offset):
                        with suppress(Cut, OSError):
                            one.sendall(words)
            yield


def descriptors(target: Target) -> Iterator[None]:
    """Item 9. The server has no file descriptor left, because strangers use them all: its limit is lowered to
    what it has open, and they connect. Then chunks of the weights are requested; each opens a file."""
    limit = resource.prlimit(target.front, resource.RLIMIT_NOFILE)
    while True:
        with crowd() as peers:
            peer = peers.peer(target.port + 1)
            weights = (peer.join("watcher") if peer else {}).get("weights") or {"sha256": bytes(32)}
            used = len(list(Path(f"/proc/{target.front}/fd").iterdir()))
            resource.prlimit(target.front, resource.RLIMIT_NOFILE, (used + 8, limit[1]))
            try:
                for _ in range(24):
                    peers.silent(target.port)
                for offset in (0, 1, 2**40):
                    ask = {"type": "get_chunk", "sha256": weights["sha256"], "offset": offset}
                    if peer and peer.tell(ask):
                        peer.wait_for("chunk", "refused")
                yield
            finally:
                if target.is_alive():
                    resource.prlimit(target.front, resource.RLIMIT_NOFILE, limit)
