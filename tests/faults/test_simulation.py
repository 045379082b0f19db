"""Whatever is lost, repeated, cut or killed: no game is lost, none counts twice, every answer reaches its
request."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest
from mutants import MUTANTS
from scaled_examples import scaled
from simulation import simulate
from virtual_net import VirtualDoor

ROOT = Path(__file__).resolve().parents[2]
SEEDS = scaled(200)
LOTS = 10
MUTANT_SEEDS = 40


@pytest.mark.parametrize(
    "lot", [0, 1, *(pytest.param(lot, marks=pytest.mark.nightly) for lot in range(2, LOTS))]
)
def test_every_promise_holds_in_every_seed(lot: int) -> None:
    """A failing seed is printed; results/faults.md says how to repeat it."""
    outcomes = [simulate(seed) for seed in range(lot, SEEDS, LOTS)]
    broken = [f"seed {outcome.seed}: {outcome.faults}" for outcome in outcomes if outcome.faults]
    assert not broken, "\n".join(broken)
    # A simulation without any fault would prove nothing.
    answers = {status for outcome in outcomes for status in outcome.answers}
    assert {"stored", "duplicate", "rejected", "retry"} <= answers
    assert all(outcome.games and outcome.leaves for outcome in outcomes)
    blows = {blow.split()[1] for outcome in outcomes for blow in outcome.blows}
    assert blows >= {"kill", "cut", "half_open", "crash"}


WALL_CLOCK = re.compile(r"\btime\.time\(|\bdatetime\.now\(|\btime\.localtime\(|^from time import", re.M)
DATES = {"server/front.py", "trainer/figures.py"}
"""These write dates into figures; files of azselfplay/host and store may write them into a run's folder."""


def test_only_dates_come_from_the_wall_clock() -> None:
    """Whatever waits, paces or gives up reads the monotonic clock: a clock that jumps ends no session."""
    rooms = ("client", "net", "protocol", "server", "trainer", "azselfplay/batching", "azselfplay/link")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    assert {str(path.relative_to(ROOT)) for path in files if WALL_CLOCK.search(path.read_text())} == DATES


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    """The checker names the broken promise, within a few seeds."""
    mutant = MUTANTS[name]
    for seed in range(MUTANT_SEEDS):
        found = simulate(seed, kinds=mutant.kinds).faults
        if any(mutant.promise in fault for fault in found):
            return
    pytest.fail(f"{name} was not caught in {MUTANT_SEEDS} seeds")


def test_what_a_handler_of_the_front_raises_is_seen() -> None:
    """The front survives such an error, which would hide it."""
    with mock.patch.object(VirtualDoor, "charge", side_effect=TypeError):
        assert any("faults of its own" in fault for fault in simulate(1).faults)


@pytest.mark.nightly
def test_a_seed_is_repeated_exactly_in_another_process() -> None:
    """Hash seeds and addresses differ there. Otherwise a failing seed could not be investigated."""
    code = (
        "import sys, json, dataclasses; sys.path[:0] = ['tests/faults', 'tests/batching', 'tests']; "
        "from simulation import simulate; print(json.dumps([dataclasses.asdict(simulate(s)) for s "
        "in range(6)]))"
    )
    cache = {name: os.environ[name] for name in ("AZ_JIT_CACHE", "HOME", "TMPDIR") if name in os.environ}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", **cache},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert json.loads(runs[0]) == json.loads(runs[1]) == [asdict(simulate(seed)) for seed in range(6)]
