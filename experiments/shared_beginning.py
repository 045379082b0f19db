"""The run of each seed that all its variants continue, in an ablation with `after_minutes`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.ablation_page import minutes_text
from experiments.recipe import Recipe
from runtime.exits import Fatal
from runtime.runs import RunFolder

if TYPE_CHECKING:
    from experiments.ablation import Job


def begin_all(
    recipe: Recipe, jobs: Sequence[Job], cores: Sequence[int | None], tell: Callable[[str], None]
) -> None:
    """Train the recipe once for each seed of `jobs`, unless they begin from nothing or that is done."""
    first = {job.seed: replace(job, recipe=recipe, minutes=job.after_minutes) for job in jobs}
    missing = [job for job in first.values() if job.beginning and not is_finished(job.beginning)]
    for begun in range(0, len(missing), len(cores)):
        together = missing[begun : begun + len(cores)]
        seeds = ", ".join(str(job.seed) for job in together)
        tell(f"the beginning of seed {seeds}: {minutes_text(together[0].minutes)}")
        with ProcessPoolExecutor(len(together)) as pool:
            list(pool.map(begin_one, together, cores))


def begin_one(job: Job, core: int | None) -> None:
    """Train a beginning. Runs in a process of its own."""
    from experiments.training import train

    if core is not None:
        os.sched_setaffinity(0, {core})
    assert job.beginning is not None
    train(job.recipe, job.seed, job.runs, job.minutes, run=job.beginning.name, tell=lambda _: None)


def is_finished(folder: RunFolder) -> bool:
    """Whether `folder` holds a finished run."""
    from experiments.training import read_trained

    try:
        read_trained(folder)
    except Fatal:
        return False
    return True
