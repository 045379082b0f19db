"""Games an hour over the last minutes, from the count of games at different times. Pure."""

from __future__ import annotations

from collections import deque

SECONDS = 300.0
"""Length of the stretch that the rate is taken over."""
APART = 5.0
"""Least seconds between two counts that are kept."""


class GamesRate:
    """Begins with `games` at the time `now`, in seconds of any clock."""

    def __init__(self, games: int, now: float) -> None:
        self._seen = deque([(now, games)])

    def note(self, games: int, now: float) -> None:
        """There are `games` in all now. Time before the first of them does not count."""
        if games == self._seen[-1][1] and len(self._seen) == 1:
            self._seen[0] = (now, games)
        if now - self._seen[-1][0] >= APART:
            self._seen.append((now, games))
        while len(self._seen) > 1 and now - self._seen[1][0] >= SECONDS:
            self._seen.popleft()

    def per_hour(self, games: int, now: float) -> float:
        """Return the rate, now that there are `games` in all."""
        since, before = self._seen[0]
        return 3600 * (games - before) / max(now - since, 1.0)
