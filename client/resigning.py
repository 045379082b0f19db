"""When a side of a self-play game gives up (docs/decisions/0011-resignation.md)."""

from __future__ import annotations

import numpy as np

from protocol.settings import SelfPlaySettings


class Resigning:
    """From which root value on a side gives up, as this worker knows it. All its games share it."""

    def __init__(self, settings: SelfPlaySettings) -> None:
        self._settings = settings
        is_fixed = settings.resignation.mistakes == 0
        self.threshold = settings.resignation.value if is_fixed else 0.0
        """Below 0; 0: nobody gives up, or nothing has been heard yet."""

    def heard(self, threshold: float) -> None:
        """The trainer says which threshold keeps mistakes rare. One that the settings exclude is lowered."""
        self.threshold = min(threshold, self._settings.resignation.value) if threshold < 0 else 0.0

    def is_played_on(self, rng: np.random.Generator) -> bool:
        """Whether the game that begins is played to its end whatever happens, to count mistakes."""
        settings = self._settings
        return settings.resignation.value < 0 and rng.random() < settings.resignation.play_on

    def gives_up(self, value: float) -> bool:
        """Whether a side gives up at this root value. Rounded as in the record, which the trainer checks."""
        return self.threshold < 0 and float(np.float32(value)) <= self.threshold
