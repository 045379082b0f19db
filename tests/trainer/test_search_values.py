"""What the search's value of a position is made of: its own search, those that follow, and the result."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games import get_game
from azselfplay.games.stubs import Movers
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer.window import Window, backed_up, search_values

GAME = get_game("dots_and_boxes")  # where a player may move again
MOVERS = Movers(GAME)


def naive_values(record: GameRecord, movers: list[int], decay: float) -> list[float]:
    """Return the value of each position for the side to move; `movers`: +1 for the first player, else -1."""
    return [_value_at(record, movers, ply, decay) for ply in range(record.plies)]


def _value_at(record: GameRecord, movers: list[int], ply: int, decay: float) -> float:
    total, weight = 0.0, 1.0
    for at in range(ply, record.plies):
        if not record.visited[at]:
            continue
        root = movers[at] * float(record.root_values[at])
        total += weight * (1 - decay) * root
        weight *= decay
    return movers[ply] * (total + weight * record.outcome)


def game_of(seed: int, unsearched: list[int]) -> GameRecord:
    """Return a random game, some of whose plies were not searched."""
    record = random_game(GAME, np.random.default_rng(seed), simulations=20)
    keeps = ~np.isin(np.arange(record.plies), unsearched)
    kept = np.repeat(keeps, record.visited)
    return dataclasses.replace(
        record,
        visited=np.where(keeps, record.visited, 0).astype(np.uint16),
        visit_actions=record.visit_actions[kept],
        visits=record.visits[kept],
        flags=np.where(keeps, record.flags, 0).astype(np.uint8),
    )


@given(seed=st.integers(0, 1000), unsearched=st.lists(st.integers(0, 23), max_size=8), decay=st.floats(0, 1))
def test_agrees_with_the_slow_twin(seed: int, unsearched: list[int], decay: float) -> None:
    record = game_of(seed, unsearched)
    signs = MOVERS(record.start, record.actions)
    wanted = naive_values(record, signs.tolist(), decay)
    assert backed_up(record, signs, decay).tolist() == pytest.approx(wanted, abs=1e-6)


def test_without_decay_it_is_the_positions_own_search_and_with_all_of_it_the_outcome() -> None:
    record = game_of(1, [])
    signs = MOVERS(record.start, record.actions)
    assert search_values(GAME, 0.0)(record) is record.root_values
    assert search_values(GAME, 1.0)(record).tolist() == (signs * record.outcome).tolist()


def test_a_window_stores_the_values_it_is_told_to() -> None:
    record = game_of(3, [])
    plain, other = Window(GAME, 200), Window(GAME, 200, values_of=search_values(GAME, 0.5))
    for window in (plain, other):
        window.add(record)
    stored = [window.rings.root_value[: record.plies].tolist() for window in (plain, other)]
    wanted = backed_up(record, MOVERS(record.start, record.actions), 0.5)
    assert stored == [record.root_values.tolist(), wanted.tolist()]
