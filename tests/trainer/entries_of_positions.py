"""Compares targets that have an entry for some actions of each sample with their slow twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from games import get_game
from protocol.records import GameRecord
from trainer.window import Window

GAME = get_game("tic_tac_toe")
MAPS = np.array([np.arange(GAME.actions), *(one.actions for one in GAME.symmetries)])

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, actions and numbers."""

given_draws = given(
    seed=st.integers(0, 1000),
    capacity=st.integers(9, 60),
    draws=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 7)), min_size=1, max_size=20),
)
"""Calls a test with the seed of some games, a window's capacity, and pairs of a position and a symmetry."""


def check_entries(
    targets: Callable[[Window, np.ndarray, np.ndarray], Entries],
    naive: Callable[[GameRecord, int, list[int]], dict[int, float]],
    window: Window,
    records: Sequence[GameRecord],
    draws: Sequence[tuple[int, int]],
) -> None:
    """Add `records` to `window`. For the positions drawn, `targets` must agree with `naive`, which takes one
    position, and its rows must ascend."""
    for record in records:
        window.add(record)
    positions = [(record, ply) for record in records for ply in range(record.plies)][-window.positions :]
    chosen = [(at % len(positions), symmetry) for at, symmetry in draws]
    numbers = window.first_position + np.array([at for at, _ in chosen])
    rows, actions, found = targets(window, numbers, MAPS[[symmetry for _, symmetry in chosen]])
    for row, (at, symmetry) in enumerate(chosen):
        own = rows == row
        entries = dict(zip(actions[own].tolist(), found[own].tolist(), strict=True))
        assert entries == pytest.approx(naive(*positions[at], MAPS[symmetry].tolist()))
    assert (np.diff(rows) >= 0).all()
