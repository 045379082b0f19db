"""The threshold of resignation: the highest that is safe, judged by games that were played on."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games.stubs import Signs
from protocol.records import PLAYED_ON, GameRecord
from trainer.resign_threshold import ResignThreshold, trial_of


def record(
    values: npt.ArrayLike, outcome: int, *, flag: int = PLAYED_ON, searched: list[int] | None = None
) -> GameRecord:
    """Return a game in which only root values and outcome matter."""
    root_values = np.asarray(values, np.float32)
    plies = len(root_values)
    visited = np.asarray(searched, np.uint16) if searched else np.ones(plies, np.uint16)
    nothing = np.zeros(plies, np.uint16)
    return GameRecord(
        bytes(16), "chess", "", 512, 8, nothing, visited, nothing, nothing, root_values,
        np.full(plies, flag | 1, np.uint8), np.zeros(plies, np.uint32), outcome, "checkmate",
    )  # fmt: skip


def in_turn(start: str, actions: npt.NDArray[np.uint16]) -> Signs:
    """Return the signs for players who alternate; the first one begins."""
    return np.where(np.arange(len(actions)) % 2, -1, 1).astype(np.int8)


def naive_trial(game: GameRecord, movers: list[int], threshold: float) -> tuple[bool, bool]:
    """Check ply by ply whether the game is resigned, and whether that was a mistake."""
    for ply in range(game.plies - 1):
        if game.visited[ply] and float(game.root_values[ply]) <= threshold:
            return True, movers[ply] * game.outcome >= 0
    return False, False


@given(
    values=st.lists(st.sampled_from([-1.0, -0.95, -0.9, -0.5, 0.0, 0.9]), min_size=1, max_size=8),
    searched=st.lists(st.integers(0, 1), min_size=8, max_size=8),
    outcome=st.sampled_from([-1, 0, 1]),
    movers=st.lists(st.sampled_from([-1, 1]), min_size=8, max_size=8),
)
def test_a_trial_agrees_with_its_twin(
    values: list[float], searched: list[int], outcome: int, movers: list[int]
) -> None:
    """For every threshold and any order of movers, it says who resigned first and how that side ended."""
    game = record(values, outcome, searched=searched[: len(values)])
    thresholds = np.array([-0.4, -0.9, -0.93, -0.95, -1.0], np.float32).astype(np.float64)
    resigned, mistaken = trial_of(game, np.array(movers[: len(values)], np.int8), thresholds).tolist()
    found = list(zip(resigned, mistaken, strict=True))
    assert found == [naive_trial(game, movers, threshold) for threshold in thresholds]


LOST, SAVED = record([0.0, 0.2, -0.9, 0.9], -1), record([0.0, 0.2, -0.9, 0.9], 0)
"""The first player's value is very low at ply 2; then it loses, or draws."""


def test_the_first_threshold_comes_after_twenty_games_without_a_mistake() -> None:
    """A limit of 5 % cannot be established earlier; then it is the highest value at which those games would
    have ended."""
    threshold = ResignThreshold(-0.5, 0.05, in_turn)
    found = []
    for _ in range(20):
        threshold.on_game(LOST)
        found.append(threshold.threshold)
    assert found == [0.0] * 19 + [-0.5]
    assert threshold.as_dict() == {"threshold": -0.5, "played_on": 20, "would_resign": 20, "mistakes": 0.0}


def test_mistakes_lower_the_threshold_below_them() -> None:
    """Games that were saved from -0.9 exclude that value, but not lower ones."""
    threshold = ResignThreshold(-0.5, 0.05, in_turn)
    hopeless = record([0.0, 0.2, -0.99, 0.9], -1)
    for game in [hopeless] * 40 + [SAVED] * 10:
        threshold.on_game(game)
    assert -0.99 <= threshold.threshold <= -0.9
    assert threshold.as_dict()["mistakes"] == 0.0


def test_old_games_no_longer_count() -> None:
    """The low values of an untrained network say nothing about a better one, and the other way round."""
    threshold = ResignThreshold(-0.5, 0.05, in_turn, games=30)
    for _ in range(30):
        threshold.on_game(SAVED)
    assert threshold.threshold == 0.0
    for _ in range(30):
        threshold.on_game(LOST)
    assert threshold.threshold == -0.5
    for _ in range(5):
        threshold.on_game(SAVED)
    assert threshold.threshold == 0.0


def test_only_games_that_were_played_on_count() -> None:
    """A game that could have been resigned ended at once: it cannot show whether that was a mistake."""
    threshold = ResignThreshold(-0.5, 0.05, in_turn)
    for _ in range(100):
        threshold.on_game(record([0.0, 0.2, -0.9, 0.9], -1, flag=0))
    assert (threshold.threshold, threshold.as_dict()["played_on"]) == (0.0, 0)


def test_a_threshold_that_stays_is_measured_too() -> None:
    """With a limit of 0 the setting is the threshold; the share of mistakes is still shown."""
    threshold = ResignThreshold(-0.8, 0.0, in_turn)
    assert threshold.threshold == -0.8
    for game in (LOST, SAVED, SAVED, LOST):
        threshold.on_game(game)
        assert threshold.threshold == -0.8
    assert threshold.as_dict()["mistakes"] == 0.5


def test_nobody_resigns_where_the_setting_is_off() -> None:
    """No game changes that."""
    threshold = ResignThreshold(0.0, 0.05, in_turn)
    for _ in range(50):
        threshold.on_game(LOST)
    assert (threshold.is_on, threshold.threshold, threshold.as_dict()) == (False, 0.0, {})


def walk(rng: np.random.Generator, sureness: float) -> tuple[npt.NDArray[np.float32], int]:
    """Return root values of a game and its outcome: a fair random walk of the first player's true chances.

    At +1 or -1 the game is decided, and it ends 30 plies later; otherwise it is drawn after 200. The network
    sees the chances through noise, and turns them into values with more or less `sureness`.
    """
    chances = np.cumsum(rng.normal(0, 0.09, 200))
    ends = np.flatnonzero(np.abs(chances) >= 1)
    decided = int(ends[0]) if len(ends) else 200
    outcome = int(np.sign(chances[ends[0]])) if len(ends) else 0
    chances[decided:] = outcome
    plies = min(decided + 30, 200)
    seen = np.tanh(sureness * chances[:plies] + rng.normal(0, 0.1, plies))
    return (seen * np.where(np.arange(plies) % 2, -1, 1)).astype(np.float32), outcome


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mistakes_stay_below_the_limit_while_the_network_changes(seed: int) -> None:
    """In a simulated run, fewer than 5 % of those who resigned would not have lost, and plies are saved.

    The network becomes ever more certain, so that the threshold has to follow.
    """
    rng = np.random.default_rng(seed)
    threshold = ResignThreshold(-0.5, 0.05, in_turn)
    resigned = mistaken = plies = saved = 0
    levels = []
    for number in range(6000):
        values, outcome = walk(rng, float(np.interp(number, [2000, 4000], [1.2, 2.2])))
        plies += len(values)
        levels.append(threshold.threshold)
        if rng.random() < 0.1:
            threshold.on_game(record(values, outcome))
            continue
        level = threshold.threshold if threshold.threshold < 0 else -math.inf
        hopeless = np.flatnonzero(values[:-1] <= level)
        if len(hopeless):
            ply = int(hopeless[0])
            resigned += 1
            mistaken += (1 if ply % 2 == 0 else -1) * outcome >= 0
            saved += len(values) - ply - 1
    assert resigned > 1000
    assert mistaken / resigned < 0.05
    assert saved / plies > 0.08
    early, late = ([level for level in part if level < 0] for part in (levels[:2000], levels[4000:]))
    assert np.median(late) < np.median(early) < -0.5
