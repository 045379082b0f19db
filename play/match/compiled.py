"""The kernels of the players without a network, compiled for a game on first use and cached on disk.

Numba's cache looks at the file a function stands in, and ours at the packages below; a heuristic that a
kernel calls is in neither. So the name under which a kernel is compiled holds a hash of all of them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from games import get_game
from games.jit import specialise
from play.match import alphabeta_kernel, greedy_kernel, rollout_kernel
from play.match.heuristics import heuristic_of

_SOURCES = (
    "alphabeta_kernel.py",
    "chess_heuristic.py",
    "greedy_kernel.py",
    "heuristics.py",
    "rollout_kernel.py",
)


@cache
def _source_hash() -> str:
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in _SOURCES)).hexdigest()[:12]


@cache
def kernels_for(game_name: str) -> SimpleNamespace:
    """`best_root`, `greedy_scores`, `run_rollouts` and what they call, for one game."""
    game = get_game(game_name)
    tag = f"{game.name}_{_source_hash()}"
    end_values = np.array([reason.value for reason in game.end_reasons], dtype=np.int8)
    bindings = {**game.rules.bindings(), **heuristic_of(game, tag), "END_VALUES": end_values}
    kernels = {**specialise(alphabeta_kernel.KERNELS, bindings, tag)}
    kernels |= specialise(greedy_kernel.KERNELS, bindings, tag)
    kernels |= specialise(rollout_kernel.KERNELS, bindings, tag)
    return SimpleNamespace(**kernels, evaluate=bindings["evaluate"], material=bindings["material"])
