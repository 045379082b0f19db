"""Games that are never trained on, which show whether the network memorises its window."""

from __future__ import annotations

import hashlib

from games.spec import Game
from protocol.records import GameRecord
from trainer.sampler import Sampler
from trainer.samples import Samples
from trainer.search_values import ValuesOf, root_values
from trainer.window import Window

POSITIONS = 1024
"""Positions that the loss is averaged over: cheaper than 2 steps of 256."""
RANGE = 8192
"""The newest positions from which they are spread. All positions of a game have the same outcome, so the
value loss of neighbours says little: 1024 in a row can be 8 games of chess, or 50 of Connect Four."""
CAPACITY = 65_536
"""Positions kept; games are kept whole."""


class HeldOut:
    """The held-out share of the games. Whole games are held out, because the positions of one are very
    similar.

    share: share of all games, 0..1. positions: capacity of the training window; what does not fit there does
    not fit here. values_of: as for that window.
    """

    def __init__(
        self,
        game: Game,
        share: float,
        positions: int,
        values_of: ValuesOf = root_values,
    ) -> None:
        self._below = int(share * 2**64)
        room = min(positions, CAPACITY) if share else 1
        self.window = Window(game, room, values_of=values_of)

    def takes(self, record: GameRecord) -> bool:
        """Return whether this game is held out: the same answer at any time and on any machine."""
        return self.takes_uid(record.uid)

    def takes_uid(self, uid: bytes) -> bool:
        """Return the same for the game with this uid."""
        if not self._below:
            return False
        return int.from_bytes(hashlib.sha256(uid).digest()[:8], "little") < self._below

    def newest(self, sampler: Sampler) -> Samples | None:
        """Return positions to compute the loss on; None while there are too few for a meaningful loss."""
        if self.window.positions < POSITIONS // 4:
            return None
        return sampler.newest(self.window, RANGE, POSITIONS)
