"""The kernels of the players without a network, compiled for a game on first use and cached on disk."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from evaluation.match import alphabeta_kernel, greedy_kernel, rollout_kernel, stubs
from games import get_game
from games.jit import bind
from games.knowledge import knowledge_of
from games.stubs import bindings

KERNELS = (alphabeta_kernel, greedy_kernel, rollout_kernel)


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """`best_root`, `greedy_scores`, `run_rollouts` and what they call, for one game."""
    game = get_game(game_name)
    heuristic = knowledge_of(game).heuristic
    found = bind(KERNELS, {game.name: bindings(game), "heuristic": stubs.bindings(heuristic)})
    return SimpleNamespace(**vars(found), evaluate=heuristic.evaluate, material=heuristic.material)
