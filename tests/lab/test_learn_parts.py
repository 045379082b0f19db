"""Recipes, measures and result pages, without training anything."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azselfplay.games import get_game
from azselfplay.host import config
from azselfplay.host.config import to_toml
from azselfplay.host.exits import Fatal
from azselfplay.host.runs import RunFolder
from azselfplay.lab.experiments import recipe as recipes
from azselfplay.lab.experiments import results
from azselfplay.lab.experiments.measures import Judgement, Measure, check_judge, share
from azselfplay.lab.experiments.results import read_seeds, write_page, write_seed
from azselfplay.lab.experiments.training import Snapshot, Trained, command_of, read_trained, trained_before
from azselfplay.search.settings import resolve
from protocol.settings import SelfPlaySettings
from server.config import ServerConfig
from trainer.config import TrainerConfig

PLAIN = st.one_of(st.booleans(), st.integers(-(2**31), 2**31), st.floats(-1e9, 1e9), st.text(max_size=20))
KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
MINIMAL = {"title": "t", "game": "tic_tac_toe", "minutes": 1.0}
MADE = {"machine": {"processor": "p", "cores": 2, "gpu": "none"}}


def a_run(folder: Path, made: dict[str, Any] = MADE, minutes: float = 1.0, games: int = 1) -> Trained:
    """Return a run of one snapshot, whose file nobody reads."""
    summary = {"games": games, "positions": 1, "steps": 1}
    return Trained(RunFolder(folder, "r"), [Snapshot(0.0, 0, 0, "f")], summary, minutes, 1.5, made)


def judged(hits: int = 1, count: int = 2) -> Judgement:
    """Return a judgement with one measure and one curve."""
    return Judgement([share("wins", "trained", hits, count)], {"p": {"l": [(0.0, 0.1)]}})


@given(st.dictionaries(KEYS, st.one_of(PLAIN, st.dictionaries(KEYS, PLAIN, max_size=3)), max_size=5))
def test_settings_survive_the_way_through_toml(settings: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(settings)) == settings


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_names_a_judge_and_settings_that_exist(name: str, tmp_path: Path) -> None:
    recipe = recipes.load(name)
    try:
        check_judge(recipe)
    except Fatal as error:
        assert "there is no engine" in str(error)  # noqa: PT017 - on a machine without it, nothing else is wrong
    command_of(recipe, 1, 1.0, tmp_path, "run", tmp_path)
    flags = ["--config", str(tmp_path / "server.toml")]
    examples = ("a", "b", "c")
    served = config.load(ServerConfig, flags, command="c", examples=examples, description="d")
    assert isinstance(served.self_play, SelfPlaySettings)
    resolve(served.self_play, get_game(recipe.game))
    flags = ["--config", str(tmp_path / "trainer.toml")]
    config.load(TrainerConfig, flags, command="c", examples=examples, description="d").check()


def test_each_seed_gets_a_seed_of_its_own(tmp_path: Path) -> None:
    for seed in (1, 2):
        command_of(recipes.from_settings("x", MINIMAL), seed, 1.0, tmp_path, "run", tmp_path / str(seed))
        server = tomllib.loads((tmp_path / str(seed) / "server.toml").read_text())
        trainer = tomllib.loads((tmp_path / str(seed) / "trainer.toml").read_text())
        assert server["seed"] == server["self_play"]["seed"] == trainer["seed"] == seed


def test_wilson_interval_of_a_known_case() -> None:
    """For 10 of 10 the lower end is 10 / (10 + 1.96 ** 2)."""
    one = share("w", "p", 10, 10)
    assert one.low == pytest.approx(10 / (10 + 1.959964**2))
    assert one.high == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "at_most", "reached"), [(0.5, False, True), (0.4, False, False), (0.6, True, False)]
)
def test_a_target_is_a_limit_from_one_side(value: float, at_most: bool, reached: bool) -> None:
    assert Measure("w", "p", value, 1, target=0.5, at_most=at_most).reached is reached
    assert Measure("w", "p", value, 1).reached is None


def test_the_page_says_what_was_and_what_was_not_reached(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    recipe = recipes.from_settings("x", MINIMAL)
    for seed, hits in ((1, 90), (2, 10)):
        found = judged(hits, 100).with_targets({"wins": 0.5})
        found.measures.append(share("wins", "untrained", 1, 9 + seed))
        write_seed(folder / "out", recipe, seed, a_run(tmp_path), found)
    (folder / "ablation-x").mkdir()
    (folder / "ablation-x" / "README.md").write_text("# What helps\n\nmore\n")
    write_page(folder / "out", recipe)
    page = (folder / "out" / "README.md").read_text()
    row = "| 90.0 % [82.6 %, 94.5 %] | 10.0 % [5.5 %, 17.4 %] | at least 50.0 % | no (1 of 2 seeds) |"
    assert row in page
    assert "| wins | trained | 100 |" in page
    assert "| wins | untrained | 10, 11 |" in page, "the seeds counted differently"
    overview = (folder / "README.md").read_text()
    assert overview.endswith("[What helps](ablation-x/README.md)\n")
    row = "| [t](out/README.md) | 1 (2), 1 (2) | wins (trained) | 90.0 %; 10.0 % | at least 50.0 % |"
    assert row in overview
    assert (folder / "out" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert Judgement.from_json(read_seeds(folder / "out")[1]).measures[0].reached is True


def test_a_seed_without_the_figure_has_not_reached_its_target(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    recipe = recipes.from_settings("x", MINIMAL)
    write_seed(folder / "out", recipe, 1, a_run(tmp_path), Judgement([], {}))
    write_seed(folder / "out", recipe, 2, a_run(tmp_path), judged().with_targets({"wins": 0.5}))
    write_page(folder / "out", recipe)
    for page in (folder / "out" / "README.md", folder / "README.md"):
        assert "| at least 50.0 % | no (1 of 2 seeds) |" in page.read_text()


def test_a_search_with_settings_is_written_once_and_has_a_letter_in_the_rows(tmp_path: Path) -> None:
    recipe, found = recipes.from_settings("x", MINIMAL), judged()
    gumbel = "gumbel?c_scale=0.3"
    players = (f"trained, {gumbel}", f"untrained, {gumbel}", "trained, puct?solver=True", "greedy")
    found.measures[:] = [share("wins", player, 1, 2) for player in players]
    folder = tmp_path / "results"
    write_seed(folder / "out", recipe, 1, a_run(tmp_path), found.with_targets({"wins": 0.5}))
    write_page(folder / "out", recipe)
    page, overview = ((folder / name / "README.md").read_text() for name in ("out", "."))
    assert [line.split(" | ")[2] for line in overview.splitlines() if "wins (" in line] == [
        "wins (trained, search A)",
        "wins (trained, search B)",
    ]
    assert "- search A: `gumbel?c_scale=0.3`\n- search B: `puct?solver=True`\n" in page
    who = [line.split(" | ")[1] for line in page.splitlines() if line.startswith("| wins")]
    assert who == ["trained, search A", "untrained, search A", "trained, search B", "greedy"]


@pytest.mark.parametrize(("folder", "there"), [("results", "# Mine\n"), ("look", "# Mine\n"), ("look", None)])
def test_the_overview_replaces_no_other_page(tmp_path: Path, folder: str, there: str | None) -> None:
    """Nor is one made in a folder that --out has named."""
    recipe, page = recipes.from_settings("x", MINIMAL), tmp_path / folder / "README.md"
    write_seed(page.parent / "out", recipe, 1, a_run(tmp_path), judged())
    if there:
        page.write_text(there)
    write_page(page.parent / "out", recipe)
    assert (page.read_text() if page.exists() else None) == there


def test_the_curves_of_every_seed_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(results, "close", drawn.append)
    recipe = recipes.from_settings("x", MINIMAL)
    results.draw({seed: judged() for seed in range(6)}, recipe, tmp_path / "curves.png")
    assert len(drawn[0].axes[0].lines) == 6


def test_the_page_says_which_seeds_were_run_with_other_settings(tmp_path: Path) -> None:
    optimizer = {"trainer": {"optimizer": {"batch": 64}}}
    for seed, changes in ((1, optimizer), (2, optimizer), (3, {"games": 7})):
        one = recipes.from_settings("x", {**MINIMAL, **changes})
        write_seed(tmp_path / "out", one, seed, a_run(tmp_path), judged())
    write_page(tmp_path / "out", one)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Settings beside the defaults (seed 1):" in page
    assert page.endswith("```\n\n- seed 3 differs: `games` = 7, `trainer.optimizer.batch` = the default\n")
    assert "The recipe has changed since seeds 1, 2; the settings below are those of then." in page


def test_a_run_that_is_judged_later_keeps_settings_and_machine_of_its_training(tmp_path) -> None:
    then = recipes.from_settings("x", {**MINIMAL, "games": 7})
    now = recipes.from_settings("x", {**MINIMAL, "games": 9, "judge_search": "puct"})
    made = json.loads(json.dumps({**MADE, "recipe": recipes.to_settings(then)}))
    trained = a_run(tmp_path, made)
    snapshots = trained.folder.path / "snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / "trained.json").write_text(json.dumps(trained.to_json()))
    assert read_trained(trained.folder) == trained
    write_seed(tmp_path / "out", now, 1, read_trained(trained.folder), judged())
    about = read_seeds(tmp_path / "out")[1]
    assert (about["recipe"]["games"], about["machine"]["processor"]) == (7, "p")
    assert about["recipe"]["judge_search"] == "puct"  # with which the figures were made


def test_a_run_is_trained_again_only_if_a_setting_of_training_differs(tmp_path: Path) -> None:
    then = recipes.from_settings("x", MINIMAL)
    made = json.loads(json.dumps({**MADE, "recipe": then.of_a_run, "asked_minutes": 5.0}))
    trained = a_run(tmp_path, made)
    (trained.folder.path / "snapshots").mkdir(parents=True)
    (trained.folder.path / "snapshots/trained.json").write_text(json.dumps(trained.to_json()))
    judged_otherwise = replace(then, judge_search="puct", targets={"wins": 0.5}, opponents=("random",))
    assert trained_before(trained.folder, judged_otherwise, 5.0) == trained
    assert trained_before(trained.folder, replace(then, games=9), 5.0) is None
    assert trained_before(trained.folder, then, 6.0) is None


def test_a_run_that_is_missing_or_unfinished_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match=r"there is no run .*x-seed1: train it first"):
        read_trained(RunFolder(tmp_path, "x-seed1"))
    (tmp_path / "x-seed2").mkdir()
    with pytest.raises(Fatal, match=r"x-seed2 holds no finished run"):
        read_trained(RunFolder(tmp_path, "x-seed2"))


def test_the_page_says_which_runs_were_stopped_early(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    most = recipes.from_settings("x", {**MINIMAL, "minutes": 10.0, "most_games": 100})
    for seed, minutes, games in ((1, 10.0, 50), (2, 8.0, 50), (3, 8.0, 100)):
        found = judged().with_targets({"wins": 0.5})
        write_seed(folder / "out", most, seed, a_run(tmp_path, MADE, minutes, games), found)
    write_page(folder / "out", most)
    lines = (folder / "out" / "README.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith(("| 1 ", "| 2 ", "| 3 "))]
    assert ["stopped early (of 10)" in row for row in rows] == [False, True, False]
    assert "10 (2), 8 (2), stopped early (of 10), 8 (2)" in (folder / "README.md").read_text()


def test_any_game_is_a_recipe_and_a_word_that_is_none_names_the_nearest():
    assert recipes.load("dots_and_boxes_2x3").game == "dots_and_boxes_2x3"
    near = {"dots": "dots_and_boxes", "dots_and_boxes_20x20": "1 to 12", "kqq": "'kqk'"}
    for name, said in (near | {"foo": "'foo'. Recipes: "}).items():
        with pytest.raises(Fatal, match=said):
            recipes.load(name)
