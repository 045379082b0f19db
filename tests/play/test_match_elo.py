"""Elo and SPRT arithmetic: known numbers, plain twins, and simulations with a fixed seed."""

import math

import numpy as np
import pytest

from azselfplay.play.elo import BOUND, Sprt, elo_of_score, estimate, most_likely, pair_counts, score_of_elo

SCORES = np.array([0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(
    ("score", "elo"), [(0.5, 0.0), (0.75, 190.8485), (0.25, -190.8485), (5 / 9, 38.764), (0.64, 99.951)]
)
def test_elo_of_a_score_is_the_published_one_and_back(score: float, elo: float) -> None:
    assert elo_of_score(score) == pytest.approx(elo, abs=1e-3)
    assert score_of_elo(elo) == pytest.approx(score, abs=1e-5)


def test_pairs_are_counted_by_their_points() -> None:
    assert pair_counts([-1, -1, 0, -1, 1, -1, 0, 0, 1, 0, 1, 1]) == (1, 1, 2, 1, 1)
    with pytest.raises(ValueError, match="into pairs"):
        pair_counts([1])


def test_interval_agrees_with_a_bootstrap_over_pairs() -> None:
    counts = [4, 11, 30, 19, 9]
    sample = np.repeat(SCORES, counts)
    rng = np.random.default_rng(1)
    means = rng.choice(sample, size=(20_000, len(sample))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    found = estimate(counts)
    assert found.score == pytest.approx(sample.mean())
    assert found.score_low == pytest.approx(low, abs=0.004)
    assert found.score_high == pytest.approx(high, abs=0.004)
    superior = (means > 0.5).mean() + (means == 0.5).mean() / 2
    assert found.los == pytest.approx(superior, abs=0.005)


def test_pairing_narrows_the_interval_when_the_opening_decides() -> None:
    fixed = estimate([0, 0, 100, 1, 0])
    loose = estimate([25, 0, 50, 1, 25])
    assert fixed.elo_high - fixed.elo_low < (loose.elo_high - loose.elo_low) / 4


@pytest.mark.parametrize("counts", [(0, 0, 0, 0, 20), (20, 0, 0, 0, 0), (0, 0, 20, 0, 0), (0, 0, 1, 0, 0)])
def test_a_sample_without_spread_still_has_an_interval_that_holds_its_score(counts: tuple[int, ...]) -> None:
    found = estimate(counts)
    assert found.score_low <= found.score <= found.score_high
    assert found.score_high - found.score_low > 0.05
    assert math.isinf(found.elo) == (found.score in (0.0, 1.0))
    assert 0 <= found.los <= 1


def test_95_percent_intervals_hold_the_truth_in_95_percent_of_matches() -> None:
    shares = np.array([0.08, 0.2, 0.37, 0.25, 0.10])
    truth = float(shares @ SCORES)
    matches = np.random.default_rng(2).multinomial(150, shares, size=2000)
    held = np.mean([e.score_low <= truth <= e.score_high for e in (estimate(m.tolist()) for m in matches)])
    assert 0.935 <= held <= 0.965


def test_sprt_bounds_are_fishtests() -> None:
    assert pytest.approx(2.9444, abs=1e-4) == BOUND
    for elo0, elo1 in ((5, 5), (10, 0), (0, 1e6), (0, math.inf)):
        with pytest.raises(ValueError):
            Sprt(elo0, elo1)


@pytest.mark.parametrize(("elo", "wrong"), [(0.0, "H1"), (40.0, "H0")])
def test_sprt_errs_no_more_often_than_it_may(elo: float, wrong: str) -> None:
    rng, sprt = np.random.default_rng(4), Sprt(0, 40)
    base = [0.08, 0.22, 0.4, 0.22, 0.08]
    shares = most_likely(base, score_of_elo(elo))
    verdicts = []
    for _ in range(150):
        counts, verdict = np.zeros(5, int), ""
        while not verdict:
            counts += rng.multinomial(5, shares)
            verdict = sprt.verdict(counts.tolist())
        verdicts.append(verdict)
    assert verdicts.count(wrong) / len(verdicts) <= 0.09
