"""Where a game begins and how its first plies are played, so that games differ from the start.

There are up to three stages: a start position, plies drawn uniformly from the legal ones, and plies drawn
from the network's own policy (but no plies after a start that a generator drew). None of these plies is
searched or trained on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.spec import Game, State
from protocol.settings import SelfPlaySettings
from search.pool import SearchPool
from search.settings import generator_names, start_lines
from search.tree import SearchTree


class Start(NamedTuple):
    text: str
    """The position in the game's notation, as in the record."""
    is_sampled: bool = False
    """Whether it was drawn for this game alone. Then it gets no opening plies, which would only destroy what
    it was drawn for (in KQK, the queen)."""


def start_of_game(game: Game, settings: SelfPlaySettings, rng: np.random.Generator) -> Start:
    """Return `start`; in a `start_share` of games, one of `start_positions` or of what `start_generator`
    draws."""
    if settings.start.share == 0 or rng.random() >= settings.start.share:
        return Start(settings.start.position)
    names = generator_names(settings.start.generator)
    if names:
        assert game.generator is not None
        return Start(game.generator.draw(names[int(rng.integers(len(names)))], rng), is_sampled=True)
    lines = start_lines(settings.start.positions)
    return Start(lines[int(rng.integers(len(lines)))])


class Opening:
    """The plies of one game before its first search. `tree` is at `start`; `actions` are those played.

    The game never ends here: if an action would end it, that kind of opening stops before.
    """

    def __init__(
        self, tree: SearchTree, start: State, settings: SelfPlaySettings, rng: np.random.Generator
    ) -> None:
        self._tree = tree
        self._start = start
        self._settings = settings
        self._rng = rng
        self.actions: list[int] = []

    def play_random(self) -> None:
        """Play 0 to `random_plies` legal actions, all equally likely, in a `random_share` of games."""
        settings, rng = self._settings, self._rng
        for _ in range(self._plies(settings.opening.random_share, settings.opening.random_plies)):
            if not self._play(int(rng.choice(self._tree.legal_actions()))):
                break

    async def play_sampled(self, pool: SearchPool) -> None:
        """Play 0 to `opening_plies` actions drawn from the network's policy, in an `opening_share` of
        games."""
        settings = self._settings
        for _ in range(self._plies(settings.opening.policy_share, settings.opening.policy_plies)):
            await pool.expand(self._tree)
            view = self._tree.view_of_net()
            index = sampled(view.priors, settings.opening.policy_temperature, self._rng)
            if not self._play(int(view.actions[index])):
                break

    def _plies(self, share: float, most: int) -> int:
        """Return how many plies of a kind this game has. No random number is drawn for a kind that is off."""
        if most == 0 or self._rng.random() >= share:
            return 0
        return int(self._rng.integers(most, endpoint=True))

    def _play(self, action: int) -> bool:
        """Play an action, or take it back if it ends the game. Returns whether it was played."""
        tree = self._tree
        tree.advance(action)
        if tree.end_reason() is None:
            self.actions.append(action)
            return True
        tree.reset(self._start)
        for again in self.actions:
            tree.advance(again)
        return False


def sampled(priors: npt.NDArray[np.float32], temperature: float, rng: np.random.Generator) -> int:
    """Return an index sampled from `priors [n]` ** (1 / temperature); if all priors are 0, all are equally
    likely."""
    weights = np.maximum(priors.astype(np.float64), 0.0)
    largest = weights.max()
    weights = (weights / largest) ** (1.0 / temperature) if largest > 0 else np.ones(len(priors))
    cumulative = np.cumsum(weights)
    index = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return min(int(index), len(weights) - 1)
