"""The targets of the ownership head are the owners of the points on the last board of the game."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from naive_sampler import drawn
from naive_verify import positions_of

from azselfplay.games import get_game
from azselfplay.games.spec import PLY_CAP, RESIGNATION
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer.loss import Owners, ownership_loss
from trainer.sampler import Sampler
from trainer.window import Window

GAME = get_game("go_3x3")
SAMPLER = Sampler(GAME, 1, symmetric=True)


def naive_owners(record: GameRecord, ply: int, symmetry: int) -> list[int]:
    """Return the owners of the last board for the side to move, found by a flood from each empty point."""
    states = positions_of(GAME, record)
    rows = GAME.notation.state_to_text(states[-1]).split()[0].split("/")
    # The text begins with the highest row, the cells with the lowest.
    stones = "".join(reversed(rows)).replace(",", ".")
    owners = []
    for cell in range(9):
        seen, open_, reached = {cell}, [cell], set()
        while open_:
            at = open_.pop()
            if stones[at] != ".":
                reached.add(stones[at])
                continue
            beside = [at + step for step in (-3, 3) if 0 <= at + step < 9]
            beside += [at + step for step in (-1, 1) if 0 <= at % 3 + step < 3]
            open_ += [one for one in beside if one not in seen]
            seen.update(beside)
        owners.append({"x": 1, "o": -1}.get("".join(reached), 0))
    sign = 1 if GAME.rules.side_to_move(states[ply]) == 0 else -1
    moved = [0] * 9
    for cell, owner in enumerate(owners):
        moved[int(SAMPLER.maps.cells[symmetry, cell])] = sign * owner
    return moved


@given(
    seed=st.integers(0, 1000),
    draws=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 7)), min_size=1, max_size=20),
)
def test_agrees_with_the_slow_twin(seed: int, draws: list[tuple[int, int]]) -> None:
    """It agrees for pairs of a position and a symmetry, also where the rings wrap around; games that the
    length limit or a resignation ended have no owners to learn."""
    rng, window = np.random.default_rng(seed), Window(GAME, 130, 10.0, with_owners=True)
    reasons = ["more_points", PLY_CAP, RESIGNATION]
    ends = map(str, rng.choice(reasons, 6))
    records = [dataclasses.replace(random_game(GAME, rng, simulations=4), reason=end) for end in ends]
    for record in records:
        window.add(record)
    chosen, numbers, symmetries = drawn(window, records, draws)
    found = Owners.of(window, numbers, symmetries, SAMPLER.maps)
    for row, (record, ply, symmetry) in enumerate(chosen):
        assert found.known[row] == (record.reason == "more_points")
        assert found.owners[row].tolist() == naive_owners(record, ply, symmetry)
    assert found.samples == sum(record.reason == "more_points" for record, _, _ in chosen)


def test_the_loss_is_the_cross_entropy_of_each_point() -> None:
    """Sample 1 has no known owners, and sample 2 is beside a game: neither counts. Nobody's point is even."""
    logits = torch.tensor([[1.0, -2.0, 0.5], [9.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    owners, known = torch.tensor([[1, -1, 0], [-1, -1, -1]], dtype=torch.int8), torch.tensor([1, 0])
    each = [math.log1p(math.exp(-1)), math.log1p(math.exp(-2)), math.log1p(math.exp(-0.5)) + 0.25]
    loss = ownership_loss(logits, Owners(owners, known.to(torch.uint8), 1))
    assert loss.item() == pytest.approx(sum(each) / 3, rel=1e-5)


def test_parts_of_a_batch_have_the_owners_of_their_samples() -> None:
    whole = Owners(np.arange(10).reshape(5, 2), np.array([1, 1, 0, 1, 1]), 4)
    parts = [whole.part(0, 2), whole.part(1, 2)]
    assert [part.owners[:, 0].tolist() for part in parts] == [[0, 4, 8], [2, 6]]
    assert whole.part(1, 2).samples == 4
