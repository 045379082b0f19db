"""How many bytes of games each key may have stored a day, and how many it has. Pure, but for its file.

Days are those of UTC. What is with the trainer counts as if it were stored, so no key gets more than its
bytes, or one game. The file is written every few seconds; a process that is killed forgets what came since.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from protocol.errors import Code
from runtime.pacing import MEGABYTE

log = logging.getLogger(__name__)

DAY = 86_400
"""Seconds."""
ASK_AGAIN = 3600.0
"""Seconds after which a client asks again at the latest: somebody may have allowed more meanwhile."""
SAVE_SECONDS = 5.0
DAILY_FILE = "stored_today.json"
"""In the run's folder."""


class DailyBytes:
    """Bytes stored today by name of key. Times are seconds since 1970."""

    def __init__(self, most: float = 0.0) -> None:
        """`most`: bytes of a key and day; 0: any number. They are counted in any case."""
        self._most = most
        self._stored: Counter[str] = Counter()
        self._day = 0

    def restore(self, day: int, stored: Mapping[str, int]) -> None:
        """As `as_dict` told it."""
        self._day, self._stored = day, Counter(stored)

    def as_dict(self) -> dict[str, object]:
        return {"day": self._day, "stored": dict(self._stored)}

    def today(self, now: float) -> dict[str, int]:
        """Bytes that each key has had stored today."""
        self._look(now)
        return dict(self._stored)

    def stored(self, key: str, size: int, now: float) -> None:
        """A game of `key` was stored; "": of somebody who needs none."""
        if key:
            self._look(now)
            self._stored[key] += size

    def refusal(self, key: str, size: int, in_flight: int, now: float) -> tuple[str, float] | None:
        """Why a game of `size` bytes has to wait, and for how many seconds; None if it has not.

        in_flight   bytes of other games of `key` that may be stored yet
        A first game is taken however long it is.
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
        """A new day begins. A clock that is set back begins none."""
        if now // DAY > self._day:
            self._day = int(now // DAY)
            self._stored.clear()


class DailyFile:
    """Where the bytes of today are over a restart."""

    def __init__(self, path: Path, daily: DailyBytes) -> None:
        self._path, self._daily = path, daily
        self._saved: object = {}
        """By key, as the file has it."""
        self._due = 0.0
        self._is_failing = False

    def load(self) -> None:
        """Go on from what the file says. One that cannot be read is no reason not to serve."""
        try:
            found = json.loads(self._path.read_bytes())
            stored = {str(key): int(size) for key, size in found["stored"].items()}
            self._daily.restore(int(found["day"]), stored)
            self._saved = stored
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s cannot be read (%s): today's bytes of each key begin at 0", self._path, error)

    def save(self, now: float, *, at_once: bool = False) -> None:
        """If it is due and something has changed. Not synced: a power loss may cost a day's counts."""
        told = self._daily.as_dict()
        if told["stored"] == self._saved or (now < self._due and not at_once):
            return
        self._due = now + SAVE_SECONDS
        part = self._path.with_suffix(".partial")
        try:
            part.write_text(json.dumps(told))
            part.replace(self._path)
        except OSError as error:
            if not self._is_failing:
                log.warning("%s cannot be written: %s", self._path, error.strerror)
            self._is_failing = True
            return
        self._saved, self._is_failing = told["stored"], False
