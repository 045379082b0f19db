"""The kernels of the players without a network, compiled for a game on first use and cached on disk."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np

from games import get_game
from games.jit import specialise
from games.knowledge import knowledge_of
from play.match import alphabeta_kernel, greedy_kernel, rollout_kernel


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """`best_root`, `greedy_scores`, `run_rollouts` and what they call, for one game."""
    game = get_game(game_name)
    end_values = np.array([reason.value for reason in game.end_reasons], dtype=np.int8)
    heuristic = knowledge_of(game).heuristic.bindings()
    bindings = {**game.rules.bindings(), **heuristic, "END_VALUES": end_values}
    kernels = {**specialise(alphabeta_kernel.KERNELS, bindings, game.name)}
    kernels |= specialise(greedy_kernel.KERNELS, bindings, game.name)
    kernels |= specialise(rollout_kernel.KERNELS, bindings, game.name)
    return SimpleNamespace(**kernels, evaluate=heuristic["evaluate"], material=heuristic["material"])
