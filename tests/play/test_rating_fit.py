"""Ratings: the fit recovers the true ratings, with honest intervals, in any order of the games."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from azselfplay.play.bradley_terry import Score, chain_of, fit, gain, next_pair, unconnected
from azselfplay.play.elo import score_of_elo

TRUE = {"random": 0.0, "a": 150.0, "b": 300.0, "c": 350.0, "d": 600.0, "e": -80.0}


def played(
    rng: np.random.Generator, games: int, draws: float = 0.0, truth: dict[str, float] = TRUE
) -> list[Score]:
    """Let every pair play `games` games; a share `draws` of those that could be drawn is drawn."""
    scores = []
    for first, second in combinations(truth, 2):
        share = score_of_elo(truth[first] - truth[second])
        drawn = 2 * draws * min(share, 1 - share)
        win, draw, loss = rng.multinomial(games, [share - drawn / 2, drawn, 1 - share - drawn / 2])
        scores.append(Score(first, second, int(win), int(draw), int(loss)))
    return scores


@pytest.mark.parametrize("draws", [0.0, 0.6])
def test_intervals_cover_the_truth_in_about_95_of_100_cases(draws: float) -> None:
    """200 tournaments of 30 games a pair; with draws the intervals are wider than needed."""
    rng, covered = np.random.default_rng(2), []
    for _ in range(200):
        found = fit(played(rng, 30, draws), {"random": 0.0}).ratings
        covered += [
            abs(found[name].elo - TRUE[name]) <= found[name].margin for name in TRUE if name != "random"
        ]
    low, high = (0.93, 0.97) if draws == 0 else (0.95, 1.0)
    assert low <= np.mean(covered) <= high


def test_newton_finds_what_plain_gradient_ascent_finds() -> None:
    """The twin writes prior and gradient out pair by pair, and makes many small steps."""
    scores, anchors = played(np.random.default_rng(3), 15), {"random": 0.0, "c": 330.0}
    total = {name: sum(s.games for s in scores if name in (s.first, s.second)) for name in TRUE}
    elo = {name: anchors.get(name, 0.0) for name in TRUE}
    for _ in range(3000):
        slope = dict.fromkeys(TRUE, 0.0)
        for s in scores:
            prior = sum(0.5 * s.games / total[name] for name in (s.first, s.second) if name not in anchors)
            surplus = s.points + prior / 2 - (s.games + prior) * score_of_elo(elo[s.first] - elo[s.second])
            slope[s.first] += surplus
            slope[s.second] -= surplus
        elo = {name: elo[name] + (0 if name in anchors else 8.0 * slope[name]) for name in TRUE}
    found = fit(scores, anchors).ratings
    assert {name: found[name].elo for name in TRUE} == pytest.approx(elo, abs=1e-3)


def test_anchors_stay_where_they_are_and_have_no_interval() -> None:
    found = fit(played(np.random.default_rng(4), 10), {"a": 1000.0, "d": 1500.0}).ratings
    assert [(found[name].elo, found[name].margin) for name in "ad"] == [(1000.0, 0.0), (1500.0, 0.0)]
    assert found["b"].margin > 0


def test_neither_the_order_of_games_nor_of_names_changes_anything() -> None:
    scores = played(np.random.default_rng(5), 12, 0.4)
    turned = [Score(s.second, s.first, s.losses, s.draws, s.wins) for s in reversed(scores)]
    found, again = (fit(one, {"random": 0.0}).ratings for one in (scores, turned))
    for name, rating in found.items():
        assert (again[name].games, again[name].points) == (rating.games, rating.points)
        assert (again[name].elo, again[name].margin) == pytest.approx((rating.elo, rating.margin))


def test_players_without_a_chain_of_games_to_an_anchor_have_no_rating() -> None:
    scores = [Score("a", "random", 3), Score("x", "y", 1, 1, 1), Score("z", "a")]
    assert fit(scores, {"random": 0.0}).ratings.keys() == {"a", "random"}
    assert unconnected(scores, {"random"}, ["z", "a"]) == {"x", "y", "z"}


def test_the_chain_is_played_first_then_players_of_nearby_ratings() -> None:
    names = ["random", "greedy", "v0", "v1", "v2"]
    chain = chain_of(["random", "greedy"], ["v0", "v1", "v2"])
    rng, truth = np.random.default_rng(6), dict(zip(names, [0.0, 200.0, 0.0, 400.0, 900.0], strict=True))
    scores: list[Score] = []
    for _ in range(60):
        pair = next_pair(names, chain, scores, {"random": 0.0}, 10)
        assert pair is not None
        first, second = pair
        wins = int(rng.binomial(10, score_of_elo(truth[first] - truth[second])))
        scores.append(Score(first, second, wins, 0, 10 - wins))
    assert [(s.first, s.second) for s in scores[:4]] == chain
    games = Counter((s.first, s.second) for s in scores)
    assert games["random", "v2"] + games["v0", "v2"] <= 2
    assert games["v1", "v2"] >= 10


def test_gain_is_what_the_sum_of_variances_loses() -> None:
    """The twin is a second fit with ten more games of exactly the expected score; they agree up to the
    prior's share."""
    scores = [Score("a", "random", 600, 0, 400), Score("b", "a", 550, 0, 450)]
    before = fit(scores, {"random": 0.0})
    share = score_of_elo(before.ratings["b"].elo)
    more = Score("b", "random", round(1000 * share), 0, 1000 - round(1000 * share))
    after = fit([*scores, more], {"random": 0.0})
    lost = float(np.trace(before.covariance) - np.trace(after.covariance))
    assert gain(before, "b", "random", 1000) == pytest.approx(lost, rel=0.01)
