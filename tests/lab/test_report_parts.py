"""The counts of a report, compared with plain counting."""

import dataclasses
import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest
from games_runs import records
from report_runs import copies, figures, whole_run

from azselfplay.games import get_game
from azselfplay.games.stubs import Movers
from azselfplay.lab.report.curves import STEP, Curves
from azselfplay.lab.report.figures import Bin, Sampled, add, by_version, merged, take_sample
from azselfplay.lab.report.page import calibration
from azselfplay.store.reader import open_games


def test_neighbouring_versions_share_a_bin_until_it_has_games_enough() -> None:
    """No game is lost, the order stays, and there are not many more bins than asked for."""
    versions = [Bin(v, v, 10 * v, games) for v, games in enumerate([500, 5, 10, 40, 1, 2, 400])]
    bins = merged(versions, 4)
    assert [(one.first, one.last) for one in bins] == [(0, 0), (1, 5), (6, 6)]
    assert [one.games for one in bins] == [500, 58, 400]
    assert bins[1].high == 50
    assert merged([], 4) == []


def test_bins_count_what_the_store_holds(tmp_path: Path) -> None:
    found = records("connect_four", 90, versions=(0, 1, 2))
    run = whole_run(tmp_path / "run", "connect_four", found)
    with closing(open_games(str(run), tmp_path)) as games:
        versions = by_version(games)
    bins, (all_games,) = merged(versions), merged(versions, 1)
    assert [(one.first, one.last) for one in bins] == [(0, 0), (1, 1), (2, 2)]
    assert (all_games.games, all_games.first, all_games.last) == (90, 0, 2)
    for one in bins:
        own = [record for record in found if record.versions[0] == one.first]
        assert one.outcomes == Counter(record.outcome for record in own)
        assert one.reasons == Counter(record.reason for record in own)
        assert one.plies == sum(record.plies for record in own)


def test_a_sample_is_bounded_spread_and_survives_damage(tmp_path: Path) -> None:
    """A bin has a limited number of games; those that cannot be unpacked are counted separately."""
    (record,) = records("connect_four", 1)
    run = whole_run(tmp_path / "run", "connect_four", copies(record, 60, 0) + copies(record, 60, 1))
    connection = apsw.Connection(str(run / "games.db"))
    connection.execute("UPDATE games SET data = x'00' WHERE seq = 1")
    connection.close()
    with closing(open_games(str(run), tmp_path)) as games:
        bins = merged(by_version(games))
        few, all_games = take_sample(games, bins, 10), take_sample(games, bins, 1000)
    assert [one.games for one in few[0]] == [9, 10]
    assert few[1] == all_games[1] == 1
    assert [one.games for one in all_games[0]] == [59, 60]


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


def test_outcomes_are_summed_by_root_value_for_the_side_to_move() -> None:
    (record,) = records("connect_four", 1)
    record = dataclasses.replace(record, outcome=-1)
    found = Sampled()
    movers = np.random.default_rng(3).choice(np.array([-1, 1], np.int8), record.plies)
    add(found, record, movers)
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


def test_history_is_read_from_whole_lines(tmp_path: Path) -> None:
    """Half a line is left out; repeated steps count once."""
    file = tmp_path / "figures.jsonl"
    lines = [json.dumps(figures(step)) for step in (3, 5, 7, 6, 8)]
    file.write_text("\n".join(lines) + '\n{"time": 3, "tra')
    curves = Curves(file)
    curves.look()
    assert curves.damaged == 1
    assert [row[STEP] for row in curves.rows] == [3, 5, 6, 8]
    assert curves.history()["columns"]["trainer/policy_loss"][:1] == pytest.approx([2.97])
