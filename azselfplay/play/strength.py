"""The strength of a network with fewer simulations, as measured by `azplay scaling`, for the option UCI_Elo.

Elo is on the scale of these measurements, where the player `random` has 0. This Elo compares programs only;
it cannot be compared with ratings of people. Between two rated numbers of simulations, Elo is interpolated
linearly over the logarithm of the simulations, because each doubling gains about the same Elo.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from azselfplay.games.spec import Game
from azselfplay.host.exits import Exit, Fatal
from azselfplay.link.weights_files import read_weights

SCALING = "scaling.json"
"""The file of `azplay scaling`, in the run's folder or beside the weights file."""


class Strength(NamedTuple):
    """A network's Elo by its simulations per move; both ascend."""

    simulations: tuple[int, ...]
    elo: tuple[float, ...]

    @classmethod
    def of(cls, rated: Iterable[tuple[int, float]]) -> Self | None:
        """Return the strength from pairs `(simulations, Elo)`, which are in the order of simulations; None if
        fewer than two pairs are left. A pair that is rated no higher than one with fewer simulations is left
        out, because this is chance."""
        kept: list[tuple[int, float]] = []
        for simulations, elo in rated:
            if not kept or elo > kept[-1][1]:
                kept.append((simulations, elo))
        return cls(*zip(*kept, strict=True)) if len(kept) > 1 else None

    @property
    def lowest(self) -> int:
        return math.ceil(self.elo[0])

    @property
    def highest(self) -> int:
        return max(self.lowest, math.floor(self.elo[-1]))

    def simulations_for(self, elo: float) -> int:
        """Return the number of simulations that gives this Elo."""
        return round(math.exp(np.interp(elo, self.elo, np.log(self.simulations))))


def measured(weights: Path, search: str, game: Game) -> Strength | None:
    """Return the strength of the network in `weights` with a search (`play.nets.settings_for_search`), if it
    was rated with exactly this search. Raises Fatal(BAD_DATA) if the ratings cannot be read."""
    folder = weights.resolve().parent
    path = next((one / SCALING for one in (folder, folder.parent) if (one / SCALING).is_file()), None)
    if path is None:
        return None
    from azselfplay.play.book import (  # these imports take a second, so only if there are ratings
        published,
        searches_of,
    )
    from azselfplay.play.nets import search_name, settings_for_search

    network = hashlib.sha256(read_weights(weights)).hexdigest()
    try:
        ratings = dict(published(path))
    except (OSError, ValueError) as error:
        raise Fatal(f"{path} cannot be read: {error}", Exit.BAD_DATA) from error
    rated = searches_of(ratings, network, search_name(settings_for_search(search, game, weights)))
    return Strength.of((one.simulations, ratings[one].elo) for one in rated)
