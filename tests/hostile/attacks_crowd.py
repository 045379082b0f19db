"""Item 18 and floods: too many clients that want to play, and one that sends requests without end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import msgpack
from foreign_client import PROTOCOL
from peers import Crowd, Header, crowd
from raw_zmtp import GREETING, SENT, Cut, command, frame, hello, ready
from target import Target

WORKERS = 1000
JOIN_WITHIN, DIAL_AGAIN = 30.0, 0.1
"""Seconds within which each worker must be let in, and seconds between two of its dials."""
FLOOD = 500
"""HELLOs of each of four peers per stroke, each beginning a new session."""
QUESTIONS = 2000
"""Requests of each of four peers per stroke."""
CONNECTIONS = 100
"""Connections per stroke."""
LARGE, LARGE_MESSAGES = bytes(4 * 1024 * 1024), 8
"""A frame, and the number of messages with such a frame that each of four peers sends per stroke."""
CRUMBS = 2000
"""Pieces sent by each of four peers per stroke."""


def flood_of_hellos(target: Target) -> Iterator[None]:
    """Items 18 and 21. Peers say HELLO again and again, each time as a new session and under another name,
    some with an unknown protocol version. They never read the answers."""
    with crowd() as peers:
        while True:
            for offset in (0, 1):
                for protocol in (PROTOCOL, 60_000):
                    peer = peers.peer(target.port + offset)
                    for join in range(FLOOD):
                        greeting = hello(protocol, "client", f"{join:0120d}") | {"join": join}
                        if peer is None or not peer.tell(greeting):
                            break
            yield
            peers.cut()


def flood_of_questions(target: Target) -> Iterator[None]:
    """Not in the issue. Peers that have joined request figures, weights and PONGs, and read no answer."""
    kinds = ("get_status", "ping", "get_weights", "get_status")
    questions = b"".join(frame(msgpack.packb({"type": kind})) for kind in kinds)
    with crowd() as peers:
        while True:
            for offset in (0, 0, 1, 1):
                peer = peers.peer(target.port + offset)
                if peer and peer.join("watcher").get("type") == "welcome":
                    with suppress(Cut, TimeoutError):
                        peer.send_bytes(questions * (QUESTIONS // len(kinds)))
                        SENT.messages += QUESTIONS
            yield
            peers.cut()


def flood_of_connections(target: Target) -> Iterator[None]:
    """Not in the issue. Connections that send greeting, READY and HELLO at once, wait for no answer, and are
    cut as soon as there are a hundred of them."""
    with crowd() as peers:
        while True:
            for at in range(CONNECTIONS):
                words = GREETING + ready() + frame(msgpack.packb(hello(PROTOCOL, "client", f"{at}")))
                if one := peers.silent(target.port + at % 2):
                    with suppress(OSError):
                        one.sendall(words)
                        SENT.messages += 1
                        SENT.bytes += len(words)
            yield
            peers.cut()


def flood_of_bytes(target: Target) -> Iterator[None]:
    """Not in the issue. Peers that have joined send a message byte by byte, each in a packet of its own, and
    ZMTP PINGs one by one: each wakes the front, and none is a message."""
    ping, message = command("PING", b"\0\0"), frame(bytes(CRUMBS))
    with crowd() as peers:
        while True:
            some = [peers.peer(target.port + at % 2) for at in range(4)]
            joined = [peer for peer in some if peer and peer.join("watcher")]
            for at in range(CRUMBS):
                for number, peer in enumerate(joined):
                    with suppress(Cut, TimeoutError):
                        peer.send_bytes(ping if number > 1 else message[at : at + 1])
            yield
            peers.cut()


def flood_of_large_messages(target: Target) -> Iterator[None]:
    """Issue 33, point 18. Peers that have joined send messages of 4 MiB that are refused: leaves of the wrong
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
                            SENT.messages += 1
            yield
            peers.cut()


def thousand_workers(target: Target) -> Iterator[None]:
    """Item 18. A thousand peers join the leaves port as workers and stay. Each must get a share, and the last
    is told to play fewer games than the first. d99ef01 tells each to play as many as if it were alone, and
    answers `busy` once everything it can hold is granted (from the 745th with one GPU, from the 102nd with
    eight)."""
    with crowd() as peers:
        while True:
            told = [_join(peers, target, f"worker {at}") for at in range(WORKERS)]
            refused = sum(answer.get("type") != "welcome" for answer in told)
            assert not refused, f"{refused} of {WORKERS} workers were given no share"
            first, last = told[0]["games_in_flight"], told[-1]["games_in_flight"]
            assert last < first, f"the first worker is told to play {first} games, the last one {last}"
            yield
            peers.cut()


def _join(peers: Crowd, target: Target, name: str) -> Header:
    """Dial until the door lets it in, as every client does: an address has only so many dials a second."""
    until = time.monotonic() + JOIN_WITHIN
    while (peer := peers.peer(target.port)) is None:
        if time.monotonic() > until:
            return {}
        time.sleep(DIAL_AGAIN)
    return peer.join("worker", name)
