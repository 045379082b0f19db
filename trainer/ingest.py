"""Which relayed games are being processed, and what each sender is told. Pure: events in, instructions out.

Delivery is at least once: a client that gets no answer sends again, perhaps while the first copy is still
being checked. So each uid is processed once, and all its senders get the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, UnsetType

from protocol.errors import Code
from protocol.messages import GameAck, RelayAck, RelayGame, Uid, encode

MESSAGE_BYTES = 48 * 1024
"""Most bytes of acknowledgements in one RELAY_ACK: even with the largest one after them it stays below
`MAX_HEADER`."""
ACK_OVERHEAD = 8
"""Most bytes that MessagePack adds to a pair of peer and acknowledgement."""
IN_FLIGHT_LIMIT = 4096
"""Most games being processed; further ones are sent back. The front has at most 256 with us at a time."""
RETRY_AFTER = 1.0
"""Seconds after which a game that was sent back may be sent again."""
DISK_RETRY_AFTER = 10.0
"""The same after a failed commit: a full disk is not freed within a second."""


@dataclass(frozen=True)
class Job:
    """A game to check and store."""

    uid: bytes
    sha256: bytes
    source: str
    data: bytes
    key: str = ""
    """Name of its player's key, as the server says; "" where no keys are used."""


@dataclass(frozen=True)
class Done:
    """The result of a job; `status` is a status of GAME_ACK."""

    uid: bytes
    status: str
    reason: str = ""


class _Relayed(msgspec.Struct, tag_field="type", tag=RelayGame.__struct_config__.tag):
    """The fields that an answer to a RELAY_GAME needs."""

    peer: bytes
    uid: Uid


_relayed = msgspec.msgpack.Decoder(_Relayed)


@dataclass
class _InFlight:
    sha256: bytes
    peers: list[bytes] = field(default_factory=list)


class Ingest:
    """The games in flight, by uid."""

    def __init__(self, limit: int = IN_FLIGHT_LIMIT) -> None:
        self._limit = limit
        self._in_flight: dict[bytes, _InFlight] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    def on_game(self, message: RelayGame, data: bytes, *, has_room: bool = True) -> Job | RelayAck | None:
        """Handle a game that arrived. Returns a job, an answer to send, or None if it is already being
        processed.

        `has_room`: whether training can accept further games at the moment.
        """
        known = self._in_flight.get(message.uid)
        if known is not None and known.sha256 == message.sha256:
            if message.peer not in known.peers:
                known.peers.append(message.peer)
            return None
        if known is not None:
            return self._not_now(message, Code.BUSY, "another game with this uid is being checked")
        if not has_room or len(self._in_flight) >= self._limit:
            return self._not_now(message, Code.TRAINER_BUSY, "more games than can be taken in at once")
        self._in_flight[message.uid] = _InFlight(message.sha256, [message.peer])
        return Job(message.uid, message.sha256, message.source, data, message.key)

    def on_done(self, results: Sequence[Done], resign_value: float | UnsetType = UNSET) -> list[RelayAck]:
        """Handle the results of one commit. Returns the acknowledgements to send, with the resignation
        threshold if any."""
        acks: list[tuple[bytes, GameAck]] = []
        for done in results:
            retry_after = DISK_RETRY_AFTER if done.status == "retry" else 0.0
            ack = GameAck(done.uid, done.status, done.reason[:2000], retry_after, resign_value)
            acks += [(peer, ack) for peer in self._in_flight.pop(done.uid).peers]
        return _messages(acks)

    @staticmethod
    def on_unreadable(header: bytes | memoryview, reason: str) -> RelayAck | None:
        """Return the answer to a RELAY_GAME that cannot be read: it frees the game's place at the front.

        The game is sent again, because its header was most likely damaged on its way; the header is the
        server's, so it says nothing about the game. None for a header that does not say whom to answer.
        """
        try:
            game = _relayed.decode(header)
        except (msgspec.MsgspecError, RecursionError, ValueError):  # ValueError: text that is not UTF-8
            return None
        return Ingest._not_now(game, Code.INTERNAL, reason)

    @staticmethod
    def _not_now(game: RelayGame | _Relayed, code: Code, why: str) -> RelayAck:
        return RelayAck([(game.peer, GameAck(game.uid, "retry", f"{code}: {why}"[:2000], RETRY_AFTER))])


def _messages(acks: Sequence[tuple[bytes, GameAck]]) -> list[RelayAck]:
    """Return the acknowledgements in as few messages as their limit in bytes allows."""
    parts: list[list[tuple[bytes, GameAck]]] = []
    room = 0
    for peer, ack in acks:
        size = len(peer) + len(encode(ack)) + ACK_OVERHEAD
        if size > room:
            parts.append([])
            room = MESSAGE_BYTES
        parts[-1].append((peer, ack))
        room -= size
    return [RelayAck(part) for part in parts]
