"""Which relayed games are being worked on, and what each sender is told. Pure: events in, instructions out.

Delivery is at least once: a client that hears nothing sends again, perhaps while the first copy is still
being checked. One uid is therefore worked on once, and all who sent it get the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, UnsetType

from protocol.errors import Code
from protocol.messages import GameAck, RelayAck, RelayGame, Uid, encode

MESSAGE_BYTES = 48 * 1024
"""Bytes of acknowledgements in one RELAY_ACK: with the largest behind them below `MAX_HEADER`."""
ACK_OVERHEAD = 8
"""Bytes that MessagePack adds to a pair of peer and acknowledgement, at most."""
IN_FLIGHT_LIMIT = 4096
"""Games being worked on; more are sent back. The front has at most 256 with us at a time."""
RETRY_AFTER = 1.0
"""Seconds after which a game that was sent back may come again."""
DISK_RETRY_AFTER = 10.0
"""The same after a commit that failed: a full disk is not emptied in a second."""


@dataclass(frozen=True)
class Job:
    """A game to check and store."""

    uid: bytes
    sha256: bytes
    source: str
    data: bytes
    key: str = ""
    """Name of its player's key, as the server says; "" where none is asked for."""


@dataclass(frozen=True)
class Done:
    """What became of a job; `status` is a word of GAME_ACK."""

    uid: bytes
    status: str
    reason: str = ""


class _Relayed(msgspec.Struct, tag_field="type", tag=RelayGame.__struct_config__.tag):
    """What an answer to a RELAY_GAME needs."""

    peer: bytes
    uid: Uid


_relayed = msgspec.msgpack.Decoder(_Relayed)


@dataclass
class _InFlight:
    sha256: bytes
    peers: list[bytes] = field(default_factory=list)


class Ingest:
    """The table of games in flight, by uid."""

    def __init__(self, limit: int = IN_FLIGHT_LIMIT) -> None:
        self._limit = limit
        self._in_flight: dict[bytes, _InFlight] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    def on_game(self, message: RelayGame, data: bytes, *, has_room: bool = True) -> Job | RelayAck | None:
        """A game arrived: work to do, an answer to send, or nothing, as it is being worked on.

        `has_room`: whether training can take further games at the moment.
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
        """Results of one commit: the acknowledgements to send, with the threshold of resignation if any."""
        acks: list[tuple[bytes, GameAck]] = []
        for done in results:
            retry_after = DISK_RETRY_AFTER if done.status == "retry" else 0.0
            ack = GameAck(done.uid, done.status, done.reason[:2000], retry_after, resign_value)
            acks += [(peer, ack) for peer in self._in_flight.pop(done.uid).peers]
        return _messages(acks)

    @staticmethod
    def on_unreadable(header: bytes | memoryview, reason: str) -> RelayAck | None:
        """The answer to a RELAY_GAME that cannot be taken as it came: it frees the game's place at the front.

        None for a header that does not say whom to answer.
        """
        try:
            game = _relayed.decode(header)
        except (msgspec.MsgspecError, RecursionError, ValueError):  # ValueError: text that is no UTF-8
            return None
        return RelayAck([(game.peer, GameAck(game.uid, "rejected", f"{Code.INTERNAL}: {reason}"[:2000]))])

    @staticmethod
    def _not_now(message: RelayGame, code: Code, why: str) -> RelayAck:
        return RelayAck([(message.peer, GameAck(message.uid, "retry", f"{code}: {why}", RETRY_AFTER))])


def _messages(acks: Sequence[tuple[bytes, GameAck]]) -> list[RelayAck]:
    """As few messages as their limit in bytes allows."""
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
