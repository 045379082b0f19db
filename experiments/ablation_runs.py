"""The runs of an ablation: which are missing, and doing them side by side, each on a core of its own."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.ablation_file import Ablation, run_name
from experiments.ablation_job import Job, settings_of
from experiments.ablation_page import minutes_text, what_came
from experiments.recipe import Recipe
from runtime.config import flattened
from runtime.exits import Exit, Fatal
from runtime.runs import RunFolder, write_atomically
from trainer.config import TrainerConfig

WARM_UP_MINUTES = 1.5
"""Enough for games, training and a second network."""


def run_one(job: Job) -> dict[str, Any]:
    """Train and measure. Runs in a process of its own."""
    from experiments.judges import brief
    from experiments.machine import describe_machine
    from experiments.training import remove_unfinished, train, trained_before

    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    folder = RunFolder(job.runs, run_name(job.recipe, job.variant, job.seed))
    remove_unfinished(folder)
    # One that was interrupted while it was judged is only judged again.
    trained = trained_before(folder, job.recipe, job.minutes) or train(
        job.recipe,
        job.seed,
        job.runs,
        job.minutes,
        run=folder.name,
        tell=lambda _: None,
    )
    machine = describe_machine()
    return {
        **job.what(),
        **{key: machine[key] for key in ("processor", "commit")},
        **{name: trained.summary[name] for name in ("games", "steps")},
        "figures": brief(trained, job.recipe),
    }


def kinds(variants: Sequence[Recipe]) -> list[Recipe]:
    """The first recipe of each group that needs the same kernels: they are compiled for each selection, and
    for some methods only where these are used."""
    first: dict[tuple[Any, ...], Recipe] = {}
    for one in variants:
        search = one.server.get("self_play", {}).get("search", {})
        wins_share = one.trainer.get("samples", {}).get("wins_share")
        first.setdefault((search.get("selection", ""), bool(wins_share)), one)
    return list(first.values())


def warm_up(variants: Sequence[Recipe]) -> None:
    """Runs that compile all kernels, so that the compared runs lose no time."""
    from experiments.training import train

    for number, one in enumerate(kinds(variants)):
        with TemporaryDirectory() as folder:
            train(one, 1, Path(folder), WARM_UP_MINUTES, run=f"warm-up-{number}", tell=lambda _: None)


def comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """A recipe's settings without those of the trainer that have their default value: a run from before a
    setting existed had its default."""
    defaults = flattened(asdict(TrainerConfig()))
    trainer = flattened(settings["trainer"]).items()
    return settings | {"trainer": {name: value for name, value in trainer if defaults.get(name) != value}}


def finished(ablation: Ablation, results: Path) -> list[dict[str, Any]]:
    """The runs in the file `results`. Raises Fatal(CONFIG) if one was made with other settings than the
    present ones."""
    done: list[dict[str, Any]] = json.loads(results.read_bytes())["runs"] if results.exists() else []
    now = ablation.all()
    for one in done:
        variant = one["variant"]
        settings = comparable(settings_of(now[variant])) if variant in now else None
        theirs = comparable(one["settings"])
        if (theirs, one["minutes"]) != (settings, ablation.minutes):
            raise Fatal(
                f"{results} holds a run of {variant!r} with other minutes or settings than "
                f"{ablation.name} has now, and the two cannot be compared; move that file away, or choose "
                "another --out",
                Exit.CONFIG,
            )
    return done


def tell(text: str) -> None:
    """Print progress, for people."""
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def whole_time(jobs: Sequence[Job], cores: int) -> str:
    """How long all runs will take, not counting the judging."""
    together = min(cores, len(jobs))
    warming = WARM_UP_MINUTES * len(kinds([job.recipe for job in jobs]))
    minutes = warming + jobs[0].minutes * math.ceil(len(jobs) / together)
    runs = f"{len(jobs)} run{'' if len(jobs) == 1 else 's'}"
    return (
        f"{runs} of {minutes_text(jobs[0].minutes)}, {together} at a time: about "
        f"{minutes_text(math.ceil(minutes))} in all, the first {minutes_text(warming)} of them to compile"
    )


def side_by_side(jobs: Sequence[Job], now: slice) -> Iterator[dict[str, Any]]:
    """Yield the results of the jobs `now` as they end; prints when each begins and ends. An error of one is
    raised when all have ended."""
    numbered = list(enumerate(jobs, 1))[now]
    names = {
        number: f"run {number} of {len(jobs)}, {job.variant}, seed {job.seed}" for number, job in numbered
    }
    # New processes for each batch, because a process stays bound to its core.
    with ProcessPoolExecutor(len(numbered)) as pool:
        running: dict[Future[dict[str, Any]], int] = {}
        for number, job in numbered:
            running[pool.submit(run_one, job)] = number
            tell(f"{names[number]}: begins, for {minutes_text(job.minutes)}")
        for ended in as_completed(running):
            if ended.exception() is None:
                tell(f"{names[running[ended]]}: {what_came(ended.result())}")
                yield ended.result()
        for one in running:
            one.result()


def run_all(
    ablation: Ablation, runs: Path, cores: Sequence[int | None], results: Path
) -> list[dict[str, Any]]:
    """Do all runs that are not yet in `results`, seed by seed, so that an early end leaves complete
    comparisons."""
    done, variants = finished(ablation, results), list(ablation.all())
    known = {(one["variant"], one["seed"]) for one in done}
    # Other ablations of the recipe have runs of the same names.
    cycle, runs = itertools.cycle(cores), runs / f"ablation-{ablation.name}"
    jobs = [
        Job(name, recipe, seed, ablation.minutes, runs, next(cycle))
        for seed in ablation.seeds
        for name, recipe in ablation.all().items()
        if (name, seed) not in known
    ]
    if not jobs:
        tell(f"all {len(done)} runs are in {results} already; to run them again, give another --out")
    else:
        tell(whole_time(jobs, len(cores)))
        warm_up([job.recipe for job in jobs])
    for first in range(0, len(jobs), len(cores)):
        for run in side_by_side(jobs, slice(first, first + len(cores))):
            done.append(run)
            done.sort(key=lambda one: (one["seed"], variants.index(one["variant"])))
            results.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"title": ablation.title, "runs": done}, indent=1)
            write_atomically(results, f"{text}\n".encode())
    return done
