"""The kernels of the search compiled for a game, a selection and perhaps a network that is part of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from games import get_game
from games.jit import Bindings, bind
from games.stubs import bindings
from search import cache_kernel, random_kernel, root_kernel, step_kernel, stubs, tree_kernel
from search.evaluator import Evaluator
from search.selection import selection

KERNELS = (tree_kernel, random_kernel, cache_kernel, step_kernel, root_kernel)


class NetworkCode(Protocol):
    """The compiled part of a network that evaluates leaves inside the search's own step: one object for each
    game and sizes (`net.sparse`)."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """Family and sizes: part of the name of what is compiled."""
        ...

    @property
    def evaluate(self) -> Callable[..., None]:
        """A kernel, as `search.stubs.evaluate` describes it."""
        ...

    @property
    def bindings(self) -> Bindings:
        """What is bound to the names that it uses, besides the rules."""
        ...


class OwnNetwork(Evaluator, Protocol):
    """A network that evaluates the leaves of a forest in its step kernel. `search.pool` takes it as the
    evaluator of that forest, and nothing is ever submitted to it."""

    @property
    def code(self) -> NetworkCode: ...

    @property
    def weights(self) -> npt.NDArray[np.float32]:
        """[n] as `code` reads them. Other weights are another array."""
        ...


@cache
def kernels_for(game_name: str, selection_name: str, network: NetworkCode | None = None) -> SimpleNamespace:
    """Return the kernels. They are compiled on their first call, and cached on disk."""
    game, chooses = get_game(game_name), selection(selection_name)
    chosen = [(stubs.choose_root, chooses.choose_root), (stubs.choose_below, chooses.choose_below)]
    sets: dict[str, Bindings] = {game_name: bindings(game), selection_name: chosen}
    if network is None:
        sets["remote"] = [(stubs.EVALUATES, 0)]
    else:
        own = [(stubs.EVALUATES, 1), (stubs.evaluate, network.evaluate)]
        sets[network.name] = [*own, *network.bindings]
    return bind([*KERNELS, chooses], sets)
