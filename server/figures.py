"""Counters of the front, and the figures of STATUS. Pure: the time comes with each event."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.faults import Faults
from runtime.metrics import ROWS, histogram

if TYPE_CHECKING:
    from prometheus_client import Histogram

RATE_SECONDS = 10
"""Seconds that `evals_per_s` averages over."""
ENDS = ("left", "hung_up", "lease", "refused", "ended")
"""How a session ends: on purpose, with its connection, by silence, by a refused HELLO, or by the server."""
MOST_PER_SECOND = 1e6
"""Most evaluations a second that are believed of one player; one core makes a tenth of them."""
RECENT_BATCHES = 1000
"""Number of batches that `mean_batch` averages over."""


class Rate:
    """Events a second over the last `seconds`, from counts per whole second."""

    def __init__(self, seconds: int = RATE_SECONDS) -> None:
        self._seconds = seconds
        self._buckets: deque[tuple[int, int]] = deque()
        self._began: float | None = None

    def add(self, count: int, now: float) -> None:
        second = int(now)
        if self._began is None:
            self._began = now
        if self._buckets and self._buckets[-1][0] == second:
            self._buckets[-1] = (second, self._buckets[-1][1] + count)
        else:
            self._buckets.append((second, count))
            self._forget(now)

    def per_second(self, now: float) -> float:
        """Return the mean over `seconds`, or since the first event if that is shorter."""
        if self._began is None:
            return 0.0
        self._forget(now)
        span = min(now - self._began, self._seconds + now - int(now))
        return sum(count for _, count in self._buckets) / max(span, 1.0)

    def _forget(self, now: float) -> None:
        while self._buckets and self._buckets[0][0] < int(now) - self._seconds:
            self._buckets.popleft()


class RecentMean:
    """Mean of the last `length` values."""

    def __init__(self, length: int = RECENT_BATCHES) -> None:
        self._values: deque[float] = deque(maxlen=length)
        self._sum = 0.0

    def add(self, value: float) -> None:
        if len(self._values) == self._values.maxlen:
            self._sum -= self._values[0]
        self._values.append(value)
        self._sum += value

    @property
    def mean(self) -> float:
        return self._sum / len(self._values) if self._values else 0.0


@dataclass(frozen=True)
class _Told:
    """What one player told last."""

    evaluations: int
    at: float
    per_second: float = 0.0


class OwnEvaluations:
    """Counts what players evaluate themselves. Each tells a total since its session began; a total that is
    lower than the last, or higher than possible, is corrected."""

    def __init__(self) -> None:
        self._told: dict[int, _Told] = {}

    @property
    def per_second(self) -> float:
        """Of all players together, between the last two times that each told."""
        return sum(told.per_second for told in self._told.values())

    def told(self, session: int, joined_at: float, evaluations: int, now: float) -> int:
        """Note a session's total. Returns how many evaluations are new."""
        last = self._told.setdefault(session, _Told(0, joined_at))
        seconds = now - last.at
        if seconds <= 0:
            return 0
        new = max(0, min(evaluations - last.evaluations, int(MOST_PER_SECOND * seconds)))
        self._told[session] = _Told(evaluations, now, new / seconds)
        return new

    def forget(self, session: int) -> None:
        """Note the end of a session."""
        self._told.pop(session, None)


@dataclass
class Preparing:
    """What azserver's workers are waiting for after a start. Times are `time.monotonic()`."""

    what: str = ""
    """Description for people; empty: nothing."""
    since: float = 0.0
    seconds: float = 0.0
    """Total seconds that the preparation took."""

    def begin(self, what: str, now: float) -> None:
        self.what, self.since = what, now

    def end(self, now: float) -> None:
        self.what, self.seconds = "", now - self.since

    def as_dict(self, now: float) -> dict[str, object]:
        """Return these figures for STATUS."""
        seconds = now - self.since if self.what else self.seconds
        return {"preparing": self.what, "preparing_s": round(seconds, 1)}


@dataclass
class Figures:
    """What the front counts itself; the rest of STATUS comes from the queue, the relay and the sessions."""

    started: float
    evals: int = 0
    """Rows that devices have answered."""
    rate: Rate = field(default_factory=Rate)
    own: OwnEvaluations = field(default_factory=OwnEvaluations)
    """What players evaluate in their own search."""
    batch_rows: RecentMean = field(default_factory=RecentMean)
    wait: RecentMean = field(default_factory=RecentMean)
    """Mean seconds from a leaf's arrival to its sending, one value per batch."""
    evals_of: Counter[int] = field(default_factory=Counter)
    """Like `evals`, by evaluator."""
    batch_sizes: Histogram = field(default_factory=lambda: histogram(ROWS))
    queued: Histogram = field(default_factory=histogram)
    """Like `wait`, in seconds; the next one holds the computing time of each batch."""
    computed: Histogram = field(default_factory=histogram)
    progress_at: float = 0.0
    """When a batch was last sent or answered; `started` until then."""
    weights_at: float = 0.0
    """When this process began to use the current weights."""
    disconnects: Counter[str] = field(default_factory=Counter)
    """Ended sessions by reason: one of `ENDS`."""
    device_busy: float = 0.0
    """Seconds of computing, summed over all devices."""
    protocol_errors: int = 0
    over_credit: int = 0
    undelivered: int = 0
    """Answers whose session was gone or whose socket was full."""
    evaluator_restarts: int = 0
    bad_batches: int = 0
    """Answers of devices with at least one row that was not an evaluation."""
    weights_refused: int = 0
    preparing: Preparing = field(default_factory=Preparing)
    faults: Faults = field(default_factory=lambda: Faults(logging.getLogger("server")))
    """Exceptions raised while handling one message or one turn of a loop."""
    trainer: Mapping[str, object] = field(default_factory=dict)
    """The trainer's own figures, as last received."""

    def __post_init__(self) -> None:
        self.progress_at = self.weights_at = self.started

    def batch_sent(self, rows: int, waited: float, now: float) -> None:
        """Count a batch that is sent; `waited`: mean seconds its rows were queued."""
        self.batch_sizes.observe(rows)
        self.queued.observe(waited)
        self.progress_at = now
        self.batch_rows.add(rows)
        self.wait.add(waited)

    def batch_answered(self, rows: int, busy: float, now: float, device: int = 0) -> None:
        """Count a batch that was answered. `busy`: seconds that evaluator `device` spent computing."""
        self.evals += rows
        self.evals_of[device] += rows
        self.computed.observe(busy)
        self.progress_at = now
        self.device_busy += busy
        self.rate.add(rows, now)

    def evaluated_by_player(self, session: int, joined_at: float, total: int, now: float) -> None:
        """Note how many evaluations a player has made in its own search since its session began."""
        self.evals += self.own.told(session, joined_at, total, now)

    def as_dict(self, now: float) -> dict[str, object]:
        return {
            "uptime_s": round(now - self.started, 1),
            "evals": self.evals,
            "evals_per_s": round(self.rate.per_second(now) + self.own.per_second, 1),
            "mean_batch": round(self.batch_rows.mean, 1),
            "device_busy_s": round(self.device_busy, 2),
            "queue_wait_ms": round(1000 * self.wait.mean, 3),
            "protocol_errors": self.protocol_errors,
            "over_credit": self.over_credit,
            "undelivered": self.undelivered,
            "evaluator_restarts": self.evaluator_restarts,
            "bad_batches": self.bad_batches,
            "weights_refused": self.weights_refused,
            "faults": self.faults.count,
            "trainer": self.trainer,
            **self.preparing.as_dict(now),
        }
