"""Watches over the evaluator processes, as a pure state machine: events in, instructions out.

    process started -> EVALUATOR_READY -> LOAD_WEIGHTS -> WEIGHTS_LOADED -> a sign of life now and then
        starting            up               loading           up

Each phase has its longest silence; whoever is silent for longer is killed, and started again by its parent.
A connection that was cut and mended is a new peer to the front, which asks it to say EVALUATOR_READY again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """What an evaluator process is at."""

    STARTING = "starting"
    LOADING = "loading weights"
    UP = "up"


@dataclass(frozen=True)
class WatchTimes:
    """All in seconds."""

    start: float = 300.0
    """From the start of the process to EVALUATOR_READY: it imports torch and opens its device."""
    load: float = 600.0
    """For one LOAD_WEIGHTS: it may compile the network, and tries out batch sizes."""
    silence: float = 60.0
    """Without any message otherwise: when idle it sends a PING every 5 s, and no batch takes so long."""
    ask_again: float = 10.0
    """After which LOAD_WEIGHTS was lost, if the evaluator says that it is idle."""
    held_up: float = 10.0
    """Between two ticks: the front itself stood still, and knows nothing about the others' silence."""


@dataclass(frozen=True)
class Kill:
    """End this evaluator's process."""

    index: int
    reason: str


@dataclass(frozen=True)
class Load:
    """Tell this evaluator once more which weights to load."""

    index: int


Instruction = Kill | Load


@dataclass
class _Watched:
    phase: Phase
    since: float
    """When the phase began, or a message came."""


class EvaluatorWatch:
    """All evaluators of a server, by index. Times are seconds on any one clock."""

    def __init__(self, times: WatchTimes | None = None) -> None:
        self._times = times or WatchTimes()
        self._watched: dict[int, _Watched] = {}
        self._last_tick: float | None = None
        self._resumed = float("-inf")

    def started(self, index: int, now: float) -> None:
        """The process has been started."""
        self._watched[index] = _Watched(Phase.STARTING, now)

    def ended(self, index: int) -> None:
        """The process is gone."""
        self._watched.pop(index, None)

    def ready(self, index: int, now: float) -> None:
        """EVALUATOR_READY of a connection that is new to us."""
        self._watched[index] = _Watched(Phase.UP, now)

    def told_to_load(self, index: int, now: float) -> None:
        """LOAD_WEIGHTS is on its way."""
        self._watched[index] = _Watched(Phase.LOADING, now)

    def loaded(self, index: int, now: float) -> None:
        """WEIGHTS_LOADED or WEIGHTS_REFUSED."""
        self._watched[index] = _Watched(Phase.UP, now)

    def heard(self, index: int, now: float) -> None:
        """Any other message. One who loads is not heard: what comes was sent before."""
        watched = self._watched.get(index)
        if watched is not None and watched.phase is Phase.UP:
            watched.since = now

    def idle(self, index: int, now: float) -> list[Instruction]:
        """PING: it has nothing to do, so it is not loading either."""
        self.heard(index, now)
        watched = self._watched.get(index)
        if watched is None or watched.phase is not Phase.LOADING:
            return []
        return [Load(index)] if now - watched.since >= self._times.ask_again else []

    def tick(self, now: float) -> list[Instruction]:
        """To be called every second or so."""
        last, self._last_tick = self._last_tick, now
        if last is not None and now - last > self._times.held_up:
            self._resumed = now
            for watched in self._watched.values():
                watched.since += now - last
        limits = {
            Phase.STARTING: self._times.start,
            Phase.LOADING: self._times.load,
            Phase.UP: self._times.silence,
        }
        kills: list[Instruction] = []
        for index, watched in self._watched.items():
            silent, limit = now - watched.since, limits[watched.phase]
            if silent > limit:
                watched.since = now  # once is enough, and again should it still be there
                kills.append(Kill(index, f"{watched.phase.value}, and silent for {silent:.0f} s"))
        return kills

    def silence(self, now: float) -> dict[int, float]:
        """Seconds since each evaluator that is up was heard; when it is idle it says so every 5 s."""
        up = {index: one for index, one in self._watched.items() if one.phase is Phase.UP}
        return {index: max(0.0, now - one.since) for index, one in up.items()}

    def held_up(self, within: float, now: float) -> bool:
        """Whether the front itself stood still less than `within` seconds ago."""
        return now - self._resumed < within
