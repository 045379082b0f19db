"""Wall clocks that jump and run backwards, and processes that stand still for a while: azserver, azclient and
trainer, with keys, go on as if nothing had been. No session ends, and no game is lost or counted twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from keyed_parts import NAMES
from ledgered import LedgeredParts
from wall_clock import WallClock

DAY = 86_400.0
STALL = 10.0
"""Seconds for which a process stands still: half of what a connection may be silent."""
BACKWARDS = 10.0
"""Seconds in which the clock goes back a second each second."""
STEP = 0.2
STOOD_STILL = "stood still for"
"""Words of the log of a process that was stopped."""


class Timed(LedgeredParts):
    """All parts have one wall clock, which is not the machine's."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clock = WallClock(folder)

    def _command(self, name: str, command: list[str]) -> list[str]:
        return [*self.clock.prefix, *super()._command(name, command)]

    def ended(self) -> float:
        """Sessions that have ended so far, for any reason."""
        told = self.metrics("server")
        assert told, "azserver tells no metrics"
        return sum(value for name, value in told.items() if name.startswith("az_client_disconnects_total"))

    def log_times(self, name: str) -> list[str]:
        """The date of each line of a log."""
        return [line[:10] for line in self.whole_log(name).splitlines() if line[:2] == "20"]

    def stop_for_a_while(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STALL)
        os.kill(pid, signal.SIGCONT)

    def run_backwards(self) -> None:
        """From where the clock is: two seconds back for each that goes by."""
        begun = time.monotonic()
        while (gone := time.monotonic() - begun) < BACKWARDS:
            self.clock.move(-2.0 * gone)
            time.sleep(STEP)


FAULTS: dict[str, Callable[[Timed], None]] = {
    "the clock a day ahead": lambda it: it.clock.move(DAY),
    "the clock a day behind": lambda it: it.clock.move(-DAY),
    "the clock backwards, a second each second": Timed.run_backwards,
    "azserver stopped": lambda it: it.stop_for_a_while(it.front),
    "the evaluator stopped": lambda it: it.stop_for_a_while(it.evaluator()),
    "azclient's worker stopped": lambda it: it.stop_for_a_while(it.child("client.main", "client.worker")),
    "the trainer stopped": lambda it: it.stop_for_a_while(it.pid_of("trainer")),
}
"""What `measure` does, one after the other."""
TELLS = {"azserver stopped": "server", "the trainer stopped": "trainer"}
"""Whose log has a line about it."""


def disturb(parts: Timed, fault: str) -> tuple[float, float]:
    """Inject it, and wait until all parts go on. Seconds to the next game and to newer weights in use."""
    ended, said = parts.ended(), {name: len(parts.whole_log(name)) for name in NAMES}
    FAULTS[fault](parts)
    took = parts.advance(f"after {fault}")
    assert parts.ended() == ended, f"{fault}: a session has ended\n{parts.logs()}"
    for name in NAMES:
        negative = {key: value for key, value in parts.metrics(name).items() if _is_time(key) and value < 0}
        assert not negative, f"{fault}: {negative}"
    if fault in TELLS:
        part = TELLS[fault]
        assert STOOD_STILL in parts.whole_log(part)[said[part] :], f"P8: {fault} is in no line of {part}.log"
    return took


def _is_time(metric: str) -> bool:
    return "seconds" in metric or "age" in metric


def measure(folder: Path, say: Callable[[str], None], faults: Iterable[str] = FAULTS) -> str:
    """The figure of the row. AssertionError when a promise was broken."""
    found = []
    with Timed(folder) as parts:
        for fault in faults:
            first, whole = disturb(parts, fault)
            found.append(
                f"{fault}: next game stored after {first:.0f} s, new weights played with {whole:.0f} s"
            )
            say(found[-1])
        finished, acknowledged = parts.check()
        days = {day for name in NAMES for day in parts.log_times(name)}
    return (
        f"{'; '.join(found)} ({STALL:.0f} s each stop); no session ended, logs of {len(days)} days; of "
        f"{finished} games {acknowledged} were acknowledged, and these are in the store once"
    )
