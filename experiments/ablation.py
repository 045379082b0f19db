"""`python -m experiments.ablation NAME`: variants of a recipe at equal wall clock, with several seeds each.

A file of `experiments/ablations` names a recipe, minutes, seeds and variants. A variant is a table of
settings that replace the recipe's. The settings under `base` replace the recipe's in all variants, so that a
comparison stays the same when the recipe changes. Every run gets a core of its own; as many run at once as
there are cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from experiments.ablation_file import BASE, load
from experiments.ablation_job import settings_of
from experiments.ablation_page import PICTURE, page
from experiments.ablation_runs import run_all
from runtime.exits import Exit, Fatal, guarded
from runtime.runs import write_atomically


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.ablation", description=__doc__)
    parser.add_argument("name", help="a file of experiments/ablations, or any such file")
    parser.add_argument("--minutes", type=float, help="in place of the file's")
    parser.add_argument("--seeds", type=int, nargs="+", help="in place of the file's")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs themselves")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    return parser.parse_args(argv)


def _main() -> int:
    options = parse()
    from experiments.interval_picture import draw
    from experiments.results import write_overview  # imports torch, so not for --help

    ablation = load(options.name)
    minutes = ablation.minutes if options.minutes is None else options.minutes
    if minutes <= 0:
        raise Fatal("--minutes must be more than 0", Exit.CONFIG)
    ablation = replace(ablation, minutes=minutes, seeds=tuple(options.seeds or ablation.seeds))
    cores = sorted(os.sched_getaffinity(0))
    folder = options.out / f"ablation-{ablation.name}"
    runs = run_all(ablation, options.runs, cores, folder / "runs.json")
    draw(runs, BASE, folder / PICTURE, scale=100, unit="%")
    write_atomically(folder / "README.md", page(ablation, runs, settings_of(ablation.recipe), BASE).encode())
    write_overview(options.out)
    print(f"{folder / 'README.md'}: {len(runs)} runs")
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(_main))
