"""Flattens the priors of the root in self-play, so that moves that the policy neglects are tried.

KataGo, docs/KataGoMethods.md, "root policy softmax temperature": the policy would otherwise become a little
more certain with each generation, because a search seldom visits what has no prior.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from protocol.settings import NoiseSettings


def root_temperature(noise: NoiseSettings, ply: int, half_life: int) -> float:
    """Return the temperature after `ply` plies: `policy_temperature_early` at the start, and then half as far
    from `policy_temperature` every `half_life` plies."""
    late = noise.policy_temperature
    early = noise.policy_temperature_early or late
    return float(late + (early - late) * 0.5 ** (ply / half_life))


def flattened(priors: npt.NDArray[np.float32], temperature: float) -> npt.NDArray[np.float32]:
    """Return [n] `priors [n]` to the power 1 / temperature, with the same sum."""
    raised = priors.astype(np.float64) ** (1.0 / temperature)
    total = raised.sum()
    return (raised * (priors.sum() / total)).astype(np.float32) if total > 0 else priors
