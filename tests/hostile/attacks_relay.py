"""Item 15: games that take everyone's places in the relay."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from peers import Peer, crowd
from target import Target

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
