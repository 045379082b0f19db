"""The root value at which a side resigns, learned from games that were played on instead of resigned. Only
`resign_threshold` reads anything: the store.

AlphaGo Zero (Methods) chooses its threshold so that fewer than 5 % of the resigned games could have been won,
and measures this on the 10 % of games that are played to their end. Here a mistake is a game that the
resigning side would not have lost, because chess has draws. Decision: docs/decisions/0011-resignation.md.
"""

from __future__ import annotations

import logging
import math
from collections import deque

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import Game
from azselfplay.games.stubs import Movers, MoversOf, Signs
from azselfplay.store.reader import StoreReader
from protocol.records import PLAYED_ON, GameRecord
from protocol.settings import SelfPlaySettings

log = logging.getLogger(__name__)

GAMES = 500
"""Newest played-on games that count. Older games say nothing about the judgement of the present network."""
LATEST = 30
"""The newest of these games, whose share of mistakes must also be low enough: this reveals sooner that a
network has become overconfident."""
STEPS = 200
"""Number of thresholds tried, evenly spread from the highest one down to -1."""

MOST_READ = 20_000
"""Most stored games that are searched for played-on games."""

Bools = npt.NDArray[np.bool_]


def resign_threshold(
    settings: SelfPlaySettings, game: Game, reader: StoreReader, newest: int
) -> ResignThreshold:
    """Return the resignation threshold that follows from the newest stored games, without games that are not
    trained on. `newest`: `seq` of the newest stored game."""
    threshold = ResignThreshold(settings.resignation.value, settings.resignation.mistakes, Movers(game))
    if threshold.is_on and settings.resignation.play_on > 0:
        # Read as many games as should contain enough played-on games.
        count = min(MOST_READ, int(GAMES / settings.resignation.play_on))
        numbers = reader.newest_of_play(count, newest)
        left_out = reader.not_trained_on(numbers[0], newest, reader.quarantined()) if numbers else ()
        for _, record in reader.records_of(game, [seq for seq in numbers if seq not in left_out]):
            threshold.on_game(record)
        log.info("resignation: %s", threshold.as_dict())
    return threshold


class ResignThreshold:
    """Tries thresholds on the newest played-on games, and finds the highest safe one.

    highest: the setting `resignation.value`, below 0; 0: nobody resigns in any case. mistakes: the setting
    `resignation.mistakes`, the largest share of mistakes; 0: the threshold is `highest`. movers: who makes
    each move of a game (`games.stubs.Movers`).
    """

    def __init__(self, highest: float, mistakes: float, movers: MoversOf, games: int = GAMES) -> None:
        self._mistakes = mistakes
        self._highest = highest
        self._movers = movers
        self._thresholds = np.linspace(highest, -1.0, STEPS + 1)
        self._trials: deque[Bools] = deque(maxlen=games)
        """`trial_of` each game."""
        self._resigned = self._mistaken = np.zeros(STEPS + 1, np.int64)
        """[thresholds] sums over the trials."""
        self._chosen: int | None = 0 if mistakes == 0 and highest < 0 else None

    @property
    def is_on(self) -> bool:
        return self._highest < 0

    @property
    def threshold(self) -> float:
        """Return the threshold, below 0; 0 while no threshold is known to be safe."""
        return 0.0 if self._chosen is None else float(self._thresholds[self._chosen])

    def on_game(self, record: GameRecord) -> None:
        """Handle a stored game, whether resigned, played on or neither."""
        # The flag is set at all plies or at none.
        if self.is_on and record.flags[0] & PLAYED_ON:
            trial = trial_of(record, self._movers(record.start, record.actions), self._thresholds)
            self._trials.append(trial)
            trials = np.array(self._trials)
            self._resigned, self._mistaken = trials.sum(axis=0)
            if self._mistakes > 0:
                # Choose the highest safe threshold: its share of mistakes is below the limit even with one
                # more mistake plus two standard errors. So with a limit of 5 % the first threshold comes
                # after 20 games in which resigning would have been right.
                resigned, mistaken = trials[-LATEST:].sum(axis=0)
                feared = self._mistaken + 2 * np.sqrt(self._mistaken) + 1
                is_safe = feared < self._mistakes * (self._resigned + 1)
                is_safe &= mistaken <= self._mistakes * resigned
                safe = np.flatnonzero(is_safe)
                self._chosen = int(safe[0]) if len(safe) else None

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the trainer's figures about resignation; empty when nobody resigns."""
        if not self.is_on:
            return {}
        resigned = 0 if self._chosen is None else int(self._resigned[self._chosen])
        mistaken = 0 if self._chosen is None else int(self._mistaken[self._chosen])
        return {
            "threshold": round(self.threshold, 4),
            "played_on": len(self._trials),
            "would_resign": resigned,
            "mistakes": round(mistaken / resigned, 4) if resigned else None,
        }


def trial_of(record: GameRecord, movers: Signs, thresholds: npt.NDArray[np.float64]) -> Bools:
    """Return [2, thresholds]: whether at each threshold (in falling order) a side would have resigned in a
    game that was played on, and whether that side did not lose.

    movers: int8[plies] +1 where the first player moves, else -1.

    The first side whose root value is at or below the threshold resigns with that move. The last move does
    not count, because it ends the game anyway.
    """
    # Without a search the root value is 0, which says nothing.
    searched = record.visited[:-1] > 0
    values = np.where(searched, record.root_values[:-1], math.inf)
    lowest = np.minimum.accumulate(values)
    # `lowest` falls, so the first ply at or below a threshold is found by a binary search.
    first = np.searchsorted(-lowest, -thresholds)
    resigned = first < len(lowest)
    resigning = movers[np.minimum(first, record.plies - 1)]
    return np.array([resigned, resigned & (resigning * record.outcome >= 0)])
