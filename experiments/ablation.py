"""`python -m experiments.ablation NAME`: variants of a recipe at equal wall clock, with several seeds each.

A file of `experiments/ablations` names a recipe, minutes, seeds and variants. A variant is a table of
settings that replace the recipe's. The settings under `base` replace the recipe's in all variants, so that a
comparison stays the same when the recipe changes. Every run gets a core of its own; as many run at once as
there are cores. With `after_minutes`, all runs of a seed continue copies of one run of the recipe that has
been trained for so long: that compares settings for the later part of a run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from experiments import recipe as recipes
from experiments.ablation_page import PICTURE, minutes_text, page, what_came
from experiments.recipe import Recipe
from experiments.shared_beginning import begin_all
from runtime.exits import Exit, Fatal, guarded
from runtime.runs import RunFolder, write_atomically

FOLDER = Path(__file__).parent / "ablations"
BASE = "as the recipe"
BEGINNING = "beginning"
"""Stands for the variant in the name of a run that others continue."""
ONLY_THE_FIRST = 1e9
"""Minutes between two snapshots, so that only the last network is compared."""
NOT_OURS = (
    *("title", "minutes", "clock", "seeds", "snapshot_minutes", "most_games", "targets"),
    *("opponents", "opening"),
)
"""Settings of a recipe that do not affect training, or that an ablation sets itself."""
WARM_UP_MINUTES = 1.5
"""Enough for games, training and a second network."""


@dataclass(frozen=True)
class Ablation:
    """A comparison of variants."""

    name: str
    title: str
    recipe: Recipe
    minutes: float
    seeds: tuple[int, ...]
    variants: Mapping[str, Mapping[str, Any]]
    """Variants by name: `net`, `simulations`, `server`, `trainer` as in a recipe. They replace the recipe's
    settings, table by table."""
    after_minutes: float = 0.0
    """Minutes that the recipe is trained for before its variants begin; 0: they begin from nothing."""

    def all(self) -> dict[str, Recipe]:
        """The recipe itself and its variants."""
        return {BASE: self.recipe} | {name: varied(self.recipe, one) for name, one in self.variants.items()}


def load(name: str) -> Ablation:
    """The ablation `name` of `experiments/ablations`, or of the TOML file `name`. Raises Fatal(CONFIG) if it
    is missing or invalid."""
    from experiments.judges import check_judge  # imports compiled code, so not for --help

    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        found = tomllib.loads(path.read_text())
        recipe, base = recipes.load(found.pop("recipe")), found.pop("base", {})
        if not isinstance(base, Mapping):
            raise Fatal(f"{path}: `base` must be a table of settings, not {base!r}", Exit.CONFIG)
        recipe = varied(recipe, base)
        check_judge(recipe)
        whole = {**found, "name": path.stem, "recipe": replace(recipe, snapshot_minutes=ONLY_THE_FIRST)}
        ablation = msgspec.convert(whole, Ablation)
        _check(ablation, path)
        return ablation
    except FileNotFoundError as error:
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.toml")))
        raise Fatal(f"there is no ablation {name!r}; there are {known}", Exit.CONFIG) from error
    except KeyError as error:
        raise Fatal(f"{path} names no recipe", Exit.CONFIG) from error
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Fatal(f"{path} is wrong: {error}", Exit.CONFIG) from error


def _check(ablation: Ablation, path: Path) -> None:
    """Raise Fatal(CONFIG) for minutes that no run can have, or if two variants would share the folders of
    their runs."""
    if ablation.minutes <= 0 or ablation.after_minutes < 0:
        raise Fatal(
            f"{path}: minutes must be more than 0, and after_minutes 0 (begin from nothing) or more",
            Exit.CONFIG,
        )
    first: dict[str, str] = {}
    for variant in ablation.all():
        other = first.setdefault(run_name(ablation.recipe, variant, 1), variant)
        if other != variant:
            raise Fatal(
                f"the variants {other!r} and {variant!r} of {ablation.name} differ in punctuation only, but "
                "their run folders are named by letters and digits; rename one",
                Exit.CONFIG,
            )


def varied(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """`recipe` with `changes` to its settings. Raises Fatal(CONFIG) if they are invalid."""
    return recipes.from_settings(recipe.name, _laid_over(recipes.to_settings(recipe), changes))


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(above, Mapping) or not isinstance(below, Mapping):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


@dataclass(frozen=True)
class Job:
    """One run of one variant."""

    variant: str
    recipe: Recipe
    seed: int
    minutes: float
    runs: Path
    core: int | None
    """The core that all its processes are bound to; None: any."""
    after_minutes: float = 0.0
    """Minutes of the beginning that it continues; 0: none."""

    def what(self) -> dict[str, Any]:
        """What was run, whatever the machine, for the file of results."""
        what = {"variant": self.variant, "seed": self.seed, "minutes": self.minutes}
        if self.after_minutes:
            what["after_minutes"] = self.after_minutes
        return {**what, "settings": settings_of(self.recipe)}

    @property
    def beginning(self) -> RunFolder | None:
        """The run that it continues a copy of."""
        if not self.after_minutes:
            return None
        name = run_name(self.recipe, f"{BEGINNING}-{self.after_minutes:g}-minutes", self.seed)
        return RunFolder(self.runs, name)


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The recipe's settings that affect a run: minutes and seeds are set by the ablation."""
    return {name: value for name, value in recipes.to_settings(recipe).items() if name not in NOT_OURS}


def run_name(recipe: Recipe, variant: str, seed: int) -> str:
    """Name of the run's folder. Of the variant's name, letters, digits and dots are kept; everything else
    becomes a hyphen."""
    return f"{recipe.name}-{re.sub('[^A-Za-z0-9.]+', '-', variant)}-seed{seed}"


def run_one(job: Job) -> dict[str, Any]:
    """Train and measure. Runs in a process of its own."""
    from experiments.judges import brief
    from experiments.machine import describe_machine
    from experiments.training import train

    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    run = run_name(job.recipe, job.variant, job.seed)
    trained = train(
        job.recipe,
        job.seed,
        job.runs,
        job.minutes,
        run=run,
        beginning=job.beginning,
        tell=lambda _: None,
    )
    machine = describe_machine()
    return {
        **job.what(),
        **{key: machine[key] for key in ("processor", "commit")},
        "games": trained.summary["games"],
        "steps": trained.summary["steps"],
        "figures": brief(trained, job.recipe),
    }


def kinds(variants: Sequence[Recipe]) -> list[Recipe]:
    """The first recipe of each selection: kernels are compiled for each selection."""
    first: dict[str, Recipe] = {}
    for one in variants:
        search = one.server.get("self_play", {}).get("search", {})
        first.setdefault(search.get("selection", ""), one)
    return list(first.values())


def warm_up(variants: Sequence[Recipe]) -> None:
    """Runs that compile all kernels, so that the compared runs lose no time."""
    from experiments.training import train

    for number, one in enumerate(kinds(variants)):
        with TemporaryDirectory() as folder:
            train(one, 1, Path(folder), WARM_UP_MINUTES, run=f"warm-up-{number}", tell=lambda _: None)


def finished(ablation: Ablation, results: Path) -> list[dict[str, Any]]:
    """The runs in the file `results`. Raises Fatal(CONFIG) if one was made with other settings than the
    present ones."""
    done: list[dict[str, Any]] = json.loads(results.read_bytes())["runs"] if results.exists() else []
    now = ablation.all()
    for one in done:
        variant = one["variant"]
        settings = settings_of(now[variant]) if variant in now else None
        found = recipes.under_new_names(one["settings"]), one["minutes"], one.get("after_minutes", 0.0)
        if found != (settings, ablation.minutes, ablation.after_minutes):
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
    seeds = len({job.seed for job in jobs})
    beginnings = jobs[0].after_minutes * math.ceil(seeds / min(cores, seeds))
    minutes = warming + beginnings + jobs[0].minutes * math.ceil(len(jobs) / together)
    runs = f"{len(jobs)} run{'' if len(jobs) == 1 else 's'}"
    return (
        f"{runs} of {minutes_text(jobs[0].minutes)}, {together} at a time: about "
        f"{minutes_text(math.ceil(minutes))} in all, the first {minutes_text(warming)} of them to compile"
    )


def side_by_side(jobs: Sequence[Job], now: slice) -> list[dict[str, Any]]:
    """The results of the jobs `now`, in their order; prints when each begins and ends."""
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
            tell(f"{names[running[ended]]}: {what_came(ended.result())}")
        return [one.result() for one in running]


def run_all(
    ablation: Ablation, runs: Path, cores: Sequence[int | None], results: Path
) -> list[dict[str, Any]]:
    """Do all runs that are not yet in `results`, seed by seed, so that an early end leaves complete
    comparisons."""
    done = finished(ablation, results)
    known = {(one["variant"], one["seed"]) for one in done}
    cycle = itertools.cycle(cores)
    jobs = [
        Job(name, recipe, seed, ablation.minutes, runs, next(cycle), ablation.after_minutes)
        for seed in ablation.seeds
        for name, recipe in ablation.all().items()
        if (name, seed) not in known
    ]
    if jobs:
        tell(whole_time(jobs, len(cores)))
        warm_up([job.recipe for job in jobs])
        begin_all(ablation.recipe, jobs, cores, tell)
    for first in range(0, len(jobs), len(cores)):
        done += side_by_side(jobs, slice(first, first + len(cores)))
        results.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(
            results, (json.dumps({"title": ablation.title, "runs": done}, indent=1) + "\n").encode()
        )
    return done


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
