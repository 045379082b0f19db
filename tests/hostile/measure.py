"""What an attack costs honest clients: evaluations in turns without it, with it, and next to a control, which
burns as much processor time as the attacker did and sends nothing. Also the longest wait, and memory."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import comb, nan
from statistics import median
from typing import NamedTuple

from attacks import Attack
from foreign_client import Channel
from raw_zmtp import SENT
from target import HOST, Memory, Target

SETTLE = 5.0
"""Seconds after the last turn until memory is measured."""
ASK_EVERY = 0.02
"""Seconds between an answer and the next request of `Waiting`."""
CORES = os.cpu_count() or 1
BURNT = bytes(16 * 1024)
"""Hashed by the control again and again. It is small, so that it does not evict others from the caches."""
PAUSE = 0.01
"""Seconds that the control sleeps when it is ahead of the attacker's share, so that it rarely wakes up."""
REST = 1.0
"""Seconds between the end of an attack and the control, so that leftover work does not count against the
control."""


Turn = dict[str, float]
"""Rates of one turn, per second. `evals` of the whole system; cores used by `server` (the front), `trainer`,
`playing` (azserver and azclient with their children) and `other` (attacker or control); `connections`,
`messages`, `bytes` sent."""


class Lost(NamedTuple):
    """Share of the throughput that was lost; negative when there was more."""

    median: float
    least: float
    """With 95 % certainty the median lies between this and `most`."""
    most: float

    @staticmethod
    def of(attacked: list[float], without: list[float]) -> Lost:
        """Compute it from pairs of consecutive turns, so that what affected both does not count.

        The interval is that of order statistics, which assumes nothing about the distribution of the shares
        (Conover, Practical Nonparametric Statistics, 3.2). NaN without pairs.
        """
        return Lost.among([1 - one / other for one, other in zip(attacked, without, strict=True)])

    @staticmethod
    def among(shares: list[float]) -> Lost:
        """Return their median and its interval."""
        if not shares:
            return Lost(nan, nan, nan)
        cut = _unlikely(len(shares))
        return Lost(median(shares), sorted(shares)[cut], sorted(shares)[-1 - cut])

    def text(self) -> str:
        return f"{100 * self.median:.1f}% ({100 * self.least:.1f} to {100 * self.most:.1f})"


def _unlikely(turns: int) -> int:
    """Return how many of `turns` sorted values may be left out at each end so that the true median lies among
    the others with 95 % certainty."""
    tail, cut = 1 / 2**turns, 0
    while tail + comb(turns, cut + 1) / 2**turns <= 0.025 and cut + 1 < turns / 2:
        cut += 1
        tail += comb(turns, cut) / 2**turns
    return cut


def middle(turns: list[Turn], figure: str) -> float:
    """Return the median over turns, NaN without any."""
    return median(turn[figure] for turn in turns) if turns else float("nan")


@dataclass
class Result:
    """The result of one attack."""

    attack: str
    quiet: list[Turn] = field(default_factory=list)
    attacked: list[Turn] = field(default_factory=list)
    control: list[Turn] = field(default_factory=list)
    longest_wait: float = 0.0
    """Seconds that a GET_STATUS waited for its answer during the attack."""
    before: Memory = Memory(0, 0)
    peak: float = 0.0
    memory_after: float = 0.0
    strokes: int = 0
    trouble: str = ""
    """Empty if the server survived and the attack found no fault."""

    @property
    def lost(self) -> Lost:
        """The loss compared with the control turn beside each turn with the attack."""
        return Lost.of(_evals(self.attacked), _evals(self.control))

    @property
    def dearer(self) -> Lost:
        """The same loss in evaluations per second of processor time of azserver and azclient together: how
        much more work the attack causes, whatever share of the machine they got."""
        return Lost.of(_by_processor(self.attacked), _by_processor(self.control))

    @property
    def taken(self) -> Lost:
        """Share of all cores that the front used more than in the adjacent control turn: the work that the
        attack causes. Much steadier than evaluations."""
        pairs = zip(self.attacked, self.control, strict=True)
        return Lost.among([(one["server"] - other["server"]) / CORES for one, other in pairs])

    @property
    def lost_in_all(self) -> Lost:
        """The loss compared with the mean of the quiet turns before and after each turn with the attack."""
        quiet = _evals(self.quiet)
        return Lost.of(_evals(self.attacked), [sum(pair) / 2 for pair in pairwise(quiet)])


def _evals(turns: list[Turn]) -> list[float]:
    return [turn["evals"] for turn in turns]


def _by_processor(turns: list[Turn]) -> list[float]:
    return [turn["evals"] / turn["playing"] for turn in turns]


class Burner(threading.Thread):
    """Uses a share of a core, or as much of it as the machine gives, until told to stop."""

    def __init__(self, share: float) -> None:
        super().__init__(daemon=True)
        self.cpu = 0.0
        """Seconds of processor time."""
        self._share = share
        self._over = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._over.is_set():
            if self.cpu < self._share * (time.monotonic() - began):
                hashlib.sha256(BURNT)
                self.cpu = time.thread_time()
            else:
                time.sleep(PAUSE)

    def finish(self) -> None:
        self._over.set()
        self.join()


class Striker(threading.Thread):
    """Attacks until told to stop, at normal priority."""

    def __init__(self, attack: Attack, target: Target) -> None:
        super().__init__(daemon=True)
        self.strokes = 0
        self.trouble = ""
        self.cpu = 0.0
        """Seconds of processor time."""
        self._attack, self._target = attack, target
        self._over = threading.Event()

    def run(self) -> None:
        strokes = self._attack.begin(self._target)
        try:
            while self.strokes < self._attack.most and not self._over.is_set():
                next(strokes)
                self.strokes += 1
                self.cpu = time.thread_time()
            self._over.wait()
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            strokes.close()
            self.cpu = time.thread_time()

    def finish(self) -> None:
        """Wait for the current stroke."""
        self._over.set()
        self.join()


class Waiting(threading.Thread):
    """Requests the figures all the time, and records the longest wait."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._over = threading.Event()
        self._asked = time.monotonic()
        self._longest = 0.0

    @property
    def longest(self) -> float:
        """Seconds, including the answer that is being waited for."""
        return max(self._longest, time.monotonic() - self._asked)

    def run(self) -> None:
        channel = Channel(f"tcp://{HOST}:{self._port}", role="watcher")
        with suppress(TimeoutError):
            channel.hello(time.monotonic() + 60)
            while not self._over.wait(ASK_EVERY):
                self._asked = time.monotonic()
                channel.ask({"type": "get_status"}, [], {"type": "status"}, self._asked + 300, resend=5.0)
                self._longest = max(self._longest, time.monotonic() - self._asked)
        channel.close(bye=False)

    def finish(self) -> float:
        """Return the longest wait in seconds."""
        longest = self.longest
        self._over.set()
        return longest


def turns_within(seconds: float, turn: float) -> int:
    """Return how many turns of `turn` seconds of one attack fit into `seconds`, at least 4."""
    return max(4, int((seconds - SETTLE - turn) / (3 * turn + REST)))


def measured(target: Target, attack: Attack, turns: int, seconds: float) -> Result:
    """Run `turns` times, `seconds` each: quiet, attacked, control, with the last two in alternating order.
    Then quiet once more."""
    result = Result(attack.name, before=target.memory())
    try:
        target.forget_peak()
        for turn in range(turns):
            result.quiet.append(_turn(target, seconds)[0])
            if turn % 2:
                _control_turn(target, seconds, result)
            _attack_turn(target, attack, seconds, result)
            if not turn % 2:
                _control_turn(target, seconds, result)
        result.quiet.append(_turn(target, seconds)[0])
        time.sleep(SETTLE)
        memory = target.memory()
        result.peak, result.memory_after = memory.peak, memory.now
    except (TimeoutError, OSError, KeyError) as error:  # KeyError: a dead process has no memory
        result.trouble = result.trouble or f"{type(error).__name__}: {error}"
    if not target.is_alive():
        result.trouble = "azserver died: " + target.log().strip().splitlines()[-1]
    return result


def _turn(target: Target, seconds: float, beside: Striker | Burner | None = None) -> tuple[Turn, float]:
    """Return the figures of at least `seconds`, including the end of what runs beside them, and the longest
    wait."""
    waiting = Waiting(target.port)
    waiting.start()
    if beside is not None:
        beside.start()
    try:
        began, before = time.monotonic(), _counts(target)
        time.sleep(seconds)
        if beside is not None:
            beside.finish()
        after, took = _counts(target), time.monotonic() - began
        turn = {name: (count - before[name]) / took for name, count in after.items()}
        return turn | {"other": beside.cpu / took if beside else 0.0}, waiting.longest
    finally:
        if beside is not None:
            beside.finish()
        waiting.finish()


def _counts(target: Target) -> dict[str, float]:
    return {"evals": target.figures()["evals"], **target.cpu(), **asdict(SENT)}


def _attack_turn(target: Target, attack: Attack, seconds: float, result: Result) -> None:
    striker = Striker(attack, target)
    try:
        turn, wait = _turn(target, seconds, striker)
        result.attacked.append(turn)
        result.longest_wait = max(result.longest_wait, wait)
    finally:
        result.strokes += striker.strokes
        result.trouble = result.trouble or striker.trouble


def _control_turn(target: Target, seconds: float, result: Result) -> None:
    """Burn what the attacker used in its last turn."""
    time.sleep(REST)
    burner = Burner(result.attacked[-1]["other"])
    result.control.append(_turn(target, seconds, burner)[0])
