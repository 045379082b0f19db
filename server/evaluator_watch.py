"""Watches over the evaluator processes, as a pure state machine.

    process started -> EVALUATOR_READY -> LOAD_WEIGHTS -> WEIGHTS_LOADED -> a sign of life now and then
                 starting              up            loading             up

Each phase has a limit of silence. An evaluator that is silent for longer is killed, and its parent starts it
again. After a connection was cut and restored, the front sees a new peer, and asks it for another
EVALUATOR_READY.
"""

from __future__ import annotations

from dataclasses import dataclass

STARTING, LOADING, UP = "starting", "loading weights", "up"


@dataclass(frozen=True)
class WatchTimes:
    """Limits of the watch, all in seconds."""

    start: float = 300.0
    """From the start of the process to EVALUATOR_READY: it imports torch and opens its device."""
    load: float = 600.0
    """For the first weights of a network: the evaluator may compile it, and tries out batch sizes."""
    reload: float = 120.0
    """For more weights of a network that the process has loaded before: only numbers change. Counted from its
    last message, so that LOAD_WEIGHTS gives no extra time to a process that hangs."""
    silence: float = 60.0
    """Longest silence otherwise: an idle evaluator sends a PING every 5 s, and no batch takes so long."""
    held_up: float = 10.0
    """Longest time between two ticks. If more has passed, the front itself stood still and cannot judge the
    silence of others."""


@dataclass
class Watched:
    """What an evaluator process is doing, and how long it may be silent meanwhile."""

    doing: str
    since: float
    """When that began or the last message came."""
    limit: float
    """Seconds of silence after which the process is killed."""


class EvaluatorWatch:
    """Watches all evaluators of a server, by index. Times are seconds on any one clock."""

    def __init__(self, times: WatchTimes | None = None) -> None:
        self._times = times or WatchTimes()
        self._watched: dict[int, Watched] = {}
        self._last_tick: float | None = None

    def started(self, index: int, now: float) -> None:
        """Note that the process has been started."""
        self._watched[index] = Watched(STARTING, now, self._times.start)

    def ended(self, index: int) -> None:
        """Note that the process is gone."""
        self._watched.pop(index, None)

    def ready(self, index: int, now: float) -> None:
        """Note an EVALUATOR_READY from a new connection."""
        self._watched[index] = Watched(UP, now, self._times.silence)

    def loading(self, index: int, now: float, *, knows: bool = False) -> None:
        """Note that LOAD_WEIGHTS is on its way. An evaluator that is loading already gets no extra time,
        because it may hang. `knows`: its process has loaded weights of this network before."""
        if self.is_loading(index):
            return
        watched = self._watched.get(index)
        since = now if watched is None or not knows else watched.since
        limit = self._times.reload if knows else self._times.load
        self._watched[index] = Watched(LOADING, since, limit)

    def loaded(self, index: int, now: float, *, more: bool = False) -> None:
        """Note a WEIGHTS_LOADED or WEIGHTS_REFUSED. `more`: the evaluator has been told to load others
        since."""
        watched = self._watched.get(index)
        if more and watched is not None and watched.doing == LOADING:
            watched.since = now
        else:
            self._watched[index] = Watched(UP, now, self._times.silence)

    def alive(self, index: int, now: float) -> None:
        """Note any other message. While the evaluator loads, messages do not count: they were sent before."""
        watched = self._watched.get(index)
        if watched is not None and watched.doing == UP:
            watched.since = now

    def tick(self, now: float) -> list[tuple[int, str]]:
        """Return the evaluators to kill, each with the reason. Call it about once a second."""
        last, self._last_tick = self._last_tick, now
        # The front itself was held up. Messages of that time are still unread, so no evaluator is to blame.
        if last is not None and now - last > self._times.held_up:
            for watched in self._watched.values():
                watched.since += now - last
        kills: list[tuple[int, str]] = []
        for index, watched in self._watched.items():
            silent = now - watched.since
            if silent > watched.limit:
                watched.since = now  # kill it once, and again if it is still there after another limit
                kills.append((index, f"{watched.doing}, and silent for {silent:.0f} s"))
        return kills

    def silences(self, now: float) -> dict[int, tuple[float, Watched]]:
        """Return the seconds of silence of every evaluator that is not starting, by index. An idle one sends
        a PING every 5 s. An evaluator that loads weights sends nothing until it has them, so it cannot be
        told from one that hangs."""
        known = {index: one for index, one in self._watched.items() if one.doing != STARTING}
        return {index: (max(0.0, now - one.since), one) for index, one in known.items()}

    def is_loading(self, index: int) -> bool:
        """Return whether an evaluator loads weights."""
        watched = self._watched.get(index)
        return watched is not None and watched.doing == LOADING
