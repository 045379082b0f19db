"""What a process of a pool does with a seed: a module of its own, so that a new process can import it."""

from __future__ import annotations

from simulation import Outcome, Plan, simulate
from virtual_net import Weather

GAMES = 500
"""Of one lossy run."""
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
    """The usual run."""
    return simulate(seed)


def lossy(seed: int) -> Outcome:
    """Many games; 5 % of all messages are lost, and 5 % come twice."""
    return simulate(seed, LOSSY)
