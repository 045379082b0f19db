"""Imported games: a window of their own, and how many samples come from it.

`azplay games RUN import` stores games of other programs and of people. Their records have no visits, which is
their mark, and the store keeps them apart (`store.sqlite.IMPORTED`), so that they never enter the window of
self-play. `samples.imported_share` above 0 declares that they are used. Then the policy target of a position
is the move that was played, and the value the game's result, whatever `loss.value_q_share` is.

Training first makes steps of imported games alone, until each position was drawn `samples.per_position` times
on average; these do not count for the budget of self-play. From then on they are a share of each step. More
games may be imported while the trainer is stopped.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import Game
from azselfplay.games.stubs import Movers
from azselfplay.store.reader import StoreReader
from protocol.records import POLICY_TARGET, GameRecord
from trainer.config import SampleSettings
from trainer.sampler import Sampler
from trainer.sampler_kernel import Samples, joined
from trainer.window import Window

log = logging.getLogger(__name__)


class Imported:
    """The newest imported games of a run, at most `positions` positions; none while the share is 0."""

    def __init__(self, game: Game, settings: SampleSettings, positions: int) -> None:
        self._game, self._settings, self._most = game, settings, positions
        self.window: Window | None = None
        """None without games, and before `fill`."""
        self.samples = 0
        """Samples of the steps of imported games alone."""
        self._is_read = False

    def fill(self, reader: StoreReader) -> None:
        """Read them from the store, once: more can only be imported while no trainer runs."""
        if self._is_read or not self._settings.imported_share:
            return
        self._is_read = True
        numbers, positions = reader.imported(self._most)
        if not numbers:
            log.warning("samples.imported_share is set, and this run has no imported games")
            return
        movers = Movers(self._game)
        # As large as they are: each position has one visited move, and a game at least one position.
        self.window = Window(self._game, positions, 1.0, 1.0)
        for record in reader.whole(self._game, numbers):
            self.window.add(learnable(record, movers(record.start, record.actions)))
        log.info("%d imported games with %d positions", self.window.games, self.window.positions)

    def steps(self, batch: int) -> int:
        """Return how many steps of imported games alone are left."""
        if self.window is None or not self.window.positions:
            return 0
        allowed = self._settings.per_position * self.window.positions
        return max(0, int((allowed - self.samples) // batch))

    def alone(self, sampler: Sampler, rng: np.random.Generator, batch: int) -> Samples:
        """Return the samples of such a step."""
        assert self.window is not None
        self.samples += batch
        return sampler.sample(self.window, rng, batch)

    def count(self, batch: int) -> int:
        """Return how many samples of each other step come from imported games."""
        return 0 if self.window is None else round(self._settings.imported_share * batch)

    def added(self, samples: Samples, sampler: Sampler, rng: np.random.Generator, count: int) -> Samples:
        """Return `samples` and `count` of imported games."""
        if self.window is None or not count:
            return samples
        return joined(samples, sampler.sample(self.window, rng, count), policy_only=False)


def learnable(record: GameRecord, signs: npt.NDArray[np.int8]) -> GameRecord:
    """Return an imported game as if each move had been the only one that a search visits, with the game's
    result as its value. `signs` [plies]: +1 where the first player moves, else -1."""
    ones = np.ones(record.plies, np.uint16)
    return replace(
        record,
        visited=ones,
        visit_actions=record.actions,
        visits=ones,
        flags=np.full(record.plies, POLICY_TARGET, np.uint8),
        root_values=(signs * record.outcome).astype(np.float32),
    )
