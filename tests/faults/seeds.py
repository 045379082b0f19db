"""The work of a pool's process for one seed. It is a module of its own, so that a new process can import
it."""

from __future__ import annotations

from simulation import Outcome, Plan, simulate
from virtual_net import Weather

GAMES = 500
"""Number of games in a lossy run."""
LOSSY = Plan(
    clients=10,
    games=GAMES,
    asks=0,
    seconds=300.0,
    game_seconds=4.0,
    publish_seconds=0.0,
    blows=0,
    weather=Weather(latency=0.2, lost=0.05, repeated=0.05),
)


def with_blows(seed: int) -> Outcome:
    """Run the usual simulation."""
    return simulate(seed)


def lossy(seed: int) -> Outcome:
    """Run many games; 5 % of all messages are lost, and 5 % come twice."""
    return simulate(seed, LOSSY)
