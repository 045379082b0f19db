"""The run of each seed that all its variants continue, in an ablation with `after_minutes`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.ablation_page import minutes_text
from experiments.recipe import Recipe
from runtime.exits import Exit, Fatal
from runtime.runs import RunFolder, write_atomically

if TYPE_CHECKING:
    from experiments.ablation_job import Job

SETTINGS = "recipe/settings.json"
"""File in a finished beginning: the settings that it was trained with."""


def missing_beginnings(recipe: Recipe, jobs: Sequence[Job]) -> list[Job]:
    """Return a job for each seed of `jobs` whose beginning must be trained; none if they begin from nothing.
    Raises Fatal(CONFIG) for a beginning that was trained with other settings."""
    first = {job.seed: replace(job, recipe=recipe, minutes=job.after_minutes) for job in jobs}
    return [job for job in first.values() if job.beginning and not is_finished(job, job.beginning)]


def begin_all(missing: Sequence[Job], cores: Sequence[int | None], tell: Callable[[str], None]) -> None:
    """Train these beginnings, as many at a time as there are cores."""
    for begun in range(0, len(missing), len(cores)):
        together = missing[begun : begun + len(cores)]
        seeds = ", ".join(str(job.seed) for job in together)
        tell(f"the beginning of seed {seeds}: {minutes_text(together[0].minutes)}")
        with ProcessPoolExecutor(len(together)) as pool:
            list(pool.map(begin_one, together, cores))


def begin_one(job: Job, core: int | None) -> None:
    """Train a beginning. Runs in a process of its own."""
    from experiments.training import remove_unfinished, train

    if core is not None:
        os.sched_setaffinity(0, {core})
    assert job.beginning is not None
    remove_unfinished(job.beginning)
    train(job.recipe, job.seed, job.runs, job.minutes, run=job.beginning.name, tell=lambda _: None)
    write_atomically(job.beginning.path / SETTINGS, json.dumps(job.what()["settings"]).encode())


def is_finished(job: Job, folder: RunFolder) -> bool:
    """Whether `folder` holds the finished beginning of `job`. Raises Fatal(CONFIG) if it has other
    settings."""
    try:
        found = json.loads((folder.path / SETTINGS).read_bytes())
    except OSError:
        return False
    if found != json.loads(json.dumps(job.what()["settings"])):
        raise Fatal(
            f"{folder.path} was trained with other settings than the recipe has now: remove or move it",
            Exit.CONFIG,
        )
    return True
