"""Which games go on to the trainer, and when those that were sent back may come again.

Pure objects, without socket or clock. The front keeps no games. `GameRelay` knows which peer waits for which
acknowledgement. A game that cannot be passed on now is answered `retry` and stays in its player's spool;
`Turns` says when it may come again. The trainer holds at most `BYTES_OF_ALL` of games that it has not
acknowledged. A session may have `SESSION_BYTES` of them and a key `BYTES_OF_KEY`, so neither fills the window
alone. Windows are counted in bytes because they bound memory. They leave time for slow acknowledgements, for
example where games are also copied to another machine: if answers take 1.5 s, 1,360 games a second (the pace
of AlphaZero) mean 2,040 unanswered games.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from protocol.credits import BYTES_OF_ALL, BYTES_OF_KEY, SESSION_BYTES, counted_bytes
from protocol.errors import Code
from protocol.messages import GameAck, RelayGame

RETRY_NO_TRAINER = 5.0
"""Seconds after which a client offers a game again when there was no trainer."""
RETRY_BUSY = 1.0
"""Seconds after which a client offers a game again when the trainer's window was full."""
RELAY_AGAIN = 20.0
"""Seconds after which a game offered again is sent to the trainer again (its uid makes that harmless)."""
GIVE_UP = 120.0
"""Seconds after which an unanswered game loses its place in the window."""
LEAST_PACE = 10.0
"""Peers a second that may send again while the trainer answers nothing."""
LONGEST_RETRY = 60.0
"""Longest wait in seconds of a game that was sent back."""

SOURCES = {"worker": "workers", "client": "clients"}
"""The trainer's name for the kind of player, by the session's role."""


@dataclass(frozen=True)
class Acknowledge:
    """Send this to the peer on the bulk port, if it is still there."""

    peer: bytes
    ack: GameAck
    wasted: int = 0
    """Bytes of the game if the trainer checked it without storing it as a new one, else 0."""


Instruction = RelayGame | Acknowledge
"""A RELAY_GAME goes to the trainer, with the record's bytes as they came."""


@dataclass
class _InFlight:
    """A game that was passed on."""

    since: float
    sha256: bytes
    size: int
    """Bytes of the record."""
    owner: str


class GameRelay:
    """Knows which peer waits for which game's acknowledgement."""

    def __init__(self, window: int = BYTES_OF_ALL) -> None:
        self.relayed = 0
        """Games passed on to a trainer."""
        self.acked = 0
        """Games to which a trainer gave a final answer."""
        self.trainer_present = False
        self._window = window
        self._in_flight: dict[tuple[bytes, bytes], _InFlight] = {}
        """Games passed on, by peer and uid."""
        self._bytes: Counter[bytes | str] = Counter()
        """Counted bytes of these games, by peer and by the name of a key."""
        self._all_bytes = 0
        """Counted bytes of all these games together."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def put(
        self, peer: bytes, role: str, uid: bytes, sha256: bytes, now: float, size: int = 0, owner: str = ""
    ) -> list[Instruction]:
        """Handle a game of `size` bytes from `peer`. The trainer is told the `owner`, the name of the
        session's key; "" where no keys are used."""
        if not self.trainer_present:
            return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER)]
        game = self._in_flight.get((peer, uid))
        # The trainer's answers name only the uid: its answer to the first game would be taken for one to the
        # second.
        if game is not None and (game.sha256, game.size) != (sha256, size):
            return [_retry(peer, uid, _OTHER_BYTES, RETRY_BUSY)]
        # The trainer has the game already, and its answer will go to this peer.
        if game is not None and now - game.since < RELAY_AGAIN:
            return []
        if game is None:
            counted, held = counted_bytes(size), self._bytes[peer]
            # `held and`: one game always fits, however large.
            if held and held + counted > SESSION_BYTES:
                reason = f"{Code.BUSY}: {held} bytes of this session's games are unanswered already"
                return [_retry(peer, uid, reason, RETRY_BUSY)]
            full = self._all_bytes + counted > self._window
            if full or (owner and self._bytes[owner] + counted > BYTES_OF_KEY):
                return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]
            self._count(peer, owner, counted)
            self.relayed += 1
            game = self._in_flight[peer, uid] = _InFlight(now, sha256, size, owner)
        game.since = now
        return [RelayGame(peer, uid, sha256, SOURCES[role], owner)]

    def undeliverable(self, peer: bytes, uid: bytes) -> list[Instruction]:
        """Handle a game that could not be sent, because the trainer is gone or its socket is full."""
        if not self._take_back(peer, uid):
            return []
        # `put` has counted it as relayed.
        self.relayed -= 1
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY)]

    def trainer_acked(self, acks: Iterable[tuple[bytes, GameAck]]) -> list[Instruction]:
        """Handle the trainer's answers. Answers to games that nobody waits for any more are dropped."""
        out: list[Instruction] = []
        for peer, ack in acks:
            if game := self._take_back(peer, ack.uid):
                self.acked += ack.status != "retry"
                out.append(Acknowledge(peer, ack, 0 if ack.status in ("stored", "retry") else game.size))
        return out

    def trainer_joined(self) -> list[Instruction]:
        """Handle a (new) trainer: games that the previous one had not acknowledged must be offered again."""
        lost = self.trainer_left()
        self.trainer_present = True
        return lost

    def trainer_left(self) -> list[Instruction]:
        """Handle the loss of the trainer: everything it had not acknowledged must be offered again."""
        self.trainer_present = False
        # The next trainer knows nothing of them.
        waiting, self._in_flight = self._in_flight, {}
        self._bytes.clear()
        self._all_bytes = 0
        return [_retry(peer, uid, Code.NO_TRAINER, RETRY_NO_TRAINER) for peer, uid in waiting]

    def expire(self, now: float) -> list[Instruction]:
        """Reclaim the places of games that the trainer never answered."""
        # Unary plus drops the zeros, so that peers that are gone are forgotten.
        self._bytes = +self._bytes
        late = [key for key, game in self._in_flight.items() if now - game.since > GIVE_UP]
        for peer, uid in late:
            self._take_back(peer, uid)
        return [_retry(peer, uid, Code.TRAINER_BUSY, RETRY_BUSY) for peer, uid in late]

    # ---- inside -----------------------------------------------------------------------------

    def _take_back(self, peer: bytes, uid: bytes) -> _InFlight | None:
        """Free the place of a game. Returns None if it had none."""
        game = self._in_flight.pop((peer, uid), None)
        if game is not None:
            self._count(peer, game.owner, -counted_bytes(game.size))
        return game

    def _count(self, peer: bytes, owner: str, counted: int) -> None:
        self._bytes[peer] += counted
        self._bytes[owner] += counted
        self._all_bytes += counted


_OTHER_BYTES = f"{Code.BUSY}: the trainer has a game with this uid and other bytes, and has not answered yet"


def _retry(peer: bytes, uid: bytes, reason: str, seconds: float) -> Acknowledge:
    return Acknowledge(peer, GameAck(uid, "retry", reason, seconds))


class Turns:
    """Decides when games that were sent back may come again: one peer after another, somewhat faster than the
    trainer has answered of late. So the trainer is offered more as soon as it takes more.

    If all had to wait one second, thousands of players would send so much in vain that hardly anything else
    would get through.
    """

    def __init__(self, now: float) -> None:
        self._pace = LEAST_PACE
        """Turns a second."""
        self._last = now
        """When the latest turn is."""
        self._ticked_at = now
        self._answered = 0
        self._due: dict[bytes, float] = {}
        """When each peer's turn is. A peer that sends more games before its turn gets no further turn, so it
        does not delay the others."""

    def tick(self, answered: int, now: float) -> None:
        """Note how many games the trainer has answered in all. To be called every second or so."""
        self._due = {peer: at for peer, at in self._due.items() if at > now}
        if (passed := now - self._ticked_at) > 0:
            # An average over about ten seconds, since an archive answers many games at once.
            share = 1 - math.exp(-passed / 10)
            offered = 1.5 * (answered - self._answered) / passed
            self._pace = max(LEAST_PACE, self._pace + share * (offered - self._pace))
            self._ticked_at, self._answered = now, answered

    def wait(self, peer: bytes, now: float, least: float) -> float:
        """Return the seconds, at least `least`, after which this peer may send again."""
        if self._due.get(peer, now) <= now:
            self._last = max(self._last, now) + 1 / self._pace
            if self._last > now + LONGEST_RETRY:
                self._last = now  # start another round, between the turns already given
            self._due[peer] = self._last
        return max(least, self._due[peer] - now)
