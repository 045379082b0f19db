"""What an attack costs the honest: evaluations in turns with it and without, the longest wait, memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median

from attacks import Attack
from foreign_client import Channel
from target import HOST, Memory, Target

SETTLE = 5.0
"""Seconds after the last turn until memory is read."""
ASK_EVERY = 0.02
"""Seconds between an answer and the next question of `Waiting`."""
LOWEST_PRIORITY = 19
"""Of the attacker's thread: what it computes shall not count as harm, only what the server does for it."""


@dataclass
class Result:
    """Of one attack. Rates are evaluations a second of the whole system, one number a turn."""

    attack: str
    item: int
    quiet: list[float] = field(default_factory=list)
    attacked: list[float] = field(default_factory=list)
    after: float = 0.0
    longest_wait: float = 0.0
    """Seconds that a GET_STATUS waited for its answer while the attack went on."""
    before: Memory = Memory(0, 0)
    peak: float = 0.0
    memory_after: float = 0.0
    strokes: int = 0
    trouble: str = ""
    """Empty when the server lived and the attack found nothing amiss."""

    @property
    def lost(self) -> float:
        """Share of the throughput, by medians; below 0 when turns with the attack were faster."""
        quiet = median(self.quiet) if self.quiet else 0.0
        return 1 - median(self.attacked) / quiet if quiet and self.attacked else float("nan")


class Striker(threading.Thread):
    """Strikes until told to stop."""

    def __init__(self, attack: Attack, target: Target) -> None:
        super().__init__(daemon=True)
        self.strokes = 0
        self.trouble = ""
        self._attack, self._target = attack, target
        self._over = threading.Event()

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        strokes = self._attack.run(self._target)
        try:
            while self.strokes < self._attack.most and not self._over.is_set():
                next(strokes)
                self.strokes += 1
            self._over.wait()
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            strokes.close()

    def finish(self) -> None:
        """Waits for the stroke under way."""
        self._over.set()
        self.join()


class Waiting(threading.Thread):
    """Asks for the figures all the time, and knows how long it had to wait at most."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._over = threading.Event()
        self._asked = time.monotonic()
        self._longest = 0.0

    @property
    def longest(self) -> float:
        """Seconds, the answer that is being waited for included."""
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
        """Seconds of the longest wait."""
        longest = self.longest
        self._over.set()
        return longest


def rate(target: Target, seconds: float, during: Callable[[], None] = lambda: None) -> float:
    """Evaluations a second, while `during` is done and for at least `seconds`."""
    began, evals = time.monotonic(), target.figures()["evals"]
    time.sleep(seconds)
    during()
    return (target.figures()["evals"] - evals) / (time.monotonic() - began)


def measured(target: Target, attack: Attack, turns: int, seconds: float) -> Result:
    """`turns` times: quiet for `seconds`, attacked for `seconds`. Then quiet once more."""
    result = Result(attack.name, attack.item, before=target.memory())
    try:
        target.forget_peak()
        for _ in range(turns):
            result.quiet.append(_quiet(target, seconds))
            _attacked(target, attack, seconds, result)
        result.after = _quiet(target, seconds)
        result.quiet.append(result.after)
        time.sleep(SETTLE)
        memory = target.memory()
        result.peak, result.memory_after = memory.peak, memory.now
    except (TimeoutError, OSError, KeyError) as error:  # KeyError: a dead process has no memory
        result.trouble = result.trouble or f"{type(error).__name__}: {error}"
    if not target.is_alive():
        result.trouble = "azserver died: " + target.log().strip().splitlines()[-1]
    return result


def _quiet(target: Target, seconds: float) -> float:
    """The rate of a turn without the attack; the questions of `Waiting` cost something in either kind."""
    waiting = Waiting(target.port)
    waiting.start()
    try:
        return rate(target, seconds)
    finally:
        waiting.finish()


def _attacked(target: Target, attack: Attack, seconds: float, result: Result) -> None:
    striker, waiting = Striker(attack, target), Waiting(target.port)
    waiting.start()
    striker.start()
    try:
        result.attacked.append(rate(target, seconds, striker.finish))
    finally:
        striker.finish()
        result.longest_wait = max(result.longest_wait, waiting.finish())
        result.strokes += striker.strokes
        result.trouble = result.trouble or striker.trouble
