"""Compiles the search kernels for one game, one selection and, optionally, a network that runs inside them.

`search.step_kernel` calls the rules, a selection and a network through stubs. `kernels_for` replaces the
stubs by the real functions, so that Numba inlines everything into one piece of machine code
(docs/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.games.jit import Bindings, bind, direct
from azselfplay.games.stubs import bindings
from azselfplay.search import cache_kernel, step_kernel, tree_kernel
from azselfplay.search.evaluator import Evaluator
from azselfplay.search.selection import selection

KERNELS = (tree_kernel, cache_kernel, step_kernel)
DIRECT = (
    *("expand_backup_select", "view_and_wins", "forget_simulations", "score_root", "visits_without_losses"),
    *("advance", "mix_noise"),
)
"""Kernels that are called at least once per move, always with arrays of the same types
(`games.jit.direct`)."""


class NetworkCode(Protocol):
    """The compiled part of a network that evaluates leaves inside the search step. There is one object for
    each game and network size (`net.sparse`)."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """Family and sizes of the network; part of the compiled function's name."""
        ...

    @property
    def evaluate(self) -> Callable[..., None]:
        """The kernel that evaluates a leaf, with the signature of `search.step_kernel.evaluate`."""
        ...

    @property
    def bindings(self) -> Bindings:
        """The bindings that `evaluate` needs besides those of the rules."""
        ...


class OwnNetwork(Evaluator, Protocol):
    """A network that evaluates the leaves of a forest in its step kernel. `search.pool` takes it as the
    evaluator of that forest, and nothing is ever submitted to it."""

    @property
    def code(self) -> NetworkCode: ...

    @property
    def weights(self) -> npt.NDArray[np.float32]:
        """[n] in the layout that `code` reads. New weights are always a new array object."""
        ...


@cache
def kernels_for(game_name: str, selection_name: str, network: NetworkCode | None = None) -> SimpleNamespace:
    """Return the kernels by name. Each is compiled on its first call, and cached on disk."""
    game, chooses = get_game(game_name), selection(selection_name)
    chosen = [
        (step_kernel.choose_root, chooses.choose_root),
        (step_kernel.choose_below, chooses.choose_below),
    ]
    sets: dict[str, Bindings] = {game_name: bindings(game), selection_name: chosen}
    if network is None:
        sets["remote"] = [(step_kernel.EVALUATES, 0)]
    else:
        own = [(step_kernel.EVALUATES, 1), (step_kernel.evaluate, network.evaluate)]
        sets[network.name] = [*own, *network.bindings]
    kernels = vars(bind([*KERNELS, chooses], sets))
    return SimpleNamespace(**kernels | {name: direct(kernels[name]) for name in DIRECT if name in kernels})
