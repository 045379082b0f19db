"""`make peers`: other programs and ours, measured in turns; see bench/PEERS.md.

A side is one process a core, or one for all, which plays only on request: a line with the seconds of a turn
in, a line with what was done out (`bench.peers.answering`). So all programs have the machine to themselves in
turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from azselfplay.search.warm import warm
from bench.peers.answering import Counts
from bench.peers.plan import (
    OURS,
    PAGE,
    TITLES,
    Group,
    Measured,
    commands,
    figures,
    groups,
    table,
    written_into,
)
from bench.turns import in_turns

ROOT = Path(__file__).resolve().parents[2]

PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

NOTHING = Counts(1.0, None, 0.0)
"""Counts of a side that has failed."""

CACHE = ROOT / "build" / "peers-cache"

START_SECONDS = 300.0
"""Seconds for a side's imports and compilation with a cold cache."""

TURN_PATIENCE = 60.0
"""Seconds beyond a turn's own time until a side counts as stuck."""

GRACE = 40.0
"""Seconds for each step of ending; a server of ours may take 30."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=2.0, help="seconds of a turn")
    add("--turns", type=int, default=3, help="turns of each side")
    add("--minutes", type=float, default=9.0, help="groups that would begin later are left out")
    add("--game", choices=list(TITLES), help="this game only")
    add("--python", type=Path, default=PEERS_PYTHON, help="the interpreter that has the peers' packages")
    add("--write", action="store_true", help="also write the tables into bench/PEERS.md")
    return parser.parse_args(argv)


def measure(group: Group, chosen: argparse.Namespace) -> Measured:
    """All sides of a group in turns; one that fails is left out from then on."""
    found = Measured(group)
    sides: dict[str, Side] = {}
    try:
        for way in group.ways:
            try:
                sides[way.name] = Side(commands(group, way, chosen.python, CACHE))
            except Missing as reason:
                found.missing[way.name] = str(reason)
        for name, side in sides.items():
            try:
                found.settings[name] = str(side.ready().get("settings", ""))
            except Missing as reason:
                found.missing[name] = str(reason)

        def turn(name: str) -> Counts:
            if name not in found.missing:
                try:
                    return sides[name].measure(chosen.seconds)
                except Missing as reason:
                    found.missing[name] = str(reason)
            return NOTHING

        measured = in_turns({name: partial(turn, name) for name in sides}, chosen.turns)
        found.turns = {name: turns for name, turns in measured.items() if name not in found.missing}
    finally:
        for side in sides.values():
            side.close()
    return found


def about_this_run() -> str:
    """Time, commit and machine, for the line above the tables."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    at, load = time.strftime("%Y-%m-%d %H:%M", time.gmtime()), os.getloadavg()[0]
    machine = f"{len(os.sched_getaffinity(0))} cores ({processor()})"
    return f"{at} UTC, {commit or 'no commit'}, {machine}, load {load:.1f} at the start"


def processor() -> str:
    """The name of this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


def main(argv: Sequence[str] | None = None) -> int:
    chosen = parse(argv)
    began, said = time.monotonic(), about_this_run()
    print(f"{said}; medians of {chosen.turns} turns of {chosen.seconds:g} s (least to most)", flush=True)
    wanted = [one for one in groups(len(os.sched_getaffinity(0))) if chosen.game in (None, one.game)]
    for game in {group.game: None for group in wanted}:
        warm(game)  # compiled once, not by every process
    found, lines = [], [f"{said}; {chosen.turns} turns of {chosen.seconds:g} s, medians (least to most).", ""]
    for group in wanted:
        if time.monotonic() - began > 60 * chosen.minutes:
            print(f"left out, {chosen.minutes:g} minutes are over: {group.title}")
            continue
        found.append(measure(group, chosen))
        lines += [*table(found[-1]), ""]
        print("\n".join(["", *table(found[-1])]), flush=True)
        for name, settings in found[-1].settings.items():
            print(f"  {name}: {settings}")
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    if chosen.write:
        PAGE.write_text(written_into(PAGE.read_text(encoding="utf-8"), lines), encoding="utf-8")
        print(f"written to {PAGE.relative_to(ROOT)}")
    print(json.dumps(figures(found)))
    return 0 if any(OURS in one.turns for one in found) else 1


# ---- A side and its processes -------------------------------------------------------------------


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
        process = self._process
        ends: tuple[Callable[[], object], ...] = (process.poll, process.terminate, process.kill)
        for end in ends:  # each is harder than the one before
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


if __name__ == "__main__":
    sys.exit(main())
