"""Variants applied on top of recipes, and the table that compares them."""

import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from in_process import ends
from process_marks import wait_for

from azselfplay.host import hardware
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder, RunLock, is_locked
from azselfplay.lab.experiments import ablation as ablation_file
from azselfplay.lab.experiments import ablation as ablation_runs
from azselfplay.lab.experiments import on_games
from azselfplay.lab.experiments import recipe as recipes
from azselfplay.lab.experiments.ablation import Job
from azselfplay.lab.experiments.intervals import spread, table
from azselfplay.lab.experiments.measures import check_judge
from azselfplay.lab.experiments.training import describe_machine

RESULTS = Path(__file__).parents[2] / "results"
NAMES = sorted(path.stem for path in ablation_file.FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_changes_the_recipe_and_is_one(name: str, tmp_path: Path) -> None:
    loaded = ablation_file.load(name)
    base, *variants = loaded.all().values()
    for one in variants:
        assert one != base
        check_judge(one)
    names = [ablation_file.run_name(loaded.recipe, variant, 1) for variant in loaded.all()]
    assert len({RunFolder(tmp_path, name).path for name in names}) == len(names)


def test_a_variant_replaces_what_it_names_and_keeps_the_rest() -> None:
    base = recipes.from_settings(
        "x",
        {
            **{"title": "t", "game": "chess", "minutes": 1.0, "judge": "any_game"},
            "server": {"gate": {"mode": "alphazero"}, "self_play": {"root": "gumbel", "history": 1}},
        },
    )
    varied = ablation_file.varied(base, {"net": "small", "server": {"self_play": {"root": "puct"}}})
    assert varied.server == {"gate": {"mode": "alphazero"}, "self_play": {"root": "puct", "history": 1}}
    assert (varied.net, varied.game) == ("small", "chess")


def test_the_base_is_laid_over_the_recipe_and_all_its_variants(tmp_path: Path) -> None:
    """The comparison stays the same when the recipe changes."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'recipe = "krk"\ntitle = "t"\nminutes = 1\nseeds = [1]\n'
        "[base]\nsimulations = 7\n[variants.x.trainer]\noptimizer.batch = 8\n"
    )
    base, one = ablation_file.load(str(path)).all().values()
    assert (base.simulations, one.simulations) == (7, 7)
    assert base.trainer["optimizer"]["batch"] != one.trainer["optimizer"]["batch"] == 8


@pytest.mark.parametrize("name", [name for name in NAMES if (RESULTS / f"ablation-{name}").exists()])
def test_the_published_table_is_of_what_its_command_runs(name: str) -> None:
    """The table has only runs that the present ablation asks for; a long one is made in parts."""
    loaded, results = ablation_file.load(name), RESULTS / f"ablation-{name}" / "runs.json"
    runs = {(one["variant"], one["seed"]) for one in ablation_runs.finished(loaded, results)}
    assert runs <= set(itertools.product(loaded.all(), loaded.seeds))


def test_runs_of_other_settings_are_not_compared(tmp_path: Path) -> None:
    """The settings of a run are kept beside it; a run counts as finished only under the same settings."""
    loaded, results = ablation_file.load("krk"), tmp_path / "runs.json"
    ours = [Job(name, recipe, 1, loaded.minutes, tmp_path, 0).what() for name, recipe in loaded.all().items()]
    results.write_text(json.dumps({"runs": ours}))
    assert ablation_runs.finished(loaded, results) == ours
    for changed in (
        dataclasses.replace(loaded, minutes=loaded.minutes + 1),
        dataclasses.replace(loaded, recipe=dataclasses.replace(loaded.recipe, simulations=99)),
        dataclasses.replace(loaded, variants={"a new name": {"simulations": 99}}),
    ):
        with pytest.raises(Fatal, match="cannot be compared"):
            ablation_runs.finished(changed, results)
    assert ablation_runs.finished(loaded, tmp_path / "none yet.json") == []


def run_of(variant: str, seed: int, errors: float) -> dict[str, object]:
    return {"variant": variant, "seed": seed, "games": 1, "steps": 2, "figures": {"errors": errors}}


def test_intervals_of_one_variant_are_students() -> None:
    """By hand, 1, 2 and 3 have deviation 1 and two degrees of freedom. One run alone has no interval."""
    known = spread([run_of("a", seed, float(seed)) for seed in (1, 2, 3)], "errors")
    assert known == (1.0, 2)
    assert known.around(3) == pytest.approx(4.303 / math.sqrt(3))
    assert spread([run_of("a", 1, 5.0)], "errors").around(1) == math.inf


def test_spread_is_that_within_variants() -> None:
    """The distance between variants does not count: by hand, 0.1 around 0.5 and 0.1 around 0.1 give 0.1."""
    runs = [run_of("a", seed, 0.5 + 0.1 * (seed - 2)) for seed in (1, 2, 3)]
    runs += [run_of("b", seed, 0.1 + 0.1 * (seed - 2)) for seed in (1, 2, 3)]
    known = spread(runs, "errors")
    assert known == (pytest.approx(0.1), 4)
    first, *rows = table(runs, "a").splitlines()
    assert first == "| variant | seeds | games | steps | errors |"
    assert rows[1] == f"| a | 3 | 1 | 2 | 50.0 ± {277.6 * 0.1 / math.sqrt(3):.1f} % |"
    assert rows[2].endswith(f"(-40.0 ± {277.6 * 0.1 * math.sqrt(2 / 3):.1f}) |")


def test_variants_that_are_judged_by_different_figures_have_empty_cells() -> None:
    other = {**run_of("b", 1, 0.5), "seconds": 1.0, "figures": {"points": 0.5}}
    runs = [{**run_of("a", 1, 0.1), "seconds": 1.0}, other]
    first, _, *rows = table(runs, "a").splitlines()
    assert first.endswith("| errors | points |")
    assert [row.rpartition("| 2 ")[2] for row in rows] == ["| 10.0 ± - % |  |", "|  | 50.0 ± - % |"]
    machine = {"date": "d", "commit": "c", "processor": "p", "load_before": 0}
    assert "| a | 1 | 2 | 0.0 | 0.1000 ± inf |  |" in on_games.page("run", runs, machine)


@pytest.fixture
def without_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation_runs, "run_one", lambda job: run_of(job.variant, job.seed, 0.5))
    monkeypatch.setattr(ablation_runs, "ProcessPoolExecutor", lambda count, **_: ThreadPoolExecutor(count))
    monkeypatch.setattr(ablation_runs, "warm_up", lambda _: None)


@pytest.mark.usefixtures("without_training")
def test_some_of_the_variants_are_run_beside_the_recipe(tmp_path: Path) -> None:
    loaded = dataclasses.replace(ablation_file.load("connect_four"), minutes=1, seeds=(1,))
    base, _, wanted, *_ = loaded.all()
    runs = ablation_runs.run_all(loaded, tmp_path, [0], tmp_path / "runs.json", [wanted])
    assert [one["variant"] for one in runs] == [base, wanted]
    with pytest.raises(Fatal, match=f"no variant 'w'; it has '{next(iter(loaded.variants))}'"):
        ablation_runs.run_all(loaded, tmp_path, [0], tmp_path / "none.json", ["w"])


@pytest.mark.usefixtures("without_training")
def test_a_run_that_fails_loses_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = dataclasses.replace(ablation_file.load("connect_four"), minutes=1, seeds=(1,))
    failing, beside, *_ = loaded.all()

    def run_one(job: Job) -> dict[str, object]:
        if job.variant == failing:
            raise Fatal("no network", Exit.INTERNAL)
        return run_of(job.variant, job.seed, 0.5)

    monkeypatch.setattr(ablation_runs, "run_one", run_one)
    with pytest.raises(Fatal, match="no network"):
        ablation_runs.run_all(loaded, tmp_path, [0, 1], tmp_path / "runs.json")
    kept = json.loads((tmp_path / "runs.json").read_bytes())["runs"]
    assert [one["variant"] for one in kept] == [beside]


@pytest.mark.usefixtures("without_training")
def test_two_processes_do_not_make_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writes the whole table, so the runs of one would be lost."""
    flags = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "results"), "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", ["ablation", "krk", *flags])
    (tmp_path / "runs").mkdir()
    with RunLock(tmp_path / "runs" / ".ablation-krk"), ends(Exit.TRY_AGAIN, "the runs of krk"):
        ablation_runs.main()


KILLED = """
import sys, time
from pathlib import Path
from azselfplay.host.runs import RunLock
from azselfplay.lab.experiments import ablation
def run_one(job):
    lock = RunLock(Path(sys.argv[1]))
    time.sleep(60)
ablation.run_one = run_one
jobs = [ablation.Job("x", None, 1, 1.0, None, None)]
list(ablation.side_by_side(jobs, slice(1)))
"""


def test_its_processes_end_with_an_ablation_that_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", KILLED, lock]) as process:
        try:
            wait_for(lambda: is_locked(lock), lambda: "no run has begun")
        finally:
            process.kill()
    wait_for(lambda: not is_locked(lock), lambda: "the run has not ended", 20.0)


def test_no_more_runs_at_once_than_the_container_has_processors(tmp_path: Path, monkeypatch) -> None:
    def run_all(_ablation: object, _runs: Path, cores: list[int], *_: object) -> None:
        raise Fatal(f"{cores}")

    monkeypatch.setattr(sys, "argv", ["ablation", "krk", "--runs", str(tmp_path / "runs")])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(hardware, "cpu_quota", lambda *_: 2.0)
    monkeypatch.setattr(ablation_runs, "run_all", run_all)
    with pytest.raises(Fatal, match=r"^\[0, 1\]$"):
        ablation_runs.main()
    assert describe_machine()["cores"] == 2


KRK = 'recipe = "krk"\ntitle = "t"\nminutes = 1\nseeds = [1]\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (KRK.replace('recipe = "krk"', "") + "[variants]", "names no recipe"),
        (KRK, "variants"),
        (KRK + '[variants.x]\nnett = "s"', "did you mean 'net'"),
        (KRK + "[variants.x]\nnet = 3", "Expected `str`"),
        ("base = 3\n" + KRK + "[variants]", "`base`"),
        (KRK + '[base]\nnett = "s"', "did you mean 'net'"),
        (KRK + '[base]\njudge = "chess"', "no judge 'chess'"),
        (
            KRK + '[variants."f -1"]\nsimulations = 8\n[variants."f 1"]\nsimulations = 9',
            "differ in punctuation only",
        ),
        (KRK.replace("minutes = 1", "minutes = 0") + "[variants.x]\nsimulations = 8", "must be more than 0"),
    ],
)
def test_a_senseless_ablation_is_refused_before_hours_of_training(text, complaint, tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with ends(Exit.CONFIG, complaint):
        ablation_file.load(str(path))
