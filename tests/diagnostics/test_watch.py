"""While it trains, the trainer notices that a run does not learn, and says so once."""

import dataclasses
import itertools
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from azselfplay.diagnostics.alerts import LEAST_STEPS, LESSON_STEPS, NEWEST_GAMES, Watch
from azselfplay.games import get_game
from bench.random_games import random_game
from protocol.records import GameRecord
from trainer.figures import POINT_SECONDS, Curves

GAME = get_game("connect_four")
FIGURES = {
    "step": LEAST_STEPS, "policy_loss": None, "policy_entropy": None, "value_loss": None,
    "samples_per_position": 2.0,
}  # fmt: skip


def games(count: int, outcome: int, version: int = 3) -> list[GameRecord]:
    """Return one game many times over, with this outcome and played by weights of this version."""
    record = random_game(GAME, np.random.default_rng(0), simulations=20)
    versions = np.full(record.plies, version, np.uint32)
    values = np.zeros(record.plies, np.float32)
    one = dataclasses.replace(record, outcome=outcome, versions=versions, root_values=values)
    return [one] * count


def test_a_collapse_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watch = Watch(GAME, 50)
    watch.on_games(games(50, 1) + games(149, 0), 3)
    assert watch.alerts(FIGURES) == []
    watch.on_games(games(1, 0), 3)
    assert [text.split(":")[0] for text in watch.alerts(FIGURES)] == ["draw collapse"]
    watch.alerts(FIGURES)
    watch.on_games(games(50, 1), 3)
    assert watch.alerts(FIGURES) == []
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "What to do: " in told[0]
    assert told[1] == "alert over: draw collapse"


def test_old_weights_are_measured_when_games_come() -> None:
    """Their age is measured against the version that the server had when the games came; later versions do
    not count."""
    watch = Watch(GAME, 1000)
    watch.on_games(games(NEWEST_GAMES, 1), 4)
    assert watch.alerts(FIGURES) == []
    watch.on_games(games(NEWEST_GAMES, 1), 9)
    assert watch.alerts(FIGURES)[0].startswith("old weights: newest games are 6 ")


@pytest.mark.parametrize(("reuse", "names"), [(2.0, ["memorising"]), (0.0, []), (None, [])])
def test_memorising_is_seen_over_steps(reuse: float | None, names: list[str]) -> None:
    """Only figures that lie LESSON_STEPS apart count, however often alerts are asked for; and none of a warm
    start, which trains on imported games alone."""
    watch, found = Watch(GAME, 50), []
    for step in range(0, 12 * LESSON_STEPS, 5):
        loss = 0.9 - 0.05 * step / LESSON_STEPS
        figures = {"step": LEAST_STEPS + step, "policy_loss": 1.51, "policy_entropy": 1.5, "value_loss": loss}
        found = watch.alerts({**FIGURES, **figures, "samples_per_position": reuse})
    assert [text.split(":")[0] for text in found] == names


def test_a_run_that_has_just_begun_has_no_alert_whatever_its_games_and_losses_look_like() -> None:
    """A newcomer was once told after 146 steps, a minute of azrun, that the network memorises."""
    for steps, found in ((LEAST_STEPS - 1, []), (LEAST_STEPS, ["draw collapse", "memorising"])):
        watch = Watch(GAME, 50)
        watch.on_games(games(150, 0), 3)
        losses = {"policy_loss": 1.51, "policy_entropy": 1.5, "value_loss": 0.5, "held_out_value_loss": 0.9}
        for step in range(0, steps, LESSON_STEPS):
            watch.alerts({**FIGURES, **losses, "step": step})
        alerts = watch.alerts({**FIGURES, **losses, "step": steps})
        assert [text.split(":")[0] for text in alerts] == found


def test_figures_are_of_the_newest_full_stretch() -> None:
    """While no stretch is full, they are those of the first one; all are unknown before the first game."""
    watch = Watch(GAME, 50)
    assert watch.figures()["lengths"] == {"p10": None, "p50": None, "p90": None}
    record = games(1, 1)[0]
    other = dataclasses.replace(record, prior_values=record.prior_values + 1)
    watch.on_games([record] * 50 + [other], 3)
    found = watch.figures()
    kl = record.prior_kl.astype(float).mean()
    assert found["search"]["kl"] == pytest.approx(kl, abs=1e-4)
    assert (found["search"]["differs"], found["search"]["value_shift"]) == (0.0, 0.0)
    assert found["lengths"] == dict.fromkeys(("p10", "p50", "p90"), record.plies)
    assert found["unique_openings"] == {"ply_10": 0.02, "ply_20": 0.02}
    assert (found["root_values"]["sure"], found["weights_age"]) == (0.0, None)
    watch.on_games([record] * NEWEST_GAMES, 5)
    assert watch.figures()["weights_age"] == 2


def test_points_of_curves_come_close_at_first_and_rarely_later(tmp_path: Path) -> None:
    """Figures every 2 seconds would be 43,200 a day; some thousands of lines are enough."""
    path = tmp_path / "figures.jsonl"
    curves = Curves(tmp_path, path)
    for now in range(0, 3000, int(POINT_SECONDS)):
        curves.write({"step": now + 1, "alerts": []}, float(now))
    steps = [json.loads(line)["trainer/step"] for line in path.read_text().splitlines()]
    assert steps[:4] == [1, 3, 5, 7]
    assert 200 < len(steps) < 500
    assert max(later - sooner for sooner, later in itertools.pairwise(steps)) <= 32


def test_a_line_cut_off_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    """The next line begins on a line of its own."""
    path = tmp_path / "figures.jsonl"
    path.write_text('{"time": 1}\n{"tim')
    Curves(tmp_path, path).write({"step": 1, "alerts": []}, 0.0)
    first, cut, last = path.read_text().splitlines()
    assert (json.loads(first), cut) == ({"time": 1}, '{"tim')
    assert json.loads(last)["alerts"] == []


def test_lines_that_cannot_be_written_do_not_end_the_trainer(tmp_path: Path, caplog) -> None:
    Curves(tmp_path, tmp_path / "missing" / "figures.jsonl").write({"step": 1, "alerts": []}, 0.0)
    assert "no line in" in caplog.text
