"""Games on their way to the trainer and acknowledgements on their way back, as a pure object.

The front keeps no game: one that cannot be handed on now is answered `retry`, and stays in the spool of
whoever played it. At most `WINDOW` are with the trainer unacknowledged, so memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.errors import Code
from protocol.messages import GameAck, RelayGame

WINDOW = 256
"""Games that the trainer may hold without having acknowledged them."""
RETRY_NO_TRAINER = 5.0
"""Seconds after which a client offers a game again when there was no trainer."""
RETRY_BUSY = 1.0
"""Seconds, when the trainer was there but full."""
RELAY_AGAIN = 20.0
"""Seconds after which a game offered again is handed to the trainer again (its uid makes that harmless)."""
GIVE_UP = 120.0
"""Seconds after which a place in the window is taken back."""

SOURCES = {"worker": "workers", "client": "clients"}
"""How the trainer names who played, by role of the session."""


@dataclass(frozen=True)
class Relay:
    """Send this to the trainer, with the record's bytes as they came."""

    message: RelayGame


@dataclass(frozen=True)
class Acknowledge:
    """Send this to the peer on the bulk port, if it is still there."""

    peer: bytes
    ack: GameAck


Instruction = Relay | Acknowledge


class GameRelay:
    """Who waits for which game's acknowledgement."""

    def __init__(self, window: int = WINDOW) -> None:
        self.relayed = 0
        """Games handed to a trainer."""
        self.acked = 0
        """Games that a trainer gave a final answer to."""
        self.trainer_present = False
        self._window = window
        self._in_flight: dict[tuple[bytes, bytes], float] = {}
        """When the game (peer, uid) was handed on."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def put(self, peer: bytes, role: str, uid: bytes, sha256: bytes, now: float) -> list[Instruction]:
        """A game has come from `peer`."""
        if not self.trainer_present:
            return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER)]
        since = self._in_flight.get((peer, uid))
        if since is not None and now - since < RELAY_AGAIN:
            return []
        if since is None and len(self._in_flight) >= self._window:
            return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]
        self._in_flight[peer, uid] = now
        self.relayed += since is None
        return [Relay(RelayGame(peer, uid, sha256, SOURCES[role]))]

    def undeliverable(self, peer: bytes, uid: bytes) -> list[Instruction]:
        """The trainer could not be given this game: it is gone, or its socket is full."""
        if self._in_flight.pop((peer, uid), None) is None:
            return []
        self.relayed -= 1
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]

    def trainer_acked(self, acks: Iterable[tuple[bytes, GameAck]]) -> list[Instruction]:
        """The trainer answers. Answers for games that nobody waits for any more are dropped."""
        out: list[Instruction] = []
        for peer, ack in acks:
            if self._in_flight.pop((peer, ack.uid), None) is not None:
                self.acked += ack.status != "retry"
                out.append(Acknowledge(peer, ack))
        return out

    def trainer_joined(self) -> list[Instruction]:
        """A (new) trainer: what the one before held unacknowledged must be offered again."""
        lost = self.trainer_left()
        self.trainer_present = True
        return lost

    def trainer_left(self) -> list[Instruction]:
        """The trainer is gone; all that it had not acknowledged is to be offered again."""
        self.trainer_present = False
        waiting, self._in_flight = self._in_flight, {}
        return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER) for peer, uid in waiting]

    def expire(self, now: float) -> list[Instruction]:
        """Take back the places of games that the trainer never answered."""
        late = [key for key, since in self._in_flight.items() if now - since > GIVE_UP]
        for key in late:
            del self._in_flight[key]
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY) for peer, uid in late]


def _retry(peer: bytes, uid: bytes, code: Code, seconds: float) -> Acknowledge:
    return Acknowledge(peer, GameAck(uid, "retry", code, seconds))
