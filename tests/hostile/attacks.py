"""All attacks, with the item of issue 11 that each belongs to. Their docstrings describe them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attacks_content import hogged_relay, nested_headers, rows_of_nan
from attacks_crowd import (
    flood_of_bytes,
    flood_of_connections,
    flood_of_hellos,
    flood_of_large_messages,
    flood_of_questions,
    thousand_workers,
)
from attacks_identity import chosen_names, imitated_names, impostor
from attacks_memory import (
    descriptors,
    endless_subscriptions,
    half_handshakes,
    unfinished_messages,
    unread_weights,
)
from peers import come_from
from target import Target


@dataclass(frozen=True)
class Attack:
    """`run(target)` makes one stroke per `next`, and cuts its connections when it is closed."""

    item: int
    """0: not in the issue."""
    run: Callable[[Target], Iterator[None]]
    strokes: int = 2
    """Number of strokes in `make test-nightly`."""
    most: int = 1000
    """Most strokes in a turn of `python -m tests.hostile`; the connections of the last stay until its end."""
    held_mb: float = 288.0
    """MB by which the front's memory may grow over its value before all attacks: 256 for all peers together
    (decision 0021)."""

    @property
    def name(self) -> str:
        return self.run.__name__

    def begin(self, target: Target) -> Iterator[None]:
        """Run the attack from an address of its own."""
        come_from(1 + ATTACKS.index(self) if self in ATTACKS else 255)
        return self.run(target)


def nothing(_target: Target) -> Iterator[None]:
    """This is no attack: it shows how two turns differ when nothing is done."""
    while True:
        time.sleep(0.1)
        yield


ATTACKS = (
    Attack(6, imitated_names),
    Attack(6, chosen_names),
    Attack(7, impostor),
    Attack(9, descriptors),
    Attack(13, unfinished_messages, strokes=3, most=4),
    Attack(13, endless_subscriptions, most=2),
    Attack(13, unread_weights, strokes=1, most=4),
    Attack(13, half_handshakes, strokes=16, most=32),
    Attack(14, nested_headers, strokes=16, most=32),
    Attack(15, hogged_relay, most=10),
    Attack(16, rows_of_nan),
    Attack(18, flood_of_hellos),
    Attack(0, flood_of_questions),
    Attack(0, flood_of_connections),
    Attack(0, flood_of_bytes),
    Attack(0, flood_of_large_messages),
    Attack(18, thousand_workers, strokes=1, most=1),
)
