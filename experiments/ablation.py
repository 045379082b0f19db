"""`python -m experiments.ablation NAME`: variants of a recipe at equal wall clock, with several seeds each.

A file of `experiments/ablations` names a recipe, minutes, seeds and variants. A variant is a table of
settings that replace the recipe's. The settings under `base` replace the recipe's in all variants, so that a
comparison stays the same when the recipe changes. Every run gets a core of its own; as many run at once as
there are cores.
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
from experiments.ablation_table import remarks, table
from experiments.recipe import Recipe
from runtime.config import to_toml
from runtime.exits import Exit, Fatal, guarded
from runtime.runs import write_atomically

FOLDER = Path(__file__).parent / "ablations"
BASE = "as the recipe"
PICTURE = "intervals.png"
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
        _check_names(ablation)
        return ablation
    except FileNotFoundError as error:
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.toml")))
        raise Fatal(f"there is no ablation {name!r}; there are {known}", Exit.CONFIG) from error
    except KeyError as error:
        raise Fatal(f"{path} names no recipe", Exit.CONFIG) from error
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise Fatal(f"{path} is wrong: {error}", Exit.CONFIG) from error


def _check_names(ablation: Ablation) -> None:
    """Raise Fatal(CONFIG) if two variants would share the folders of their runs."""
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

    def what(self) -> dict[str, Any]:
        """What was run, whatever the machine, for the file of results."""
        compared = settings_of(self.recipe)
        return {"variant": self.variant, "seed": self.seed, "minutes": self.minutes, "settings": compared}


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
    trained = train(job.recipe, job.seed, job.runs, job.minutes, run=run, tell=lambda _: None)
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
        if (recipes.under_new_names(one["settings"]), one["minutes"]) != (settings, ablation.minutes):
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


def minutes_text(minutes: float) -> str:
    """With its unit."""
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"


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


def what_came(run: Mapping[str, Any]) -> str:
    """A message about a run that has ended."""
    if not run["games"]:
        return (
            "ended. WARNING: no games, so its figures are those of an untrained network: give more --minutes"
        )
    return f"ended, with {run['games']:,} games and {run['steps']:,} steps"


def run_all(
    ablation: Ablation, runs: Path, cores: Sequence[int | None], results: Path
) -> list[dict[str, Any]]:
    """Do all runs that are not yet in `results`, seed by seed, so that an early end leaves complete
    comparisons."""
    done = finished(ablation, results)
    known = {(one["variant"], one["seed"]) for one in done}
    cycle = itertools.cycle(cores)
    jobs = [
        Job(name, recipe, seed, ablation.minutes, runs, next(cycle))
        for seed in ablation.seeds
        for name, recipe in ablation.all().items()
        if (name, seed) not in known
    ]
    if jobs:
        tell(whole_time(jobs, len(cores)))
        warm_up([job.recipe for job in jobs])
    for first in range(0, len(jobs), len(cores)):
        done += side_by_side(jobs, slice(first, first + len(cores)))
        results.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(
            results, (json.dumps({"title": ablation.title, "runs": done}, indent=1) + "\n").encode()
        )
    return done


def page(ablation: Ablation, runs: Sequence[Mapping[str, Any]]) -> str:
    """The results for people."""
    recipe = to_toml(settings_of(ablation.recipe))
    processors, commits = (", ".join(sorted({one[key] for one in runs})) for key in ("processor", "commit"))
    variants = "\n".join(f"- `{name}`: `{json.dumps(one)}`" for name, one in ablation.variants.items())
    return (
        f"# {ablation.title}\n\n"
        f"`python -m experiments.ablation {ablation.name}`: {minutes_text(ablation.minutes)} a run, one core "
        f"of {processors}, commit {commits}. Mean over seeds with its 95 % "
        "interval (Student's t, the spread of runs taken as common to all variants); in brackets the "
        "difference from the recipe. Each variant searches as it trained.\n\n"
        f"{table(runs, BASE)}\n\n{remarks(runs)}"
        f"![Each run, and the mean of each variant with its interval]({PICTURE})\n\n"
        f"Variants, laid over the recipe:\n\n{variants}\n\n"
        f"The recipe, `{ablation.recipe.name}`, as compared:\n\n```toml\n{recipe}```\n"
    )


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
    write_atomically(folder / "README.md", page(ablation, runs).encode())
    write_overview(options.out)
    print(f"{folder / 'README.md'}: {len(runs)} runs")
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(guarded(_main))
