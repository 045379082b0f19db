"""One game's tree searched with Gumbel AlphaZero's choices (`search.gumbel_kernel`).

Every search begins with a fresh root: sequential halving counts visits from 0, and a kept subtree would
bring visits that it did not give. A search costs `simulations` + 1 evaluations.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np

from games import get_game
from games.jit import specialise
from games.spec import Game
from protocol.search_columns import PRIOR_FLOOR
from protocol.settings import SelfPlaySettings
from search.gumbel import RootScores, halving_schedule
from search.gumbel_kernel import GUMBEL_KERNELS
from search.kernel import KERNELS
from search.layout import UNEXPANDED
from search.tree import SearchTree


@cache
def gumbel_kernels_for(game_name: str) -> SimpleNamespace:
    """The functions of both kernel modules for one game; compiled on their first call, cached on disk."""
    game = get_game(game_name)
    end_values = np.array([reason.value for reason in game.end_reasons], dtype=np.int8)
    bindings = {**game.rules.bindings(), "PRIOR_FLOOR": PRIOR_FLOOR, "END_VALUES": end_values}
    compiled = specialise({**KERNELS, **GUMBEL_KERNELS}, bindings, game.name)
    instead = {"select": compiled["select_gumbel"], "resume": compiled["resume_gumbel"]}
    return SimpleNamespace(**{**compiled, **instead})


class GumbelTree(SearchTree):
    """A SearchTree for `root = gumbel`."""

    def __init__(self, game: Game, settings: SelfPlaySettings, rng: np.random.Generator) -> None:
        self._noise = np.zeros(game.max_legal)
        self._schedule = np.zeros(0, np.int32)
        super().__init__(game, settings, rng)
        self._kernels = gumbel_kernels_for(game.name)
        self._resume = self._kernels.resume

    def _write_settings(self) -> None:
        super()._write_settings()
        self._control["gumbel_c_visit"] = self.settings.gumbel_c_visit
        self._control["gumbel_c_scale"] = self.settings.gumbel_c_scale

    def _bundle_arrays(self) -> None:
        super()._bundle_arrays()
        self._arrays = (*self._arrays, self._noise, self._schedule)

    def advance(self, action: int) -> None:
        """Play `action`; nothing of the tree is kept."""
        self._control["nodes"] = 0  # so that no subtree is looked for
        super().advance(action)

    def begin(self, *, is_cheap: bool = False) -> None:
        """Start a search, with fresh Gumbel noise at the root unless it is cheap or noise is off."""
        settings = self.settings
        simulations = settings.cheap_simulations if is_cheap else settings.simulations
        self._control["remaining"] = simulations
        self._forget_simulations()
        count = int(self._nodes[0]["edge_count"])
        self._noise[:] = 0.0
        if settings.root_noise > 0 and not is_cheap:
            self._noise[:count] = self._rng.gumbel(size=count)
        self._schedule = halving_schedule(min(settings.gumbel_considered, count), simulations)
        self._bundle_arrays()

    def extend(self, simulations: int) -> None:  # noqa: ARG002
        """Its schedule says who is visited when, and ends with the search: nothing can be added."""
        raise ValueError("a Gumbel search cannot be extended")

    def _forget_simulations(self) -> None:
        """Back to a root that was only evaluated: a second search of the same position begins afresh."""
        control, (first, count) = self._control, self._nodes[0]
        edges = self._edges[first : first + count]
        control["root_value_sum"] -= edges["value_sum"].sum()
        control["root_visits"], control["nodes"], control["edges"] = 1, 1, count
        edges["visits"], edges["value_sum"], edges["child"] = 0, 0.0, UNEXPANDED

    def root_scores(self) -> RootScores:
        """What this search found out about every legal action."""
        actions, visits = self.root_visits()
        scores, values = np.empty(len(actions)), np.empty(len(actions))
        self._kernels.score_root(self._tree, self._nodes, self._edges, scores, values)
        return RootScores(actions, visits, scores, values, self._noise[: len(actions)].copy())
