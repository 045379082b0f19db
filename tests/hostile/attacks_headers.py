"""Item 14: headers that take long to read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import msgpack
from peers import crowd
from raw_zmtp import header_frames, nested_lists, wide_lists
from target import Target

LARGE = 4 * 2**20 - 100
"""Bytes of a header that is as large as a frame may be."""
SMALL = 60_000
"""Bytes of a header below the limit of 64 KiB."""


def nested_headers(target: Target) -> Iterator[None]:
    """Item 14. Headers of nested lists, deep and wide, of 4 MB and of 60 kB: where any value is allowed (the
    trainer's figures), as the type, and under an unknown name; by peers that joined and by others that did
    not. Three of 4 MB freeze d99ef01 for 15 s; it makes hundreds of MB of lists from each."""
    kinds = [lists(size) for size in (LARGE, SMALL) for lists in (wide_lists, nested_lists)]
    with crowd() as peers:
        for header in cycle(around for lists in kinds for around in _around(lists)):
            for port in (target.port, target.port + 1):
                for joined in (False, True):
                    peer = peers.peer(port)
                    if peer and joined:
                        peer.join("watcher")
                    if peer:
                        header_frames(peer, [header])
            yield
            peers.cut()


def _around(lists: bytes) -> list[bytes]:
    """Messages that contain this map of one entry, `type`, and the map itself."""
    places = (("trainer_status", "figures"), ("welcome", "self_play"), ("ping", "other"))
    heads = (b"\x82" + b"".join(map(msgpack.packb, ("type", kind, entry))) for kind, entry in places)
    return [lists, *(head + lists for head in heads)]
