"""The window holds the newest games that fit, and samples are made of its contents."""

from dataclasses import replace

import numpy as np
import pytest
from coded import GAME as CODED
from hypothesis import given
from hypothesis import strategies as st
from naive_sampler import (
    NaiveWindow,
    naive_class,
    naive_end,
    naive_policy,
    naive_symmetry,
    naive_words,
    policy_of,
)
from unsearched import fully_searched, without_search, without_targets

from azselfplay.games import get_game
from azselfplay.games.spec import RESIGNATION, Game
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer import sampler
from trainer.sampler import Sampler
from trainer.sampler_kernel import OF_ENTRIES, OF_ROWS, Samples
from trainer.window import Window

TIC_TAC_TOE, CONNECT_FOUR, CHESS = (get_game(name) for name in ("tic_tac_toe", "connect_four", "chess"))
OTHERS = map(get_game, ("dots_and_boxes", "go_5x5", "dots_and_boxes_9x8"))
TURNED = (TIC_TAC_TOE, CONNECT_FOUR, CODED, *OTHERS)
"""Games with symmetries. `CODED` has codes and scalars of each position, Go a pass; the last has two words a
plane."""
ALL = (*TURNED, CHESS)
SAMPLERS = {
    (game.name, symmetric): Sampler(game, game.history, symmetric=symmetric)
    for game in ALL
    for symmetric in (False, True)
}


def random_games(game: Game, seed: int, count: int) -> list[GameRecord]:
    rng = np.random.default_rng(seed)
    return [random_game(game, rng, simulations=30, targets=0.7) for _ in range(count)]


def everything(game: Game, window: Window, symmetry: int = 0) -> Samples:
    numbers = np.arange(window.first_position, window.first_position + window.positions)
    return SAMPLERS[game.name, symmetry > 0].make(window, numbers, np.full(len(numbers), symmetry))


def positions_in(samples: Samples) -> set[bytes]:
    """Return which positions were drawn, however often."""
    return {features.tobytes() for features in samples.packed_features}


@given(
    seed=st.integers(0, 1000),
    count=st.integers(1, 25),
    positions=st.integers(9, 120),
    visited=st.floats(1.5, 9.0),
    plies_per_game=st.floats(1.0, 9.0),
)
def test_oldest_games_go_first_and_whole(
    seed: int, count: int, positions: int, visited: float, plies_per_game: float
) -> None:
    window = Window(TIC_TAC_TOE, positions, max(visited, 40 / positions), plies_per_game)
    rings = window.rings
    naive = NaiveWindow(positions, len(rings.visit_count), len(rings.game_first))
    for record in random_games(TIC_TAC_TOE, seed, count):
        if len(record.visits) > len(rings.visit_count):
            continue
        window.add(record)
        naive.add(record)
    assert window.games == len(naive.records)
    samples = everything(TIC_TAC_TOE, window)
    assert len(samples.classes) == sum(record.plies for record in naive.records)
    for row in range(len(samples.classes)):
        record, ply = naive.position(row)
        assert policy_of(samples, row) == pytest.approx(naive_policy(TIC_TAC_TOE, record, ply))


@pytest.mark.parametrize("game", ALL, ids=lambda game: game.name)
def test_samples_agree_with_the_slow_twin(game: Game) -> None:
    room = max(200, game.max_plies + 20)
    window = Window(game, room, game.max_legal)
    naive = NaiveWindow(room, 10**9, 10**9)
    capped = [random_game(game, np.random.default_rng(2), max_plies=4) for _ in range(3)]
    others = [without_search(random_games(game, 3, 1)[0], 2), replace(capped[0], reason=RESIGNATION)]
    for record in [*random_games(game, 1, 12), *capped, *others]:
        window.add(record)
        naive.add(record)
    samples = everything(game, window)
    for row in range(window.positions):
        record, ply = naive.position(row)
        words = naive_words(game, record, ply, game.history)
        np.testing.assert_array_equal(samples.packed_features[row], words)
        assert policy_of(samples, row) == pytest.approx(naive_policy(game, record, ply))
        assert samples.classes[row] == naive_class(game, record, ply)
        assert samples.root_values[row] == record.root_values[ply]
        assert samples.plies_left[row] == record.plies - ply
        end, value = naive_end(record)
        assert (samples.ends[row], samples.end_values[row]) == (end, np.float32(value))


@pytest.mark.parametrize("count", [5, 9, 100])
def test_several_threads_write_the_samples_of_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds where their parts differ in size and in the number of entries, too."""
    monkeypatch.setattr(sampler, "LEAST_PART", 3)
    monkeypatch.setattr(sampler, "WINS_A_PART", 3)
    window = Window(CONNECT_FOUR, 400)
    for record in random_games(CONNECT_FOUR, 1, 12):
        window.add(record)
    one, three = (
        Sampler(CONNECT_FOUR, 1, threads=threads, symmetric=True).sample(
            window, np.random.default_rng(2), count, wins_share=0.2
        )
        for threads in (1, 3)
    )
    assert one.policy_only is not None
    assert one.policy_only.sum() == round(count / 5)
    for name in (*OF_ROWS, *OF_ENTRIES, "policy_only"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name), name)


@pytest.mark.parametrize("game", TURNED, ids=lambda game: game.name)
def test_symmetric_samples_turn_board_and_policy_alike(game: Game) -> None:
    window = Window(game, 200, game.max_legal)
    record = random_games(game, 2, 1)[0]
    window.add(record)
    for index, symmetry in enumerate(game.symmetries, start=1):
        samples = everything(game, window, index)
        for row in range(record.plies):
            packed_features = naive_words(game, record, row, game.history)
            turned = naive_symmetry(game, packed_features, symmetry, game.history)
            np.testing.assert_array_equal(samples.packed_features[row], turned)
            shares = {int(symmetry.actions[a]): p for a, p in naive_policy(game, record, row).items()}
            assert policy_of(samples, row) == pytest.approx(shares)
            assert samples.classes[row] == naive_class(game, record, row)


@pytest.mark.parametrize("newest", [1, 30, 10**6])
def test_only_the_newest_positions_are_drawn(newest: int) -> None:
    window = Window(CONNECT_FOUR, 100)
    for record in random_games(CONNECT_FOUR, 6, 20):
        window.add(fully_searched(record))
    sampler, whole = SAMPLERS["connect_four", False], everything(CONNECT_FOUR, window)
    drawn = sampler.sample(window, np.random.default_rng(8), 2000, newest)
    last = sampler.spread_over_last(window, newest, 100)
    count = min(newest, window.positions)
    np.testing.assert_array_equal(last.packed_features, whole.packed_features[-count:])
    assert positions_in(drawn) == positions_in(last)
    some = sampler.spread_over_last(window, newest, 7)
    spread = [i * count // min(7, count) for i in range(min(7, count))]
    np.testing.assert_array_equal(some.packed_features, last.packed_features[spread])


@pytest.mark.parametrize(("unsearched", "every", "surprise_share"), [(3, 1, 0.0), (0, 4, 0.0), (0, 4, 0.5)])
def test_only_policy_targets_are_drawn_and_counted(
    unsearched: int, every: int, surprise_share: float
) -> None:
    """The others are plies of a random opening, or plies that a program searched without making them
    targets."""
    window, rng = Window(CONNECT_FOUR, 100, with_surprise=True), np.random.default_rng(5)
    for record in random_games(CONNECT_FOUR, 6, 20):
        kl = rng.random(record.plies).astype(np.float16)
        played = without_targets(record, np.arange(record.plies) % every > 0)
        window.add(replace(without_search(played, unsearched), prior_kl=kl))
    numbers = np.arange(window.first_position, window.next_position)
    plies = numbers - window.rings.game_first[window.rings.game[numbers % window.capacity]]
    (targets,) = np.nonzero((plies >= unsearched) & (plies % every == 0))
    assert window.targets == len(targets) > 0
    sampler, whole = SAMPLERS["connect_four", False], everything(CONNECT_FOUR, window)
    drawn = sampler.sample(window, np.random.default_rng(8), 2000, surprise_share=surprise_share)
    last = sampler.spread_over_last(window, 10**6, 10**6)
    np.testing.assert_array_equal(last.packed_features, whole.packed_features[targets])
    assert positions_in(drawn) == positions_in(last)


def test_a_single_target_among_many_positions_is_found() -> None:
    window, sampler = Window(CONNECT_FOUR, 5000), SAMPLERS["connect_four", False]
    games = random_games(CONNECT_FOUR, 6, 200)
    window.add(without_targets(games[0], np.arange(games[0].plies) != 3))
    for record in games[1:]:
        window.add(without_search(record, 42))
    only = sampler.make(window, np.array([3]), np.zeros(1, np.int64))
    for newest in (None, 50):
        drawn = sampler.sample(window, np.random.default_rng(8), 20, newest)
        assert positions_in(drawn) == positions_in(only)
    empty = Window(CONNECT_FOUR, 100)
    empty.add(without_search(games[0], 42))
    with pytest.raises(ValueError, match="no position"):
        sampler.sample(empty, np.random.default_rng(8), 5)


def test_the_window_knows_the_results_of_its_positions() -> None:
    """The counts follow as games come and go."""
    window, naive = Window(CONNECT_FOUR, 100), NaiveWindow(100, 10**9, 10**9)
    assert window.outcome_shares == {1: 0, 0: 0, -1: 0}
    for record in random_games(CONNECT_FOUR, 6, 20):
        window.add(record)
        naive.add(record)
        for outcome, share in window.outcome_shares.items():
            plies = sum(r.plies for r in naive.records if r.outcome == outcome)
            assert share == plies / window.positions


def test_each_game_keeps_its_own_start_when_the_window_goes_round() -> None:
    window, rng = Window(CHESS, 60, CHESS.max_legal), np.random.default_rng(0)
    naive = NaiveWindow(60, 10**9, len(window.rings.game_first))
    for number in range(200):
        start = "" if number % 3 == 0 else f"8/8/8/8/5k2/8/8/KQ5R w - - 0 {number + 1}"
        record = random_game(CHESS, rng, simulations=8, max_plies=int(rng.integers(3, 9)), start=start)
        window.add(record)
        naive.add(record)
    expected = [naive_words(CHESS, *naive.position(row), CHESS.history) for row in range(window.positions)]
    np.testing.assert_array_equal(everything(CHESS, window).packed_features, expected)


def test_game_larger_than_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window\.positions"):
        Window(TIC_TAC_TOE, 3).add(random_games(TIC_TAC_TOE, 4, 1)[0])
