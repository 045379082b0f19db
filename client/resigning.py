"""When a side of a self-play game resigns (docs/decisions/0011-resignation.md)."""

from __future__ import annotations

import numpy as np

from protocol.settings import SelfPlaySettings


class Resigning:
    """The root value at which a side resigns, as far as this worker knows it. All its games share it."""

    def __init__(self, settings: SelfPlaySettings) -> None:
        self._settings = settings
        is_fixed = settings.resignation.mistakes == 0
        self.threshold = settings.resignation.value if is_fixed else 0.0
        """Below 0; 0: nobody resigns, or the trainer's threshold is not known yet."""

    def heard(self, threshold: float) -> None:
        """Set the threshold at which the trainer finds mistakes rare enough; never above what the settings
        allow."""
        self.threshold = min(threshold, self._settings.resignation.value) if threshold < 0 else 0.0

    def is_played_on(self, rng: np.random.Generator) -> bool:
        """Return whether the game that begins is played to its end without resigning, to count mistakes."""
        settings = self._settings
        return settings.resignation.value < 0 and rng.random() < settings.resignation.play_on

    def gives_up(self, value: float) -> bool:
        """Return whether a side resigns at this root value. Rounded as in the record, which the trainer
        checks."""
        return self.threshold < 0 and float(np.float32(value)) <= self.threshold
