"""`python -m azselfplay.lab.experiments.ablation NAME`: variants of a recipe at equal wall clock, with
several seeds each.

A file of `experiments/ablations` names a recipe, minutes, seeds and variants. A variant is a table of
settings that replace the recipe's. The settings under `base` replace the recipe's in all variants, so that a
comparison stays the same when the recipe changes. Every run gets a core of its own; as many run at once as
this process may use cores. Runs that are in the file of results already are not done again, if their settings
are still those of today.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from azselfplay.host.config import flattened, to_toml
from azselfplay.host.exits import Exit, Fatal, guarded
from azselfplay.host.hardware import usable_cores
from azselfplay.host.processes import ending_with_parent
from azselfplay.host.reading import read_toml
from azselfplay.host.runs import RunFolder, RunLock, write_atomically
from azselfplay.lab.experiments import recipe as recipes
from azselfplay.lab.experiments.intervals import remarks, table
from azselfplay.lab.experiments.recipe import Recipe
from trainer.config import TrainerConfig

FOLDER = Path(__file__).parent / "ablations"

BASE = "as the recipe"

ONLY_THE_FIRST = 1e9
"""Minutes between two snapshots, so large that only the last network is compared."""

NOT_OURS = (
    *("title", "minutes", "clock", "seeds", "snapshot_minutes", "most_games", "targets"),
    *("opponents", "opening", "default_on"),
)
"""Settings of a recipe that do not affect training, or that an ablation sets itself."""

WARM_UP_MINUTES = 1.5
"""Minutes of a warm-up run: enough for games, training and a second network."""

PICTURE = "intervals.png"


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m azselfplay.lab.experiments.ablation", description=__doc__
    )
    parser.add_argument("name", help="a file of experiments/ablations, or any such file")
    parser.add_argument("--minutes", type=float, help="in place of the file's")
    parser.add_argument("--seeds", type=int, nargs="+", help="in place of the file's")
    parser.add_argument("--variants", nargs="+", help="only these, beside the recipe as it is")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs themselves")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results")
    return parser.parse_args(argv)


def main() -> int:
    """Entry point of the process."""
    options = parse()
    from azselfplay.lab.experiments.intervals import draw
    from azselfplay.lab.experiments.results import write_overview  # imports torch, so not for --help

    ablation = load(options.name)
    minutes = ablation.minutes if options.minutes is None else options.minutes
    if minutes <= 0:
        raise Fatal("--minutes must be more than 0", Exit.CONFIG)
    ablation = replace(ablation, minutes=minutes, seeds=tuple(options.seeds or ablation.seeds))
    # Use only the cores that this process may use, and no more than its container's quota.
    cores = sorted(os.sched_getaffinity(0))[: usable_cores()]
    folder = options.out / f"ablation-{ablation.name}"
    options.runs.mkdir(parents=True, exist_ok=True)
    try:
        lock = RunLock(options.runs / f".ablation-{ablation.name}")
    except BlockingIOError as error:
        text = f"another process makes the runs of {ablation.name} in {options.runs} at this moment"
        raise Fatal(text, Exit.TRY_AGAIN) from error
    # Two processes would use the same cores, and each would write a table without the other's runs.
    with lock:
        runs = run_all(ablation, options.runs, cores, folder / "runs.json", options.variants)
        draw(runs, BASE, folder / PICTURE, scale=100, unit="%")
        write_atomically(folder / "README.md", page(ablation, runs).encode())
    write_overview(options.out)
    print(f"{folder / 'README.md'}: {len(runs)} runs")
    return int(Exit.OK)


# ---- The file -----------------------------------------------------------------------------------


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
        """Return the recipe itself and its variants."""
        return {BASE: self.recipe} | {name: varied(self.recipe, one) for name, one in self.variants.items()}


def load(name: str) -> Ablation:
    """Return the ablation `name` of `experiments/ablations`, or of the TOML file `name`. Raises Fatal(CONFIG)
    if it is missing or invalid."""
    from azselfplay.lab.experiments.measures import check_judge  # imports compiled code, so not for --help

    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        found = read_toml(path)
        recipe, base = recipes.load(found.pop("recipe")), found.pop("base", {})
        if not isinstance(base, Mapping):
            raise Fatal(f"{path}: `base` must be a table of settings, not {base!r}", Exit.CONFIG)
        recipe = varied(recipe, base)
        check_judge(recipe)
        whole = {**found, "name": path.stem, "recipe": replace(recipe, snapshot_minutes=ONLY_THE_FIRST)}
        ablation = msgspec.convert(whole, Ablation)
        if ablation.minutes <= 0:
            raise Fatal(f"{path}: minutes must be more than 0", Exit.CONFIG)
        # If two variants had the same run folder, the same runs would count twice.
        first: dict[str, str] = {}
        for variant in ablation.all():
            other = first.setdefault(run_name(recipe, variant, 1), variant)
            if other != variant:
                raise Fatal(
                    f"the variants {other!r} and {variant!r} of {ablation.name} differ in punctuation only, "
                    "but their run folders are named by letters and digits; rename one",
                    Exit.CONFIG,
                )
        return ablation
    except FileNotFoundError as error:
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.toml")))
        raise Fatal(f"there is no ablation {name!r}; there are {known}", Exit.CONFIG) from error
    except KeyError as error:
        raise Fatal(f"{path} names no recipe", Exit.CONFIG) from error
    except (OSError, ValueError) as error:
        raise Fatal(f"{path} is wrong: {error}", Exit.CONFIG) from error


def varied(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return `recipe` with `changes` to its settings. Raises Fatal(CONFIG) if they are invalid."""
    return recipes.from_settings(recipe.name, _laid_over(recipes.to_settings(recipe), changes))


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(above, Mapping) or not isinstance(below, Mapping):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def run_name(recipe: Recipe, variant: str, seed: int) -> str:
    """Return the name of the run's folder. Letters, digits and dots of the variant's name are kept;
    everything else becomes a hyphen."""
    return f"{recipe.name}-{re.sub('[^A-Za-z0-9.]+', '-', variant)}-seed{seed}"


# ---- The runs -----------------------------------------------------------------------------------


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
        """Return a description of the run, without the machine, for the file of results."""
        settings = settings_of(self.recipe)
        return {"variant": self.variant, "seed": self.seed, "minutes": self.minutes, "settings": settings}


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe's settings that affect a run: minutes and seeds are set by the ablation."""
    return {name: value for name, value in recipes.to_settings(recipe).items() if name not in NOT_OURS}


def run_all(
    ablation: Ablation,
    runs: Path,
    cores: Sequence[int | None],
    results: Path,
    wanted: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Do all runs that are not yet in `results`, seed by seed, so that an early end leaves complete
    comparisons. `wanted`: only these variants, beside the recipe. Returns all runs that are in `results`
    then. Raises Fatal(CONFIG) for an unknown variant."""
    done, variants = finished(ablation, results), list(ablation.all())
    if unknown := set(wanted or ()) - set(variants):
        names = ", ".join(map(repr, ablation.variants))
        raise Fatal(f"{ablation.name} has no variant {min(unknown)!r}; it has {names}", Exit.CONFIG)
    known = {(one["variant"], one["seed"]) for one in done}
    # Use a separate folder, because other ablations of the recipe have runs with the same names.
    cycle, runs = itertools.cycle(cores), runs / f"ablation-{ablation.name}"
    jobs = [
        Job(name, recipe, seed, ablation.minutes, runs, next(cycle))
        for seed in ablation.seeds
        for name, recipe in ablation.all().items()
        if (name, seed) not in known and (wanted is None or name in (BASE, *wanted))
    ]
    if not jobs:
        tell(f"all {len(done)} runs are in {results} already; to run them again, give another --out")
    else:
        tell(whole_time(jobs, len(cores)))
        warm_up([job.recipe for job in jobs])
    for first in range(0, len(jobs), len(cores)):
        for run in side_by_side(jobs, slice(first, first + len(cores))):
            done.append(run)
            # Keep the same order, whichever run ended first.
            done.sort(key=lambda one: (one["seed"], variants.index(one["variant"])))
            results.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"title": ablation.title, "runs": done}, indent=1)
            # Write after each run, because an ablation takes hours and can be continued where it was stopped.
            write_atomically(results, f"{text}\n".encode())
    return done


def finished(ablation: Ablation, results: Path) -> list[dict[str, Any]]:
    """Return the runs in the file `results`. Raises Fatal(CONFIG) if one was made with other settings than
    the present ones."""
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


def comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe's settings without trainer settings that have their default value, because a run that
    is older than a setting used its default."""
    defaults = flattened(asdict(TrainerConfig()))
    trainer = flattened(settings["trainer"]).items()
    return settings | {"trainer": {name: value for name, value in trainer if defaults.get(name) != value}}


def whole_time(jobs: Sequence[Job], cores: int) -> str:
    """Return text about how long all runs will take, not counting the judging."""
    together = min(cores, len(jobs))
    warming = WARM_UP_MINUTES * len(kinds([job.recipe for job in jobs]))
    minutes = warming + jobs[0].minutes * math.ceil(len(jobs) / together)
    runs = f"{len(jobs)} run{'' if len(jobs) == 1 else 's'}"
    return (
        f"{runs} of {minutes_text(jobs[0].minutes)}, {together} at a time: about "
        f"{minutes_text(math.ceil(minutes))} in all, the first {minutes_text(warming)} of them to compile"
    )


def warm_up(variants: Sequence[Recipe]) -> None:
    """Make short runs that compile all kernels, so that the compared runs lose no time."""
    from azselfplay.lab.experiments.training import train

    for number, one in enumerate(kinds(variants)):
        with TemporaryDirectory() as folder:
            train(one, 1, Path(folder), WARM_UP_MINUTES, run=f"warm-up-{number}", tell=lambda _: None)


def kinds(variants: Sequence[Recipe]) -> list[Recipe]:
    """Return the first recipe of each group that needs the same kernels. Kernels are compiled for each
    selection, and for some methods only if they are used."""
    first: dict[tuple[Any, ...], Recipe] = {}
    for one in variants:
        search = one.server.get("self_play", {}).get("search", {})
        wins_share = one.trainer.get("samples", {}).get("wins_share")
        first.setdefault((search.get("selection", ""), bool(wins_share)), one)
    return list(first.values())


def side_by_side(jobs: Sequence[Job], now: slice) -> Iterator[dict[str, Any]]:
    """Yield the results of the jobs `now` as they end; prints when each begins and ends. An error of one is
    raised when all have ended."""
    numbered = list(enumerate(jobs, 1))[now]
    names = {
        number: f"run {number} of {len(jobs)}, {job.variant}, seed {job.seed}" for number, job in numbered
    }
    # Each batch needs new processes, because a process stays bound to its core.
    # They end with this one, else they would hold its lock for ever. With "forkserver" we would not be their
    # parent.
    fork, ends = get_context("fork"), ending_with_parent(signal.SIGTERM)
    with ProcessPoolExecutor(len(numbered), mp_context=fork, initializer=ends) as pool:
        running: dict[Future[dict[str, Any]], int] = {}
        for number, job in numbered:
            running[pool.submit(run_one, job)] = number
            tell(f"{names[number]}: begins, for {minutes_text(job.minutes)}")
        for ended in as_completed(running):
            if ended.exception() is None:
                tell(f"{names[running[ended]]}: {outcome_text(ended.result())}")
                yield ended.result()
        # Raise errors only now, so that the error of one run loses no other run's result.
        for one in running:
            one.result()


def run_one(job: Job) -> dict[str, Any]:
    """Train and measure. Runs in a process of its own."""
    from azselfplay.lab.experiments.measures import brief
    from azselfplay.lab.experiments.training import describe_machine, remove_unfinished, train, trained_before

    if job.core is not None:
        os.sched_setaffinity(0, {job.core})  # before azrun starts: its processes inherit the affinity
    folder = RunFolder(job.runs, run_name(job.recipe, job.variant, job.seed))
    remove_unfinished(folder)
    # A run that was interrupted during judging is only judged again.
    trained = trained_before(folder, job.recipe, job.minutes) or train(
        job.recipe, job.seed, job.runs, job.minutes, run=folder.name, tell=lambda _: None
    )
    machine = describe_machine()
    return {
        **job.what(),
        **{key: machine[key] for key in ("processor", "commit")},
        **{name: trained.summary[name] for name in ("games", "steps")},
        "figures": brief(trained, job.recipe),
    }


def tell(text: str) -> None:
    """Print progress, for people."""
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


# ---- What people read ---------------------------------------------------------------------------


def page(ablation: Ablation, runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a page for people."""
    processors, commits = (", ".join(sorted({one[key] for one in runs})) for key in ("processor", "commit"))
    variants = "\n".join(f"- `{name}`: `{json.dumps(one)}`" for name, one in ablation.variants.items())
    recipe = to_toml(settings_of(ablation.recipe))
    search = ablation.recipe.judge_search
    judged = f"All search with {search}." if search else "Each variant searches as it trained."
    return (
        f"# {ablation.title}\n\n"
        f"`python -m azselfplay.lab.experiments.ablation {ablation.name}`: "
        f"{minutes_text(ablation.minutes)} a run, "
        f"one core of {processors}, commit {commits}. Mean over seeds with its 95 % "
        "interval (Student's t, the spread of runs taken as common to all variants); in brackets the "
        f"difference from the recipe. {judged}\n\n"
        f"{table(runs, BASE)}\n\n{remarks(runs)}"
        f"![Each run, and the mean of each variant with its interval]({PICTURE})\n\n"
        f"Variants, laid over the recipe:\n\n{variants}\n\n"
        f"The recipe, `{ablation.recipe.name}`, as compared:\n\n```toml\n{recipe}```\n"
    )


def outcome_text(run: Mapping[str, Any]) -> str:
    """Return a message about a run that has ended."""
    if not run["games"]:
        return (
            "ended. WARNING: no games, so its figures are those of an untrained network: give more --minutes"
        )
    return f"ended, with {run['games']:,} games and {run['steps']:,} steps"


def minutes_text(minutes: float) -> str:
    """Return `minutes` with its unit, such as "1 minute"."""
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"


if __name__ == "__main__":
    sys.exit(guarded(main))
