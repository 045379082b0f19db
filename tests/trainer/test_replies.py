"""The targets of the reply head are the visits of the next position, where there are some to learn."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from naive_sampler import drawn
from naive_verify import visits_by_ply

from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.records import POLICY_TARGET, GameRecord
from trainer.loss import Replies, reply_loss
from trainer.sampler import Sampler
from trainer.window import Window

GAME = get_game("tic_tac_toe")
SAMPLER = Sampler(GAME, 1, symmetric=True)
MAPS = SAMPLER.maps.actions


def naive_reply(record: GameRecord, ply: int, action_map: list[int]) -> dict[int, float]:
    """Return the share of the next position's visits by (moved) action; empty if there is nothing to
    learn."""
    if ply + 1 >= record.plies or not record.flags[ply + 1] & POLICY_TARGET:
        return {}
    visits = dict(visits_by_ply(record)[ply + 1])
    return {action_map[action]: count / sum(visits.values()) for action, count in visits.items()}


@given(
    seed=st.integers(0, 1000),
    capacity=st.integers(9, 60),
    draws=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 7)), min_size=1, max_size=20),
)
def test_agrees_with_the_slow_twin(seed: int, capacity: int, draws: list[tuple[int, int]]) -> None:
    """It agrees for pairs of a position and a symmetry, also where the rings wrap around, and for games with
    plies that are no targets."""
    rng, window = np.random.default_rng(seed), Window(GAME, capacity, 9.0)
    records = [random_game(GAME, rng, simulations=20, targets=0.7) for _ in range(9)]
    for record in records:
        window.add(record)
    chosen, numbers, symmetries = drawn(window, records, draws)
    found = Replies.of(window, numbers, symmetries, SAMPLER.maps)
    for row, (record, ply, symmetry) in enumerate(chosen):
        own = found.rows == row
        entries = dict(zip(found.actions[own].tolist(), found.shares[own].tolist(), strict=True))
        assert entries == pytest.approx(naive_reply(record, ply, MAPS[symmetry].tolist()))
    assert (np.diff(found.rows) >= 0).all()
    assert found.samples == len(set(found.rows.tolist()))


def test_the_loss_is_the_cross_entropy_over_all_actions() -> None:
    logits = torch.randn(3, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows, actions, shares = torch.tensor([0, 0, 2]), torch.tensor([1, 5, 8]), torch.tensor([0.25, 0.75, 1.0])
    loss = reply_loss(logits, Replies(rows, actions, shares, 2))
    log_policy = logits.log_softmax(1)
    wanted = -(0.25 * log_policy[0, 1] + 0.75 * log_policy[0, 5] + log_policy[2, 8]) / 2
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
