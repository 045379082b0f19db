"""`make peers`: other programs and ours, measured in turns; see bench/PEERS.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.peers.answering import Counts
from bench.peers.plan import OURS, TITLES, Group, commands, groups
from bench.peers.process import ROOT, Missing, Side
from bench.peers.tables import PAGE, Measured, figures, table, written_into
from bench.turns import in_turns
from search.warm import warm

PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NOTHING = Counts(1.0, None, 0.0)
"""Counts of a side that has failed."""
CACHE = ROOT / "build" / "peers-cache"


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
        asked = {name: partial(_turn, found, name, side, chosen.seconds) for name, side in sides.items()}
        measured = in_turns(asked, chosen.turns)
        found.turns = {name: turns for name, turns in measured.items() if name not in found.missing}
    finally:
        for side in sides.values():
            side.close()
    return found


def _turn(found: Measured, name: str, side: Side, seconds: float) -> Counts:
    if name not in found.missing:
        try:
            return side.measure(seconds)
        except Missing as reason:
            found.missing[name] = str(reason)
    return NOTHING


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


if __name__ == "__main__":
    sys.exit(main())
