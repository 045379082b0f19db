"""`python -m tests.faults COMMAND`: injects the faults of the plan and reports the result. `make faults` runs
all but the soak.

Every command prints its result, and exits with 1 if a promise was broken. A failing seed is printed, and
`simulate --seed N` runs it again. results/faults.md has the last results.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE),
    *(str(HERE.parent / part) for part in ("server", "client", "protocol", "hostile", ".")),
]

import simulation  # noqa: E402

LOT = 20
"""Number of seeds that one process runs before it reports."""


class Broken(Exception):
    """A promise was broken; the text says which."""


def simulate(options: argparse.Namespace) -> str:
    """Simulate the whole system from seeds."""
    if options.seed is not None:
        outcome = simulation.simulate(options.seed)
        print("\n".join([*outcome.blows, *outcome.faults, str(outcome)]))
        number, outcomes = 1, [outcome]
    else:
        number = options.seeds
        outcomes = list(_in_processes(options.processes, simulation.simulate, range(number)))
    blows = Counter(blow.split()[1] for outcome in outcomes for blow in outcome.blows)
    _raise_broken(outcomes)
    return (
        f"{number} seeds, {sum(one.games for one in outcomes)} games, "
        f"{sum(one.leaves for one in outcomes)} leaves, "
        f"{sum(one.weights for one in outcomes)} files of weights, which were taken into use "
        f"{sum(one.used for one in outcomes)} times, "
        f"{sum(one.messages for one in outcomes)} messages, "
        f"{sum(one.seconds for one in outcomes) / 3600:.1f} h of virtual "
        f"time; {', '.join(f'{number} {kind}' for kind, number in sorted(blows.items()))}: nothing "
        f"lost, nothing twice, no "
        "answer to another question"
    )


def games(options: argparse.Namespace) -> str:
    """Run fake games while 5 % of all messages are lost and 5 % come twice."""
    numbers = range(-(-options.games // simulation.LOSSY_GAMES))
    outcomes = list(_in_processes(options.processes, simulation.lossy, numbers))
    _raise_broken(outcomes)
    answers: Counter[str] = Counter()
    for outcome in outcomes:
        answers.update(outcome.answers)
    told = ", ".join(f"{number} {status}" for status, number in sorted(answers.items()))
    return (
        f"{sum(one.games for one in outcomes)} games, {sum(one.messages for one in outcomes)} "
        f"messages of which 5 % were lost "
        f"and 5 % came twice; answers: {told}. Nothing lost, nothing twice"
    )


def _raise_broken(outcomes: Iterable[Any]) -> None:
    broken = [f"seed {one.seed}: {'; '.join(one.faults)}" for one in outcomes if one.faults]
    if broken:
        raise Broken("\n".join([f"{len(broken)} seeds failed", *broken[:20]]))


def _in_processes(processes: int, work: Callable[[int], Any], numbers: range) -> Iterator[Any]:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(work, numbers, chunksize=LOT if len(numbers) > 4 * LOT else 1)


def crash(options: argparse.Namespace) -> str:
    """Kill with SIGKILL at each crash point of each scenario, each time it is reached."""
    kills: Counter[str] = Counter()
    for room in ("games", "games_archived", "takeover", "weights", "checkpoint"):
        command = [sys.executable, str(HERE / "crash_lab.py"), room, str(options.times)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Broken(done.stderr[-3000:])
        report = json.loads(done.stdout)
        if report["faults"]:
            raise Broken(f"{room}: {report['faults'][:20]}")
        kills.update(report["kills"])
    killed = f"{sum(kills.values())} processes killed at {len(kills)} points"
    return f"{killed}: nothing promised was missing, and each went on"


def power(options: argparse.Namespace) -> str:
    """Test every prefix of the writes, with subsets of the unsynced ones."""
    import power_loss

    found = []
    works = (
        ("spool", power_loss.spool_log, power_loss.check_spool),
        ("weights", power_loss.weights_log, power_loss.check_weights),
        ("store", power_loss.store_log, power_loss.check_store),
    )
    for name, record, check in works:
        with tempfile.TemporaryDirectory() as folder:
            log = record(Path(folder))
        try:
            states = power_loss.crash_everywhere(log, check, subsets=options.subsets, seed=1)
        except AssertionError as error:
            raise Broken(f"{name}: {error}") from error
        found.append(f"{name}: {len(log.entries)} operations, {states} states")
    return f"{'; '.join(found)}; all opened, and nothing promised was missing"


def fuzz(options: argparse.Namespace) -> str:
    """Decode mutated bytes with each decoder."""
    import fuzz as fuzzing

    reports = []
    for target in fuzzing.TARGETS:
        if options.names and target.name not in options.names:
            continue
        executions = max(1, int(options.executions * fuzzing.SHARES.get(target.name, 1.0)))
        reports.append(fuzzing.fuzz(target, executions, options.seed))
        print(reports[-1].text(), flush=True)
    failures = [f"{report.name}: {failure[:500]}" for report in reports for failure in report.failures]
    if failures:
        raise Broken("\n".join(failures))
    each = ", ".join(f"{report.name} {report.executions:,}" for report in reports)
    return f"no decoder raised what it may not, or took more time or memory than its bounds: {each}"


def _say(text: str) -> None:
    print(text, flush=True)


def signals(_options: argparse.Namespace) -> str:
    """Cause every fault of the table, and time how soon metric and log show it."""
    import signals as faults

    with tempfile.TemporaryDirectory(prefix="az-faults-") as folder:
        found = faults.measure(Path(folder), _say)
    late = {fault: seconds for fault, seconds in found.items() if seconds > faults.WANTED}
    if late:
        raise Broken(f"P8: later than {faults.WANTED:.0f} s: {late}")
    slowest = max(found, key=lambda fault: found[fault])
    return f"{len(found)} faults, each in metric and log within {found[slowest]:.0f} s ({slowest})"


def soak(options: argparse.Namespace) -> str:
    """Run for hours with changing clients and kills."""
    from soak import soak as run

    with tempfile.TemporaryDirectory(prefix="az-faults-") as folder:
        slopes = run(Path(folder), options.minutes, _say)
    return (
        f"{options.minutes:g} minutes with churn and kills; memory: {'; '.join(one.text() for one in slopes)}"
    )


def everything(options: argparse.Namespace) -> str:
    """Run everything but the soak, one after the other."""
    for work in WORKS[:-2]:
        _run(work, options)
    return ""


def _run(work: Callable[[argparse.Namespace], str], options: argparse.Namespace) -> None:
    begun = time.monotonic()
    figure = work(options)
    if figure:
        machine = f"load average {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores"
        print(f"{work.__name__}: {figure} ({machine}; {time.monotonic() - begun:.0f} s)", flush=True)


WORKS = (simulate, games, crash, power, fuzz, signals, soak, everything)


def main() -> int:
    """Return 0 if every promise held."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="processes of the simulation (default: one per core)",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {
        work.__name__: commands.add_parser(work.__name__, help=(work.__doc__ or "").replace("%", "%%"))
        for work in WORKS
    }
    numbers = (
        ("simulate", "--seeds", 10_000, "number of seeds"),
        ("games", "--games", 100_000, "number of games"),
        ("crash", "--times", 1000, "most passes of a point that are tried"),
        ("power", "--subsets", 20, "subsets of unsynced pages for each prefix"),
        ("fuzz", "--executions", 1_000_000, "executions of each decoder"),
    )
    for work, flag, usual, meaning in numbers:
        for name in (work, "everything"):
            parsers[name].add_argument(flag, type=int, default=usual, help=f"{meaning} (default {usual:,})")
    for name in ("simulate", "everything"):
        parsers[name].add_argument("--seed", type=int, help="run only this one, and print what happened")
    parsers["fuzz"].add_argument("--seed", type=int, default=1)
    parsers["fuzz"].add_argument("names", nargs="*", help="names of decoders; default: all")
    parsers["everything"].set_defaults(names=[])
    parsers["soak"].add_argument("--minutes", type=float, default=120.0, help="(default 120)")
    options = parser.parse_args()
    try:
        _run({work.__name__: work for work in WORKS}[options.command], options)
    except (Broken, AssertionError) as broken:
        print(f"BROKEN: {broken}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
