"""Slow obvious twin of `search.result.search_stats`: dictionaries and sums."""

import math


def naive_kl(visits: dict[int, int], priors: dict[int, float]) -> float:
    """Return KL(shares of the visits || priors) in nats; priors count as at least 1e-8."""
    all_visits, all_priors = sum(visits.values()), sum(priors.values())
    kl = 0.0
    for action, count in visits.items():
        share = count / all_visits
        kl += share * math.log(share / max(1e-8, priors[action] / all_priors))
    return max(0.0, kl)


def naive_differs(visits: dict[int, int], priors: dict[int, float]) -> bool:
    """Return whether some action had a larger prior than the most visited one (ties go to the lowest
    index)."""
    most = min(action for action, count in visits.items() if count == max(visits.values()))
    return any(prior > priors[most] for prior in priors.values())
