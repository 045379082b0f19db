"""The slope of memory and its interval: growth is detected, and mere fluctuation is not."""

from __future__ import annotations

import numpy as np
import pytest
from soak import slope

SECONDS = np.arange(0, 7200, 5.0)


@pytest.mark.parametrize("grows", [0.0, 1.0, 5.0])
def test_the_interval_holds_the_true_slope(grows: float) -> None:
    trembling = np.convolve(
        np.random.default_rng(3).normal(0, 0.5, len(SECONDS) + 9), np.ones(10) / 10, "valid"
    )
    found = slope("x", SECONDS, 100 + grows * SECONDS / 3600 + trembling)
    assert found.low < grows < found.high
    assert found.high - found.low < 0.5
