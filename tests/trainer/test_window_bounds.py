"""Neither records nor the numbers of samples lead the jitted sampler beyond its arrays."""

import dataclasses

import numpy as np
import pytest
from mutations import with_entry

from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.records import BadRecord, GameRecord
from trainer.sampler import Sampler
from trainer.window import Window

GAME = get_game("connect_four")


def a_game() -> GameRecord:
    return random_game(GAME, np.random.default_rng(4), simulations=20)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("actions", 7, "actions: action 7 is not below 7"),
        ("visit_actions", 65535, "visit_actions: action 65535 is not below 7"),
        ("visited", 65535, "column visit_actions has"),
    ],
)
def test_a_record_with_numbers_out_of_bounds_is_refused(column: str, value: int, reason: str) -> None:
    window = Window(GAME, 1000)
    with pytest.raises(BadRecord, match=reason):
        window.add(with_entry(a_game(), column, -1, value))
    assert window.games == 0


def test_columns_that_are_too_short_and_outcomes_that_are_none_are_refused() -> None:
    window, record = Window(GAME, 1000), a_game()
    for fault in ({"root_values": record.root_values[:-1]}, {"visits": record.visits[:-1]}, {"outcome": 2}):
        with pytest.raises(BadRecord):
            window.add(dataclasses.replace(record, **fault))
    many = np.full(8, 1, np.uint16)
    one_ply = {name: getattr(record, name)[:1] for name in ("actions", "root_values", "flags", "versions")}
    with pytest.raises(BadRecord, match="no position has more than 7"):
        window.add(
            dataclasses.replace(
                record, **one_ply, visited=np.array([8], np.uint16), visit_actions=many, visits=many,
                prior_kl=np.zeros(1, np.float16), prior_values=np.zeros(1, np.float16),
                mean_depths=np.zeros(1, np.float16), max_depths=np.zeros(1, np.uint8),
            )
        )  # fmt: skip
    assert window.games == 0


def test_no_sample_is_made_of_a_position_that_is_not_there() -> None:
    window, sampler = Window(GAME, 1000), Sampler(GAME, 1, symmetric=True)
    window.add(a_game())
    here, none = np.zeros(1, np.int64), np.full(1, window.next_position, np.int64)
    assert len(sampler.make(window, here, here).classes) == 1
    for numbers, symmetries in ((none, here), (-here - 1, here), (here, here + 2), (here, here[:0])):
        with pytest.raises(IndexError):
            sampler.make(window, numbers, symmetries)
