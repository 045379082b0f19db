"""`python tests/faults/share_attackers.py KIND PORT SERVER-KEY KEY-FILE`: a malicious client.

`stalled` requests evaluations and weights and reads nothing. `flooding` opens eight connections with its key
and sends as much as it can on each, far beyond its credits. `garbage` sends invalid headers, frames of wrong
shapes, rows of NaN, games of random bytes and messages of 4 MiB, and dials again when it is cut. Prints
`ready` once it has joined, and continues until it is killed.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from guests import ROWS, Guest, Packed, Socket, answer_of, ask, evaluate, forget, hello, tell

FLOODS = 8
"""Connections of the flooding client."""
TURN = 0.005
"""Seconds between two turns of an attacker, so that it does not burn a core of the measured machine."""
SOURCES = {"stalled": "127.0.3.1", "flooding": "127.0.3.2", "garbage": "127.0.3.3"}
NAN = 0x7FC00000
LARGE = bytes(4 * 1024 * 1024)
"""A frame: as long as a record may be."""


def joined(socket: Socket) -> tuple[int, bytes]:
    """Return the history that WELCOME names, and the hash of the weights."""
    welcome = answer_of(socket, "welcome")
    print("ready", flush=True)
    return welcome["self_play"]["history"], (welcome.get("weights") or {}).get("sha256", bytes(32))


def stalled(guest: Guest) -> None:
    leaves, bulk = guest.dial(hwm=1), guest.dial(1, hwm=1)
    history, sha256 = joined(leaves)
    request = 0
    while True:
        request += 1
        tell(leaves, evaluate(request, history))
        tell(bulk, ask("get_chunk", sha256=sha256, offset=0))
        time.sleep(0.1)


def flooding(guest: Guest) -> None:
    sockets = [guest.dial() for _ in range(FLOODS)]
    history, _ = joined(sockets[0])
    request = 0
    while True:
        for socket in sockets:
            forget(socket)
            for message in (evaluate(request, history), ask("ping"), ask("get_status")):
                tell(socket, message)
            request += 1
        time.sleep(TURN)


def garbage(guest: Guest) -> None:
    leaves, bulk = guest.dial(), guest.dial(1)
    history, _ = joined(leaves)
    rng, request = random.Random(1), 0
    kinds: list[Callable[[], Packed]] = [
        lambda: [rng.randbytes(rng.randint(0, 200))],
        lambda: [*ask("evaluate", request=request, rows=ROWS), rng.randbytes(50)],
        lambda: evaluate(request, history, NAN),
        lambda: [*ask("put_game", uid=os.urandom(16), sha256=bytes(32)), rng.randbytes(300)],
        lambda: [*ask("evaluate", request=request, rows=ROWS), LARGE, b"", b""],
        lambda: [b"\x81\xa4type\xa8evaluate", *evaluate(request, history)[1:], LARGE[: 1 << 16]],
        lambda: [b"\x81\xa4type\xa8put_game", LARGE],
        lambda: [*ask("put_game", uid=os.urandom(16), sha256=bytes(32)), LARGE],
        lambda: ask("weights_info", version=9, step=1, sha256=bytes(32), size=1 << 40, game="chess"),
    ]
    while True:
        for socket in (leaves, bulk):
            forget(socket)
            request += 1
            if rng.random() < 0.1:  # it may have been cut, and has dialled again
                tell(socket, hello(join=request))
            tell(socket, rng.choice(kinds)())
        time.sleep(TURN)


if __name__ == "__main__":
    kind, port, server, key = sys.argv[1:]
    attack = {"stalled": stalled, "flooding": flooding, "garbage": garbage}[kind]
    attack(Guest(int(port), server, Path(key), SOURCES[kind]))
