"""Positions of known value, to see what value the network gives them (`games.spec.Game.probes`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.spec import Game


class Probes(NamedTuple):
    """A game's probes as input of the network; the usual start position if the game has none."""

    names: tuple[str, ...]
    packed_features: npt.NDArray[np.uint64]
    """[n, feature_words], each without history."""

    @classmethod
    def of(cls, game: Game, history: int) -> Probes:
        positions = game.probes or (("start", ""),)
        packed_features = np.zeros((len(positions), game.feature_words(history)), np.uint64)
        for row, (_, text) in enumerate(positions):
            state = game.notation.state_from_text(text)
            game.rules.encode(state[None], 1, history, packed_features[row])
        return cls(tuple(name for name, _ in positions), packed_features)


def correlation(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float | None:
    """Return Pearson's r of `one [n]` and `other [n]`; None if one of them is constant."""
    if one.std() < 1e-12 or other.std() < 1e-12:
        return None
    return float(np.corrcoef(one, other)[0, 1])
