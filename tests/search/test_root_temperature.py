"""The root's priors are flattened before noise is added, most at the start of a game."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from changed_settings import self_play
from hypothesis import given
from hypothesis import strategies as st
from leaf_by_leaf import HashEvaluator

from games import get_game
from protocol.settings import NoiseSettings
from search.forest import Forest
from search.pool import SearchPool
from search.selection.root_temperature import flattened, root_temperature
from search.settings import resolve
from search.tree import SearchTree

GAME = get_game("connect_four")
NO_NOISE = 1e-9
"""Switches on what searches with noise have, without changing the priors visibly."""


def begun(ply: int, *, is_cheap: bool = False, **changes: object) -> tuple[np.ndarray, np.ndarray]:
    """Return the root's priors before and after `begin`, after `ply` plies of a game."""
    settings = resolve(self_play(simulations=20, **changes), GAME)  # type: ignore[arg-type]
    forest = Forest(GAME, settings)

    async def main() -> tuple[np.ndarray, np.ndarray]:
        with SearchTree(forest, np.random.default_rng(1)) as tree:
            tree.reset(GAME.notation.state_from_text(""))
            for column in range(ply):
                tree.advance(column % 7)
            await SearchPool(forest, HashEvaluator()).expand(tree)
            before = tree.edges_of(0)["prior"].copy()
            tree.begin(is_cheap=is_cheap)
            return before, tree.edges_of(0)["prior"].copy()

    return asyncio.run(main())


@pytest.mark.parametrize(("ply", "temperature"), [(0, 1.4), (7, 1.25), (14, 1.175)])
def test_the_temperature_falls_during_the_game(ply: int, temperature: float) -> None:
    """Halfway from 1.4 to 1.1 after seven plies, as the board has seven columns."""
    changes = {"policy_temperature": 1.1, "policy_temperature_early": 1.4, "root_noise": NO_NOISE}
    before, after = begun(ply, **changes)
    wanted = [float(prior) ** (1 / temperature) for prior in before]
    assert after == pytest.approx(np.array(wanted) / sum(wanted), rel=1e-5)


@pytest.mark.parametrize(
    ("is_cheap", "noise"), [(True, NO_NOISE), (False, 0.0)], ids=["cheap", "without noise"]
)
def test_other_searches_keep_their_priors(is_cheap: bool, noise: float) -> None:
    before, after = begun(3, is_cheap=is_cheap, policy_temperature=1.4, root_noise=noise)
    assert after.tolist() == before.tolist()


def test_without_a_temperature_at_the_start_there_is_one_for_the_whole_game() -> None:
    noise = NoiseSettings(policy_temperature=1.2)
    assert [root_temperature(noise, ply, 7) for ply in (0, 5, 50)] == [1.2, 1.2, 1.2]


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9), st.floats(0.1, 10))
def test_flattening_keeps_the_sum_and_the_order(priors: list[float], temperature: float) -> None:
    column = np.array(priors, np.float32)
    found = flattened(column, temperature)
    assert found.sum() == pytest.approx(column.sum(), rel=1e-4, abs=1e-6)
    order = np.argsort(column, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
