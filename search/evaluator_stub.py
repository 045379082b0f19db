"""The network of a forest that evaluates leaves itself, as the step kernel calls it; `search.compiled` binds a
real one to these names."""

from __future__ import annotations

from typing import Any

from games.jit import Unbound

EVALUATES = Unbound()
"""1 if the forest has a network of its own, else 0: leaves then go to the outbox."""


def evaluate(
    weights: Any, packed_features: Any, history: int, actions: Any, count: int, priors: Any, wdl: Any
) -> None:
    """Write `priors` float32[count] of the legal `actions` uint16[count] and `wdl` float32[3] of a leaf with
    these `packed_features` uint64[feature_words]."""
    raise RuntimeError("this is bound by search.compiled.kernels_for")
