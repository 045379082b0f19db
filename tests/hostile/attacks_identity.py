"""Items 6 and 7: names that a peer chooses for itself, and a peer that pretends to be the trainer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import count

from peers import Crowd, Peer, crowd
from raw_zmtp import automatic_identities, unseeded_identity
from target import Target

GUESSES = 64
"""Names taken around a guess; libzmq gives the next ones to peers that connect later."""
FORGED = 32
"""Games that the impostor waits for and acknowledges per stroke."""


def chosen_names(target: Target) -> Iterator[None]:
    """Item 6. Peers name themselves: one byte, 255 bytes, and one name twice. Each joins, requests the
    figures and stays until the others have done so too."""
    for turn in count():
        with crowd() as peers:
            for name in (bytes([1 + turn % 255]), os.urandom(254) + b"\xff", b"twice", b"twice"):
                for port in (target.port, target.port + 1):
                    _look_in(peers, port, name)
            yield


def imitated_names(target: Target) -> Iterator[None]:
    """Item 6. Names such as libzmq gives, a zero and a 32-bit number that counts up from `rand()`, which is
    the same in every process that never seeded it. When libzmq gives a peer a name that another has already
    chosen, an assertion ends the server (`socket_base.cpp:2113`)."""
    for turn in count():
        with crowd() as peers:
            _take_names_after(peers, target.port, unseeded_identity() + GUESSES * turn)
            yield


def impostor(target: Target) -> Iterator[None]:
    """Item 7. A second trainer learns the first one's name from the refusal, returns under that name, and
    acknowledges each game it gets as stored without storing it. Peers without a session acknowledge too. The
    peer names that it learns reveal the next automatic ones, which are taken as well (item 6)."""
    while True:
        with crowd() as peers:
            thief = _steal_the_place(peers, target.port + 1)
            for _ in range(FORGED if thief else 0):
                game = thief.wait_for("relay_game", "goodbye", seconds=1.0)
                if game is None or game["type"] == "goodbye":
                    break
                _acknowledge(thief, game["peer"], game["uid"])
                if len(game["peer"]) == 5:
                    _take_names_after(peers, target.port + 1, int.from_bytes(game["peer"][1:]))
            for role in ("client", "watcher", "trainer"):
                if liar := peers.peer(target.port + 1):
                    liar.join(role)
                    _acknowledge(liar, bytes(5), os.urandom(16))
                    liar.wait_for("refused", "goodbye")
            yield


def _steal_the_place(peers: Crowd, port: int) -> Peer | None:
    """Join as the trainer that is already there. Returns the peer that may now be the trainer."""
    rival, thief = peers.peer(port), peers.peer(port)
    if rival is None or thief is None:
        return None
    told = rival.join("trainer", "hostile trainer")
    name = re.search(r"trainer '([^']+)'", str(told.get("reason")))
    thief.join("trainer", name[1] if name else "trainer")
    return thief


def _acknowledge(peer: Peer, to: bytes, uid: bytes) -> None:
    ack = {"type": "game_ack", "uid": uid, "status": "stored", "reason": "", "retry_after": 0.0}
    peer.tell({"type": "relay_ack", "acks": [[to, ack]]})


def _take_names_after(peers: Crowd, port: int, first: int) -> None:
    """Take the names from `first` on, then connect peers that let libzmq name them."""
    for name in automatic_identities(first, GUESSES):
        peers.peer(port, name)
    for _ in range(4):
        _look_in(peers, port)


def _look_in(peers: Crowd, port: int, name: bytes | None = None) -> None:
    if peer := peers.peer(port, name):
        peer.join("watcher", seconds=0.5)
        peer.tell({"type": "get_status"})
        peer.wait_for("status", "goodbye", seconds=0.5)
