"""Games on their way to the trainer and acknowledgements on their way back, as a pure object.

The front keeps no games. A game that cannot be passed on now is answered `retry` and stays in its
player's spool. The trainer has at most `WINDOW` unacknowledged games, so memory is bounded.

The places of the window are divided between keys, and a key's places between its sessions
(`server.claims`). A session without a key counts as a key; the following describes such sessions. With n
sessions that claim places, each may hold `WINDOW // n` of them, at least 1 and at most `MOST_UNANSWERED`.
So one client can never fill the window. While n is at most `WINDOW`, a session with less than its share
gets a place as soon as no other holds more than its share, that is, once the trainer has answered the
games that the others sent while there were fewer claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from azselfplay.link.pacing import MEGABYTE, AddressPaces, PaceLimits, place_of
from protocol.errors import Code
from protocol.messages import GameAck, RelayGame
from server.claims import Claims

WINDOW = 256
"""Most games that the trainer may hold without having acknowledged them."""
MOST_UNANSWERED = 16
"""Most such games from one session (`docs/protocol.md`)."""
RETRY_NO_TRAINER = 5.0
"""Seconds after which a client offers a game again when there was no trainer."""
RETRY_BUSY = 1.0
"""Seconds after which a client offers a game again when the trainer's window was full."""
RETRY_REFUSED = 10.0
"""Most seconds until the retry when many games of the client's key, or from its address, were refused."""
RELAY_AGAIN = 20.0
"""Seconds after which a game offered again is sent to the trainer again (its uid makes that harmless)."""
GIVE_UP = 120.0
"""Seconds after which a place in the window is reclaimed."""

MOST_BYTES = 2 * MEGABYTE
"""Most bytes of one session's unanswered games, or one game; sixteen chess games have about 1 MB."""
WINDOW_BYTES = 256 * MEGABYTE
"""Most bytes of all games that the trainer holds."""
REFUSED_OF_PLACE = PaceLimits(rate=2.0 * MEGABYTE, burst=8.0 * MEGABYTE)
"""Limit of the bytes of games of one key, or from one address without keys, that the trainer does not accept
as new games. Checking such games and keeping those it refuses costs as much as good ones."""
LEAST_PRICE = 16 * 1024
"""Bytes that such a game counts as at least."""

SOURCES = {"worker": "workers", "client": "clients"}
"""The trainer's name for the kind of player, by the session's role."""


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


@dataclass
class _InFlight:
    """A game that was passed on."""

    since: float
    sha256: bytes
    place: str
    """Whose pace of refused games it is."""
    size: int


class GameRelay:
    """Knows which peer waits for which game's acknowledgement."""

    def __init__(
        self,
        window: int = WINDOW,
        most_unanswered: int = MOST_UNANSWERED,
    ) -> None:
        self.relayed = 0
        """Games passed on to a trainer."""
        self.acked = 0
        """Games to which a trainer gave a final answer."""
        self.trainer_present = False
        self._most = most_unanswered
        self._claims = Claims(window)
        self._in_flight: dict[tuple[bytes, bytes], _InFlight] = {}
        """Games passed on, by peer and uid."""
        self._bytes: Counter[bytes] = Counter()
        """Bytes of these games, by peer."""
        self._size = 0
        """Bytes of all these games."""
        self._refused = AddressPaces(REFUSED_OF_PLACE)

    def __len__(self) -> int:
        return len(self._in_flight)

    def put(
        self,
        peer: bytes,
        role: str,
        uid: bytes,
        sha256: bytes,
        now: float,
        address: str = "",
        size: int = 0,
        owner: str = "",
    ) -> list[Instruction]:
        """Handle a game of `size` bytes from `peer` at `address` ("" on this machine). Peers with the same
        `owner` (the name of a key) divide one share, and the trainer is told the owner; "": the peer is its
        own."""
        place = place_of(owner, address)
        if not self.trainer_present:
            return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER)]
        game = self._in_flight.get((peer, uid))
        if game is not None and (game.sha256, game.size) != (sha256, size):
            return [_retry(peer, uid, _OTHER_BYTES, RETRY_BUSY)]
        if game is not None and now - game.since < RELAY_AGAIN:
            return []
        if wait := self._refused.wait(place, now):
            return [_retry(peer, uid, _TOO_MANY_REFUSED, max(RETRY_BUSY, min(wait, RETRY_REFUSED)))]
        if game is None:
            held, so_far = self._claims.held(peer), self._bytes[peer]
            if held >= self._most or (held and so_far + size > MOST_BYTES):
                reason = f"{Code.BUSY}: {held} games of this session are unanswered already"
                return [_retry(peer, uid, reason, RETRY_BUSY)]
            if self._size + size > WINDOW_BYTES or not self._claims.take(peer, owner or peer, now):
                return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]
            self._bytes[peer] += size
            self._size += size
            self.relayed += 1
            game = self._in_flight[peer, uid] = _InFlight(now, sha256, place, size)
        game.since = now
        return [Relay(RelayGame(peer, uid, sha256, SOURCES[role], owner))]

    def undeliverable(self, peer: bytes, uid: bytes) -> list[Instruction]:
        """Handle a game that could not be sent to the trainer: it is gone, or its socket is full."""
        if not self._take_back(peer, uid):
            return []
        self.relayed -= 1
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]

    def trainer_acked(self, acks: Iterable[tuple[bytes, GameAck]], now: float) -> list[Instruction]:
        """Handle the trainer's answers. Those to games that nobody waits for any more are dropped."""
        out: list[Instruction] = []
        for peer, ack in acks:
            if game := self._take_back(peer, ack.uid):
                if ack.status not in ("stored", "retry"):
                    self._refused.take(game.place, now, max(game.size, LEAST_PRICE))
                self.acked += ack.status != "retry"
                out.append(Acknowledge(peer, ack))
        return out

    def trainer_joined(self) -> list[Instruction]:
        """Handle a (new) trainer: games that the previous one had not acknowledged must be offered again."""
        lost = self.trainer_left()
        self.trainer_present = True
        return lost

    def trainer_left(self) -> list[Instruction]:
        """Handle the loss of the trainer: everything it had not acknowledged must be offered again."""
        self.trainer_present = False
        waiting, self._in_flight = self._in_flight, {}
        self._claims.clear()
        self._bytes.clear()
        self._size = 0
        return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER) for peer, uid in waiting]

    def expire(self, now: float) -> list[Instruction]:
        """Reclaim the places of games that the trainer never answered."""
        self._refused.tidy(now)
        late = [key for key, game in self._in_flight.items() if now - game.since > GIVE_UP]
        for peer, uid in late:
            self._take_back(peer, uid)
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY) for peer, uid in late]

    # ---- inside -----------------------------------------------------------------------------

    def _take_back(self, peer: bytes, uid: bytes) -> _InFlight | None:
        """Free the place of a game. Returns None if it had none."""
        game = self._in_flight.pop((peer, uid), None)
        if game is not None:
            self._claims.give_back(peer)
            self._bytes[peer] -= game.size
            self._size -= game.size
            if not self._claims.held(peer):
                del self._bytes[peer]
        return game


_OTHER_BYTES = f"{Code.BUSY}: the trainer has a game with this uid and other bytes, and has not answered yet"
_TOO_MANY_REFUSED = f"{Code.BUSY}: too many games of this key, or from this address, were refused just now"


def _retry(peer: bytes, uid: bytes, reason: str, seconds: float) -> Acknowledge:
    return Acknowledge(peer, GameAck(uid, "retry", reason, seconds))
