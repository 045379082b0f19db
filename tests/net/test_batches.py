"""The size of batches that is worth collecting, which is measured."""

import numpy as np
import pytest

from net.batches import choose_target

IDLE = {8: 2.6, 16: 3.9, 32: 6.6, 64: 11.3, 128: 21.9}
"""Milliseconds for a batch of the network `small`, by its number of rows."""


def test_the_smallest_bucket_that_reaches_the_share_of_endless_batches_is_chosen() -> None:
    assert choose_target([IDLE]) == 128
    assert choose_target([{rows: rows for rows in (8, 16, 32)}]) == 8
    assert choose_target([{rows: 2 + rows for rows in (8, 16, 32, 64, 128)}]) == 32
    assert choose_target([{rows: 4 + rows for rows in (8, 16, 32, 64, 128)}]) == 64
    assert choose_target([{rows: 1000 + rows for rows in (8, 16, 32)}]) == 32
    assert choose_target([{40: 1.0}]) == 40


@pytest.mark.parametrize("seed", range(50))
def test_a_machine_whose_speed_changes_between_turns_chooses_the_same(seed: int) -> None:
    """The speed changes up to fourfold from turn to turn, and by 2 % from bucket to bucket; one turn is
    disturbed."""
    rng = np.random.default_rng(seed)
    turns = []
    for _ in range(5):
        slow = 2 ** rng.uniform(-1, 1)
        turns.append({rows: took * slow * rng.normal(1, 0.02) for rows, took in IDLE.items()})
    disturbed = turns[int(rng.integers(5))]
    disturbed[int(rng.choice(list(IDLE)))] *= 10
    assert choose_target(turns) == 128
