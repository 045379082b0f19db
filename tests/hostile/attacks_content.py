"""Items 14 to 16: headers that take long to read, games that take all places in the relay, odd rows."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from itertools import cycle

import msgpack
from peers import Peer, crowd
from raw_zmtp import header_frame, nested_lists, wide_lists
from target import Target

LARGE_HEADER = 4 * 2**20 - 100
"""Bytes of a header that is as large as a frame may be."""
SMALL_HEADER = 60_000
"""Bytes of a header below the limit of 64 KiB."""


def nested_headers(target: Target) -> Iterator[None]:
    """Item 14. Headers of nested lists, deep and wide, of 4 MB and of 60 kB: where any value is allowed (the
    trainer's figures), as the type, and under an unknown name; by peers that joined and by others that did
    not. Three of 4 MB freeze d99ef01 for 15 s; it makes hundreds of MB of lists from each."""
    kinds = [lists(size) for size in (LARGE_HEADER, SMALL_HEADER) for lists in (wide_lists, nested_lists)]
    with crowd() as peers:
        for header in cycle(around for lists in kinds for around in _around(lists)):
            for port in (target.port, target.port + 1):
                for peer in peers.before_and_after_hello(port):
                    header_frame(peer, header)
            yield
            peers.cut()


def _around(lists: bytes) -> list[bytes]:
    """Return this map of one entry, `type`, and messages that contain it."""
    places = (("trainer_status", "figures"), ("welcome", "self_play"), ("ping", "other"))
    heads = (b"\x82" + b"".join(map(msgpack.packb, ("type", kind, entry))) for kind, entry in places)
    return [lists, *(head + lists for head in heads)]


GAMES = 300
"""Games sent by one peer without waiting for an answer; the relay has 256 places, a client may use 16."""
LONG_NAME = 255
"""Bytes of a routing id, the most that ZMTP allows. A trainer of d99ef01 drops games of ids with more than
64."""


def hogged_relay(target: Target) -> Iterator[None]:
    """Item 15. One peer sends 300 invalid games, and reads no answer. Another does so under a routing id of
    255 bytes: d99ef01 keeps its places for 120 s. A third sends games of 1 MB."""
    with crowd() as peers:
        while True:
            for name, size, games in (
                (None, 100, GAMES),
                (os.urandom(LONG_NAME - 1) + b"x", 100, GAMES),
                (None, 2**20, 24),
            ):
                peer = peers.peer(target.port + 1, name)
                if peer and peer.join("client").get("type") == "welcome":
                    hand_in(peer, games, size)
            yield


def hand_in(peer: Peer, games: int, size: int) -> None:
    """Send `games` different records of random bytes."""
    for _ in range(games):
        record = os.urandom(16) * (size // 16)
        put = {"type": "put_game", "uid": os.urandom(16), "sha256": hashlib.sha256(record).digest()}
        if not peer.tell(put, record):
            return


ROWS = 16
REQUESTS = 8
"""Requests of each peer per stroke."""
PEERS = 4
NUMBERS = {"nan": 0x7FC00000, "signalling nan": 0x7F800001, "infinity": 0x7F800000, "largest": 0x7F7FFFFF}
"""Bits of a float32 in the plane of the side to move, which is 0 or 1 in a valid position."""


def rows_of_nan(target: Target) -> Iterator[None]:
    """Item 16. One row in each request has a NaN, an infinity or the largest float32 as input. d99ef01
    evaluates it together with the rows of others, and then the whole batch again. No evaluator may see such a
    row."""
    bad_batches = target.figures()["bad_batches"]
    with crowd() as peers:
        while True:
            for _ in range(PEERS):
                peer = peers.peer(target.port)
                welcome = peer.join("client") if peer else {}
                if peer is None or welcome.get("type") != "welcome":
                    continue
                for request in range(REQUESTS):
                    bits = list(NUMBERS.values())[request % len(NUMBERS)]
                    frames = _frames(welcome["self_play"]["history"], bits)
                    peer.tell({"type": "evaluate", "request": request, "rows": ROWS}, *frames)
                for _ in range(REQUESTS):
                    peer.wait_for("evaluated", "refused")
            seen = target.figures()["bad_batches"] - bad_batches
            assert not seen, f"{seen} batches came back without an answer"
            yield
            peers.cut()


def _frames(history: int, bits: int) -> list[bytes]:
    """Return features, counts and actions of `ROWS` empty boards, the middle one with `bits` as its last
    number."""
    plain = struct.pack(f"<{2 * history}QII", *[0] * (2 * history), 0x3F800000, 0)
    wrong = struct.pack(f"<{2 * history}QII", *[0] * (2 * history), bits, 0)
    middle = ROWS // 2
    features = plain * middle + wrong + plain * (ROWS - middle - 1)
    return [features, struct.pack("<H", 7) * ROWS, struct.pack("<7H", *range(7)) * ROWS]
