"""A small but complete proof run is trained by real processes, judged and written down."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]
"""The limit is generous, for slow machines: a run ends when it has its games, not by the clock."""

RECIPE = """
title = "A look that ends when there are some games"
game = "tic_tac_toe"
minutes = 60
most_games = 100
snapshot_minutes = 60
simulations = 8
judge_simulations = 4
opponents = ["random"]
games = 16

[trainer]
optimizer.batch = 64
window.min_positions = 200
publishing.seconds = 1.0
"""


def test_a_recipe_is_trained_judged_and_written_down(tmp_path: Path) -> None:
    (tmp_path / "look.toml").write_text(RECIPE)
    flags = ["--seeds", "3", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "azselfplay.lab.experiments", str(tmp_path / "look.toml"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "out" / "seed-3.json").read_text())
    assert about["summary"]["games"] > 0
    assert about["core_minutes"] > 0
    minutes = [one["minute"] for one in about["snapshots"]]
    assert minutes == sorted(set(minutes))
    assert len({one["file"] for one in about["snapshots"]}) == len(minutes) == 2, "untrained, and the last"
    kept = {one["player"]: one["value"] for one in about["measures"] if one["what"].startswith("positions")}
    assert set(kept) == {
        *("trained, raw policy", "trained, 4 simulations, puct"),
        *("untrained, raw policy", "untrained, 4 simulations, puct", "random moves"),
    }
    again = subprocess.run([*command, "--judge-only"], capture_output=True, text=True, timeout=1200)
    assert again.returncode == 0, again.stderr
    judged_again = json.loads((tmp_path / "out" / "seed-3.json").read_text())
    for one in (*judged_again["measures"], *about["measures"]):
        del one["ms_a_move"]  # measured times differ
    assert judged_again["measures"] == about["measures"]
    assert "exists" in subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_variants_are_trained_and_compared_and_none_twice(tmp_path: Path) -> None:
    (tmp_path / "look.toml").write_text(RECIPE)
    (tmp_path / "vary.toml").write_text(
        f'title = "t"\nrecipe = "{tmp_path}/look.toml"\nminutes = 60\nseeds = [1]\n'
        '[variants."4, not 8"]\nsimulations = 4\n'
    )
    ablate(tmp_path, "vary.toml")
    page = (tmp_path / "out" / "ablation-vary" / "README.md").read_text()
    assert "| as the recipe | 1 |" in page
    assert "| 4, not 8 | 1 |" in page
    runs = json.loads((tmp_path / "out" / "ablation-vary" / "runs.json").read_text())["runs"]
    assert all(one["games"] >= 100 and 0 < one["figures"]["errors, raw policy"] < 1 for one in runs)
    assert "to run them again, give another --out" in ablate(tmp_path, "vary.toml")


def ablate(folder: Path, name: str) -> str:
    """Carry out the ablation `name` in `folder`. Return what it says about its progress."""
    flags = ["--runs", str(folder / "runs"), "--out", str(folder / "out")]
    command = [sys.executable, "-m", "azselfplay.lab.experiments.ablation", str(folder / name), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr
