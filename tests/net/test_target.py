"""How many rows are worth collecting is chosen the same on a busy machine as on an idle one."""

from __future__ import annotations

import numpy as np
import pytest

from net.batches import choose_target

IDLE = {8: 3000.0, 16: 4200.0, 32: 5200.0, 64: 5900.0, 128: 6000.0, 256: 6050.0, 512: 6100.0}
"""Rows a second of `small`, as `bench inference` prints them."""


def test_the_smallest_bucket_within_a_tenth_of_every_larger_one_is_chosen() -> None:
    assert choose_target([IDLE]) == 64
    assert choose_target([{8: 100.0, 16: 100.0, 32: 100.0}]) == 8
    assert choose_target([{8: 100.0, 16: 120.0, 32: 150.0}]) == 32
    assert choose_target([{40: 1.0}]) == 40


@pytest.mark.parametrize("seed", range(50))
def test_a_machine_whose_speed_changes_between_turns_chooses_the_same(seed: int) -> None:
    """From turn to turn by up to four times, from bucket to bucket by 2 %; one turn is disturbed."""
    rng = np.random.default_rng(seed)
    turns = []
    for _ in range(5):
        speed = 2 ** rng.uniform(-1, 1)
        turns.append({rows: rate * speed * rng.normal(1, 0.02) for rows, rate in IDLE.items()})
    disturbed = turns[int(rng.integers(5))]
    disturbed[int(rng.choice(list(IDLE)))] /= 10
    assert choose_target(turns) == 64
