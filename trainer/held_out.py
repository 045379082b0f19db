"""Games that are never trained on, to see whether the network learns its window by heart."""

from __future__ import annotations

import hashlib

from games.spec import Game
from protocol.records import GameRecord
from trainer.sampler import Sampler
from trainer.samples import Samples
from trainer.window import Window

POSITIONS = 1024
"""Positions that the loss is the mean of: cheaper than 2 steps of 256."""
RANGE = 8192
"""The newest positions that they are spread over. All positions of a game have one outcome, so the value
loss of neighbours says little: 1024 in a row of chess can be 8 games, of Connect Four 50."""
CAPACITY = 65_536
"""Positions kept, as a game is kept whole."""


class HeldOut:
    """The held-out share of the games. Whole games, as the positions of one are much alike.

    share      of all games, 0..1
    positions  capacity of the window that is trained on: what does not fit there does not fit here
    """

    def __init__(self, game: Game, share: float, positions: int) -> None:
        self._below = int(share * 2**64)
        self.window = Window(game, min(positions, CAPACITY) if share else 1)

    def takes(self, record: GameRecord) -> bool:
        """Whether this game is one of them: the same answer at any time, on any machine."""
        return self.takes_uid(record.uid)

    def takes_uid(self, uid: bytes) -> bool:
        """The same of the game of this uid."""
        if not self._below:
            return False
        return int.from_bytes(hashlib.sha256(uid).digest()[:8], "little") < self._below

    def newest(self, sampler: Sampler) -> Samples | None:
        """Positions to take the loss on; None before there are enough for a loss that means something."""
        if self.window.positions < POSITIONS // 4:
            return None
        return sampler.newest(self.window, RANGE, POSITIONS)
