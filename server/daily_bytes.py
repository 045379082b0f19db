"""How many bytes of games each key may have stored per day, and how many it has. Pure, except for its file.

Days are in UTC. Games that the trainer has not answered yet count as stored, so no key exceeds its limit,
or one game if that is larger. The file is written and synced every `SAVE_SECONDS`. A server that is
killed, or loses its power, forgets what was stored since, so a key may have that much more stored that
day.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protocol.errors import Code
from runtime.pacing import MEGABYTE
from runtime.reading import read_json
from runtime.runs import write_atomically

log = logging.getLogger(__name__)

DAY = 86_400
"""Seconds in a day."""
ASK_AGAIN = 3600.0
"""Most seconds until a client asks again, because the limit may have been raised meanwhile."""
SAVE_SECONDS = 5.0
DAILY_FILE = "stored_today.json"
"""File name in the run's folder."""


class DailyBytes:
    """Bytes stored today, by the name of the key. Times are seconds since 1970."""

    def __init__(self, most: float = 0.0) -> None:
        """`most`: bytes per key and day; 0: no limit. They are counted in any case."""
        self._most = most
        self._stored: Counter[str] = Counter()
        self._day = 0

    def restore(self, day: int, stored: Mapping[str, int]) -> None:
        """Restore the counts that `as_dict` returned."""
        self._day, self._stored = day, Counter(stored)

    def as_dict(self) -> dict[str, Any]:
        return {"day": self._day, "stored": dict(self._stored)}

    def today(self, now: float) -> dict[str, int]:
        """Return the bytes that each key has had stored today."""
        self._look(now)
        return dict(self._stored)

    def stored(self, key: str, size: int, now: float) -> None:
        """Count a stored game of `key`; "" stands for a player without a key."""
        if key:
            self._look(now)
            self._stored[key] += size

    def refusal(self, key: str, size: int, in_flight: int, now: float) -> tuple[str, float] | None:
        """Return why a game of `size` bytes has to wait, and for how many seconds; None if it may be sent.

        in_flight: bytes of other games of `key` that may still be stored. The first game of a day is accepted
        however long it is.
        """
        if not key or not self._most:
            return None
        self._look(now)
        used = self._stored[key] + in_flight
        if not used or used + size <= self._most:
            return None
        allowed = f"{self._most / MEGABYTE:g} MiB of games a day"
        reason = f"{Code.OVER_QUOTA}: the key {key!r} has had its {allowed}; there is room again at 00:00 UTC"
        return reason, min(DAY - now % DAY, ASK_AGAIN)

    def _look(self, now: float) -> None:
        """Start a new day if it has begun. A clock that is set back starts none. If the clock had been days
        ahead, the day follows it back and keeps its counts."""
        day = int(now // DAY)
        if day > self._day:
            self._stored.clear()
        if day > self._day or day < self._day - 1:
            self._day = day


class DailyFile:
    """Keeps today's bytes across a restart. Call `write(due(now))` now and then."""

    def __init__(self, path: Path, daily: DailyBytes) -> None:
        self._path, self._daily = path, daily
        self._saved: object = {}
        """The counts by key that are in the file."""
        self._due = 0.0
        self._is_failing = False
        self._writing = threading.Lock()

    def load(self) -> None:
        """Continue from the counts in the file. If it cannot be read, the server starts anyway."""
        try:
            found = read_json(self._path)
            stored = {str(key): int(size) for key, size in found["stored"].items()}
            self._daily.restore(int(found["day"]), stored)
            self._saved = stored
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            log.warning("%s cannot be read (%s): today's bytes of each key begin at 0", self._path, error)

    def due(self, now: float, *, at_once: bool = False) -> dict[str, Any] | None:
        """What to write now, if something has changed: at most once in `SAVE_SECONDS`, unless `at_once`."""
        told = self._daily.as_dict()
        if told["stored"] == self._saved or (now < self._due and not at_once):
            return None
        self._due = now + SAVE_SECONDS
        return told

    def write(self, told: dict[str, Any] | None) -> None:
        """So that it lasts through a power loss. May take a while, in any thread."""
        if told is None:
            return
        with self._writing:
            try:
                write_atomically(self._path, json.dumps(told).encode())
            except OSError as error:
                if not self._is_failing:
                    log.warning("%s cannot be written: %s", self._path, error.strerror)
                self._is_failing = True
                return
            self._saved, self._is_failing = told["stored"], False
