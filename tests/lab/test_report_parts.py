"""The counts of a report, compared with plain counting."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest
from games_runs import records
from report_runs import copies, figures, whole_run

from azselfplay.diagnostics.stretches import entropies
from azselfplay.games import get_game
from azselfplay.games.stubs import Movers
from azselfplay.host.runs import RunFolder
from azselfplay.lab.report.charts import calibration, speed_chart, speeds, training_charts
from azselfplay.lab.report.curves import STEP, History, read_history
from azselfplay.lab.report.figures import Bin, Sampled, add, first_games, merged, read_bins, take_sample
from azselfplay.lab.report.page import collect
from azselfplay.store.reader import open_games


def test_neighbouring_versions_share_a_bin_until_it_has_games_enough() -> None:
    """No game is lost, the order stays, and there are not many more bins than asked for."""
    versions = [Bin(v, v, 10 * v, 10 * v + 15, games) for v, games in enumerate([500, 5, 10, 40, 1, 2, 400])]
    bins = merged(versions, 4)
    assert [one.label for one in bins] == ["0", "1-5", "6"]
    assert [one.games for one in bins] == [500, 58, 400]
    assert (bins[1].low, bins[1].high) == (10, 65)
    assert merged([], 4) == []


def test_no_bin_has_too_few_games_to_be_judged_if_there_are_enough_in_all() -> None:
    versions = [Bin(v, v, 25 * v, 25 * v + 24, 25) for v in range(25)]
    bins = merged(versions, 24)
    assert [one.games for one in bins] == [50] * 11 + [75]
    assert [one.games for one in merged(versions[:1], 24)] == [25]


def test_bins_count_what_the_store_holds(tmp_path: Path) -> None:
    found = records("connect_four", 90, versions=(0, 1, 2))
    run = whole_run(tmp_path / "run", "connect_four", found)
    with closing(open_games(str(run), tmp_path)) as games:
        bins, (all_games,) = read_bins(games).bins, read_bins(games, 1).bins
    assert [one.label for one in bins] == ["0", "1", "2"]
    assert (all_games.games, all_games.label) == (90, "0-2")
    for one in bins:
        own = [record for record in found if record.versions[0] == one.first]
        assert one.outcomes == Counter(record.outcome for record in own)
        assert one.reasons == Counter(record.reason for record in own)
        lengths = sorted(record.plies for record in own)
        assert one.percentile(50) == lengths[len(lengths) // 2 - 1]
        assert (one.percentile(0), one.percentile(100)) == (lengths[0], lengths[-1])


def test_an_old_game_that_comes_late_does_not_make_weights_older() -> None:
    """Weights count as in use from the first game by them or by newer ones."""
    assert first_games([(0, 1), (1, 40), (2, 30)]) == {0: 1, 1: 30, 2: 30}


def test_a_sample_is_bounded_spread_and_survives_damage(tmp_path: Path) -> None:
    """A bin has a limited number of games; those that cannot be unpacked are counted separately."""
    (record,) = records("connect_four", 1)
    run = whole_run(tmp_path / "run", "connect_four", copies(record, 60, 0) + copies(record, 60, 1))
    connection = apsw.Connection(str(run / "games.db"))
    connection.execute("UPDATE games SET data = x'00' WHERE seq = 1")
    connection.close()
    with closing(open_games(str(run), tmp_path)) as games:
        binned = read_bins(games)
        few, all_games = take_sample(games, binned, 10), take_sample(games, binned, 1000)
    assert [one.games for one in few.bins] == [9, 10]
    assert few.damaged == all_games.damaged == 1
    assert [one.games for one in all_games.bins] == [59, 60]
    assert [one.stretch.variety.unique(10) for one in all_games.bins] == [1 / 59, 1 / 60]
    assert [round(one.mean_age, 6) for one in all_games.bins] == [30.0, 29.5]


def test_an_old_game_that_comes_last_takes_no_games_from_the_sample(tmp_path: Path) -> None:
    """The sample is spread over the games of a bin, not over the numbers between its first and last."""
    (record,) = records("connect_four", 1)
    late = copies(record, 41, 0)[40:]
    run = whole_run(
        tmp_path / "run", "connect_four", copies(record, 40, 0) + copies(record, 400, 1) + late
    )  # fmt: skip
    with closing(open_games(str(run), tmp_path)) as games:
        sample = take_sample(games, read_bins(games), 35)
    assert [one.games for one in sample.bins] == [35, 35]


def test_plies_without_a_search_have_no_value(tmp_path: Path) -> None:
    """Random opening moves are stored with a value of 0, which nobody has found."""
    (record,) = records("connect_four", 1)
    movers = Movers(get_game("connect_four"))(record.start, record.actions)
    visited = np.where(np.arange(record.plies) < 3, 0, record.visited).astype(np.uint16)
    dropped = int(record.visited[:3].sum())
    record = dataclasses.replace(
        record, visited=visited, visit_actions=record.visit_actions[dropped:], visits=record.visits[dropped:]
    )
    found = Sampled()
    add(found, record, movers)
    assert found.values.sum() == record.plies - 3
    assert found.stretch.values == record.plies - 4 - 3


def test_sums_of_a_game_are_those_of_plain_loops() -> None:
    """They are the entropy of the visits, the moves with visits, and the outcome for the side to move."""
    (record,) = records("connect_four", 1)
    record = dataclasses.replace(record, outcome=-1)
    found, at = Sampled(), 0
    movers = np.random.default_rng(3).choice(np.array([-1, 1], np.int8), record.plies)
    add(found, record, movers)
    wanted = []
    for visited in record.visited.tolist():
        visits = record.visits[at : at + visited].tolist()
        wanted.append(-sum(n / sum(visits) * math.log(n / sum(visits)) for n in visits))
        at += visited
    assert entropies(record) == pytest.approx(wanted)
    assert found.roots.means()["entropy"] == pytest.approx(sum(wanted) / record.plies)
    assert found.roots.means()["moves"] == record.visited.sum() / record.plies
    outcomes = np.zeros(20, np.int64)
    for ply, value in enumerate(record.root_values.tolist()):
        outcomes[min(19, int((value + 1) * 10))] += -int(movers[ply])
    assert found.outcome_sums.tolist() == outcomes.tolist()


def test_honest_values_lie_on_the_line() -> None:
    """The example is a root value of +0.5 in games of which three quarters are won."""
    (record,) = records("connect_four", 1)
    one = Sampled()
    movers = Movers(get_game("connect_four"))(record.start, record.actions)
    values = (0.51 * movers).astype(np.float32)
    for outcome in [1] * 30 + [-1] * 10:
        add(one, dataclasses.replace(record, root_values=values, outcome=outcome), movers)
    said, came = calibration([one])
    assert said == pytest.approx([-0.51, 0.51], abs=1e-3)
    assert came == [-0.5, 0.5]


def test_games_an_hour_are_of_equal_spans_of_time() -> None:
    """A burst in one second does not show as a peak of thousands."""
    hours, rates = speeds([(0, 0.0), (50, 0.1), (60, 1800.0), (160, 7200.0)])
    assert sum(rates) * (hours[1] - hours[0]) == pytest.approx(160)
    assert len(rates) == 4
    assert speeds([(1, 5.0)]) == speeds([]) == ([], [])


@pytest.mark.parametrize(("seconds", "unit"), [(180.0, b"minutes"), (36_000.0, b"hours")])
def test_a_short_run_has_minutes_on_its_axis(seconds: float, unit: bytes) -> None:
    (one,) = speed_chart([(0, 0.0), (500, seconds / 2), (1000, seconds)])
    svg = base64.b64decode(one.source.partition(",")[2])
    assert unit + b" since the first game" in svg


def test_history_is_read_from_whole_lines(tmp_path: Path) -> None:
    """Half a line is left out; repeated steps count once."""
    run = RunFolder(tmp_path, "run")
    run.create("chess", 8)
    lines = [json.dumps(figures(step)) for step in (3, 5, 7, 6, 8)]
    run.figures_log.write_text("\n".join(lines) + '\n{"time": 3, "tra')
    history = read_history(run)
    assert history.damaged == 1
    assert [row[STEP] for row in history.rows] == [3, 5, 6, 8]
    assert history.curve("trainer/policy_loss")[1][:1] == pytest.approx([2.97])
    assert [lesson.step for lesson in history.lessons()] == [6, 8]
    assert read_history(RunFolder(tmp_path, "empty")).rows == []


@pytest.mark.parametrize("position", ["KQK", "start"])
def test_captions_explain_endgames_only_where_there_are_some(position: str) -> None:
    rows = [{STEP: step, f"probe_values/{position}": 0.5} for step in (1.0, 2.0)]
    (chart,) = training_charts(History(rows))
    assert chart.title == "Values of known positions"
    assert ("KQK" in chart.caption) == (position == "KQK")


def test_the_age_of_weights_is_the_one_that_the_trainer_said_last(tmp_path: Path) -> None:
    """So the alert has the same number on the page, in azrun and in the browser."""
    (record,) = records("connect_four", 1)
    run = whole_run(tmp_path / "run", "connect_four", copies(record, 120, 1))
    with (run / "figures.jsonl").open("a") as file:
        file.write(json.dumps({**figures(100), "trainer/weights_age": 5.0}) + "\n")
    with closing(open_games(str(run), tmp_path)) as games:
        found = collect(RunFolder(tmp_path, "run"), games, 10)
    (alert,) = found.alerts
    assert alert.short == "old weights: newest games are 5 weights versions behind (limit 3)"
