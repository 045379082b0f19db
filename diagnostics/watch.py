"""Watches games and training steps for signs that the run does not learn, during training."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from diagnostics.alerts import IN_A_ROW, Alert, Lesson, Signs, find_alerts
from diagnostics.stretches import Stretch
from games.spec import Game
from games.stubs import Movers
from protocol.records import GameRecord

log = logging.getLogger(__name__)

STRETCH = 256
"""Games in a stretch."""
STRETCHES = 20
"""Stretches remembered: the recent ones that alerts judge, and older ones for comparison."""
LESSONS = 10 * IN_A_ROW
"""Training figures remembered."""
LESSON_STEPS = 20
"""Steps between two training figures that are compared."""
NEWEST_GAMES = 100
"""Newest games, whose weights are compared with the current ones."""


class Watch:
    """Recent games and training figures."""

    def __init__(self, game: Game, games_per_stretch: int = STRETCH) -> None:
        self._game = game
        self._size = games_per_stretch
        self._movers = Movers(game)
        self._open = Stretch()
        self._stretches: deque[Stretch] = deque(maxlen=STRETCHES)
        self._lessons: deque[Lesson] = deque(maxlen=LESSONS)
        self._lags: deque[int] = deque(maxlen=NEWEST_GAMES)
        self._told: dict[str, Alert] = {}

    def on_games(self, records: Iterable[GameRecord], newest_version: int) -> None:
        """Count games that were just stored, while the server had weights `newest_version`."""
        for record in records:
            self._open.add(record, self._movers(record.start, record.actions))
            self._lags.append(max(0, newest_version - int(record.versions.max())))
            if self._open.games == self._size:
                self._stretches.append(self._open)
                self._open = Stretch()

    def figures(self) -> dict[str, Any]:
        """Figures of the newest full stretch of games, or of the unfinished one before there is a full
        one."""
        return (self._stretches[-1] if self._stretches else self._open).figures(self.lag)

    @property
    def lag(self) -> int | None:
        """Weights versions that the newest games are behind (median); None before there are enough games."""
        return statistics.median_low(self._lags) if len(self._lags) == NEWEST_GAMES else None

    def alerts(self, figures: Mapping[str, Any]) -> list[str]:
        """Short texts of all present alerts. Those that began or ended since the last call are logged.

        figures: those of the trainer, with the keys of docs/protocol.md.
        """
        self._note(figures)
        signs = Signs(
            self._game, list(self._stretches), list(self._lessons), self.lag, figures["samples_per_position"]
        )
        found = {alert.name: alert for alert in find_alerts(signs)}
        for name, alert in found.items():
            if name not in self._told:
                log.warning("ALERT %s", alert)
        for name in self._told.keys() - found.keys():
            log.info("alert over: %s", name)
        self._told = found
        return [alert.short for alert in found.values()]

    def _note(self, figures: Mapping[str, Any]) -> None:
        """Remember the training figures if there were LESSON_STEPS since the last ones."""
        last = self._lessons[-1].step if self._lessons else -LESSON_STEPS
        if figures["policy_loss"] is not None and figures["step"] - last >= LESSON_STEPS:
            policy, entropy, value = (figures[n] for n in ("policy_loss", "policy_entropy", "value_loss"))
            held_out = figures.get("held_out_value_loss")
            self._lessons.append(Lesson(figures["step"], policy, entropy, value, held_out))
