"""Variants laid over recipes, and the table that compares them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from learn import ablation
from learn import recipe as recipes
from learn.ablation_table import differences, interval, table
from learn.judging import check_judge
from runtime.exits import Exit, Fatal
from runtime.runs import RunFolder

NAMES = sorted(path.stem for path in ablation.FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_changes_the_recipe_and_is_one(name: str, tmp_path: Path) -> None:
    loaded = ablation.load(name)
    base, *variants = loaded.all().values()
    for one in variants:
        assert one != base
        check_judge(one)
    names = [ablation.run_name(loaded.recipe, variant, 1) for variant in loaded.all()]
    assert len({RunFolder(tmp_path, name).path for name in names}) == len(names)


def test_a_variant_replaces_what_it_names_and_keeps_the_rest() -> None:
    base = recipes.from_settings(
        "x",
        {
            **{"title": "t", "game": "chess", "minutes": 1.0, "judge": "chess"},
            "server": {"mode": "alphazero", "self_play": {"root": "gumbel", "history": 1}},
        },
    )
    varied = ablation.varied(base, {"net": "small", "server": {"self_play": {"root": "puct"}}})
    assert varied.server == {"mode": "alphazero", "self_play": {"root": "puct", "history": 1}}
    assert (varied.net, varied.game) == ("small", "chess")


def test_every_root_is_compiled_before_any_run_is_timed() -> None:
    loaded = ablation.load("connect_four")
    roots = [one.server["self_play"]["root"] for one in ablation.kinds(list(loaded.all().values()))]
    assert sorted(roots) == ["gumbel", "puct"]


def test_interval_of_three_values_is_students() -> None:
    mean, half = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.303 / math.sqrt(3))
    assert interval([5.0]) == (5.0, math.inf)


def test_differences_are_taken_seed_by_seed_where_both_are_there() -> None:
    runs = [
        {"variant": name, "seed": seed, "games": 1, "steps": 2, "figures": {"errors": errors}}
        for name, seed, errors in (("a", 1, 0.5), ("b", 1, 0.4), ("a", 2, 0.3), ("b", 2, 0.1), ("b", 3, 0.9))
    ]
    assert differences(runs, "a", "b", "errors") == [pytest.approx(-0.1), pytest.approx(-0.2)]
    first, *rows = table(runs, "a").splitlines()
    assert first == "| variant | seeds | games | steps | errors |"
    assert rows[1].startswith("| a | 2 | 1 | 2 | 40.0 ±")
    assert "(-15.0 ±" in rows[2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('title = "t"\nminutes = 1\nseeds = [1]\n[variants]\n', "names no recipe"),
        ('recipe = "krk"\ntitle = "t"\nminutes = 1\nseeds = [1]\n', "variants"),
        (
            'recipe = "krk"\ntitle = "t"\nminutes = 1\nseeds = [1]\n[variants.x]\nnett = "s"\n',
            "did you mean 'net'",
        ),
        ('recipe = "krk"\ntitle = "t"\nminutes = 1\nseeds = [1]\n[variants.x]\nnet = 3\n', "Expected `str`"),
        (
            'recipe = "chess"\ntitle = "t"\nminutes = 1\nseeds = [1]\n[variants]\n',
            "compares no variants",
        ),
    ],
)
def test_a_senseless_ablation_is_refused_before_hours_of_training(
    text: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(Fatal, match=complaint) as found:
        ablation.load(str(path))
    assert found.value.code is Exit.CONFIG
