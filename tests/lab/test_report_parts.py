"""The counts of a report, compared with plain counting."""

from collections import Counter
from contextlib import closing
from pathlib import Path

from games_runs import records
from report_runs import whole_run

from azselfplay.lab.report.curves import charts
from azselfplay.lab.report.figures import Bin, by_version, merged
from azselfplay.store.reader import open_games


def test_neighbouring_versions_share_a_bin_until_it_has_games_enough() -> None:
    """No game is lost, the order stays, and there are not many more bins than asked for."""
    versions = [Bin(v, v, games) for v, games in enumerate([500, 5, 10, 40, 1, 2, 400])]
    bins = merged(versions, 4)
    assert [(one.first, one.last) for one in bins] == [(0, 0), (1, 5), (6, 6)]
    assert [one.games for one in bins] == [500, 58, 400]
    assert merged([], 4) == []


def test_the_value_loss_of_a_tanh_head_is_a_mean_square() -> None:
    for architecture, unit in (("4x64", "cross-entropy, nats"), ("4x64tanh", "mean square")):
        shown = [one for one in charts([], architecture) if one["title"].startswith("Value loss")]
        assert [one["unit"] for one in shown] == [unit]


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
