"""A measured side: one process per core, or one for all, which play only on request."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.peers.answering import Counts

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0
"""Seconds for a side's imports and compilation with a cold cache."""
TURN_PATIENCE = 60.0
"""Seconds beyond a turn's own time until a side counts as stuck."""

GRACE = 40.0
"""Seconds for each step of ending; a server of ours may take 30."""


class Missing(Exception):
    """A side cannot be measured; the text says why."""


def parse_counts(line: str) -> Counts:
    """Parse the answer of a side. Raises Missing if it is invalid."""
    try:
        found = Counts(**json.loads(line))
        known = [found.seconds, found.evaluations, found.simulations or 0.0]
        if not all(isinstance(one, (int, float)) and one >= 0 for one in known) or not found.seconds:
            raise ValueError(line)
    except (TypeError, ValueError) as error:
        raise Missing(f"it answered {line.strip()[:200]!r}") from error
    return found


class Process:
    """One process of a side, on some cores."""

    def __init__(self, command: Sequence[str], cores: Sequence[int]) -> None:
        """Raises Missing if it does not start."""
        self._errors = (ROOT / "build").joinpath(f"peers-{os.getpid()}-{time.monotonic_ns()}.log")
        self._errors.parent.mkdir(exist_ok=True)
        with on_cores(cores), self._errors.open("wb") as errors:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=ROOT,
                    env={**os.environ, "JAX_PLATFORMS": "cpu"},
                )
            except OSError as error:
                raise Missing(str(error)) from error
        self._rest = b""

    def about(self) -> dict[str, Any]:
        """Its description of itself, once it is ready; a library may have printed something before. Raises
        Missing."""
        until = time.monotonic() + START_SECONDS
        while True:
            line = self._line(until - time.monotonic())
            if line.startswith("{"):
                return dict(json.loads(line))

    def ask(self, seconds: float) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{seconds}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise Missing(self._last_words()) from error

    def answer(self, seconds: float) -> Counts:
        return parse_counts(self._line(seconds + TURN_PATIENCE))

    def close(self) -> None:
        """Close its input, which ends it; if it does not end, terminate it, then kill it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        ends: tuple[Callable[[], object], ...] = (
            self._process.poll,
            self._process.terminate,
            self._process.kill,
        )
        for end in ends:
            end()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
                break
        self._process.stdout.close()
        self._errors.unlink(missing_ok=True)

    def _line(self, seconds: float) -> str:
        """The next line of its output. Raises Missing if it ends or sends nothing for this long."""
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise Missing(f"it said nothing for {seconds:.0f} s")
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    raise Missing(self._last_words())
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    def _last_words(self) -> str:
        """The last line of its stderr: for an exception, its type and text."""
        self._process.wait()
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with status {self._process.returncode}"


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Restrict processes started during the block to these cores, which are all that libraries see."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Side:
    """Processes that are measured together."""

    def __init__(self, commands: Sequence[tuple[Sequence[str], Sequence[int]]]) -> None:
        """Start them. `commands`: words and cores of each process. Raises Missing."""
        self._processes: list[Process] = []
        try:
            for words, cores in commands:
                self._processes.append(Process(words, cores))
        except BaseException:
            self.close()
            raise

    def ready(self) -> dict[str, Any]:
        """Wait until all of them are ready. Returns their descriptions. Raises Missing."""
        return [process.about() for process in self._processes][-1]

    def measure(self, seconds: float) -> Counts:
        """The counts of all its processes together, per second. Raises Missing."""
        for process in self._processes:
            process.ask(seconds)
        return joined([process.answer(seconds) for process in self._processes])

    def close(self) -> None:
        for process in self._processes:
            process.close()


def joined(parts: Sequence[Counts]) -> Counts:
    """The joint counts of processes that ran side by side, per second."""
    simulations = [part.simulations / part.seconds for part in parts if part.simulations is not None]
    evaluations = sum(part.evaluations / part.seconds for part in parts)
    return Counts(1.0, sum(simulations) if len(simulations) == len(parts) else None, evaluations)
