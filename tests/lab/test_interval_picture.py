"""The picture of a comparison shows what its table says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from PIL import Image

from azselfplay.lab.experiments.intervals import bars, draw, spread


def run_of(variant: str, seed: int, errors: float) -> dict:
    return {"variant": variant, "seed": seed, "figures": {"errors": errors, "loss": 2 * errors}}


RUNS = [run_of("b", 1, 0.4), run_of("b", 2, 0.5), run_of("a", 1, 0.1), run_of("a", 2, 0.3)]


def test_each_variant_has_its_runs_mean_and_interval_and_the_base_is_first() -> None:
    first, second = bars(RUNS, "a", "errors")
    assert (first.variant, first.runs, second.variant, second.runs) == ("a", (0.1, 0.3), "b", (0.4, 0.5))
    assert (first.mean, second.mean) == (pytest.approx(0.2), pytest.approx(0.45))
    assert first.around == second.around == spread(RUNS, "errors").around(2)


def test_one_run_of_each_has_no_interval() -> None:
    assert [one.around for one in bars(RUNS[1:3], "a", "loss")] == [math.inf, math.inf]


@pytest.mark.parametrize("runs", [RUNS, RUNS[1:3]])
def test_a_picture_has_room_for_all_figures(runs: list[dict], tmp_path: Path) -> None:
    draw(runs, "a", tmp_path / "x.png", scale=100, unit="%")
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.width > 1000
        assert len(set(picture.convert("L").tobytes())) > 10, "it is not empty"
