"""Positions that surprised the network are drawn more often, within their game and nowhere else."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_sampler import NaiveWindow

from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer.sampler import Sampler, by_surprise
from trainer.window import Window, surprises

GAME = get_game("tic_tac_toe")
EIGHTHS = st.integers(0, 24).map(lambda number: number / 8)


def naive_surprises(record: GameRecord) -> list[float]:
    """Return the KL divergence of each ply that is a policy target, 0 for the others."""
    return [
        float(kl) if flags & 1 and not math.isnan(kl) else 0.0
        for kl, flags in zip(record.prior_kl.tolist(), record.flags.tolist(), strict=True)
    ]


def naive_choice(record: GameRecord, cut: int, ply: int, draw: float) -> int:
    """Return the ply that replaces `ply`: the first one whose share of the surprise, added up from ply `cut`
    on, is more than `draw`."""
    surprises = naive_surprises(record)
    total = sum(surprises[cut:])
    if not total:
        return ply
    running = 0.0
    for at in range(cut, record.plies):
        running += surprises[at]
        if running > draw * total:
            return at
    raise AssertionError("draws are below 1")


def surprising(seed: int, kls: list[float], targets: float = 0.7) -> GameRecord:
    """Return a random game whose plies repeat these KL divergences; multiples of 1/8, so that sums are
    exact."""
    record = random_game(GAME, np.random.default_rng(seed), simulations=20, targets=targets)
    return dataclasses.replace(record, prior_kl=np.resize(np.array(kls, np.float16), record.plies))


def windows(records: list[GameRecord], capacity: int) -> tuple[Window, NaiveWindow]:
    window = Window(GAME, capacity, 9.0, 1.0, with_surprise=True)
    naive = NaiveWindow(capacity, 9 * capacity + 1, capacity + 1)
    for record in records:
        window.add(record)
        naive.add(record)
    return window, naive


def test_surprise_is_that_of_policy_targets() -> None:
    """Where it is unknown, the surprise is 0."""
    record = surprising(1, [0.5, np.nan, 2.0], targets=0.6)
    assert surprises(record).tolist() == naive_surprises(record)
    assert {0.0, 0.5, 2.0} == set(naive_surprises(record))


@given(
    seed=st.integers(0, 100),
    kls=st.lists(EIGHTHS | st.just(float("nan")), min_size=1, max_size=9),
    count=st.integers(1, 12),
    capacity=st.integers(12, 60),
    limit=st.integers(1, 60),
    draw=st.integers(0, 1023).map(lambda number: number / 1024),
)
def test_agrees_with_the_slow_twin(
    seed: int, kls: list[float], count: int, capacity: int, limit: int, draw: float
) -> None:
    """They agree for each position of the ring, also where it wraps around and where the newest positions cut
    a game. A position of an older game, which is drawn if the newest ones have no targets, stays in it."""
    window, naive = windows([surprising(seed + at, kls[at:] or [0.0]) for at in range(count)], capacity)
    oldest, first = window.first_position, window.first_of_last(limit)
    numbers = np.arange(oldest, window.next_position)
    found = by_surprise(window, first, numbers, np.full(len(numbers), draw))
    for number, chosen in zip(numbers.tolist(), found.tolist(), strict=True):
        record, ply = naive.position(number - oldest)
        begins = number - ply
        cut = first - begins if begins < first < begins + record.plies else 0
        assert chosen - begins == naive_choice(record, cut, ply, draw)


def drawn(window: Window, share: float) -> np.ndarray:
    sampler = Sampler(GAME, GAME.history)
    return sampler.sample(window, np.random.default_rng(3), 4000, None, share).root_values


def test_a_sampler_draws_a_share_by_surprise() -> None:
    """At a share of 1/2, the only surprising position of a game gets this half and its part of the rest."""
    record = random_game(GAME, np.random.default_rng(5), simulations=20)
    kl = np.zeros(record.plies, np.float16)
    kl[2] = 1.0
    values = np.arange(record.plies, dtype=np.float32) / 16
    window, _ = windows([dataclasses.replace(record, prior_kl=kl, root_values=values)], 60)
    plain, mixed, only = (drawn(window, share) == values[2] for share in (0.0, 0.5, 1.0))
    assert plain.mean() == pytest.approx(1 / record.plies, abs=0.02)
    assert mixed.mean() == pytest.approx(0.5 + 0.5 / record.plies, abs=0.03)
    assert only.all()
