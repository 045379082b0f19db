"""Item 16: rows that no network can answer."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from peers import crowd
from target import Target

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
    """Features, counts and actions of `ROWS` empty boards, the middle one with `bits` as its last number."""
    plain = struct.pack(f"<{2 * history}QII", *[0] * (2 * history), 0x3F800000, 0)
    wrong = struct.pack(f"<{2 * history}QII", *[0] * (2 * history), bits, 0)
    middle = ROWS // 2
    features = plain * middle + wrong + plain * (ROWS - middle - 1)
    return [features, struct.pack("<H", 7) * ROWS, struct.pack("<7H", *range(7)) * ROWS]
