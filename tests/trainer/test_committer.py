"""Games pass the checks and reach the store, and no false game does."""

import dataclasses
from pathlib import Path

import apsw
import numpy as np
import pytest
from changed_settings import self_play

from azselfplay.games import get_game
from azselfplay.store.archive import open_archive
from azselfplay.store.reader import Range, StoreReader
from azselfplay.store.sqlite import Store
from bench.random_games import random_game
from protocol.records import FORMAT, GameRecord, sha256, to_bytes
from trainer.ingest import Committer, Job
from trainer.verify import Verifier

GAME = get_game("tic_tac_toe")


def verifier() -> Verifier:
    return Verifier(GAME, self_play(simulations=20))


@pytest.fixture
def committer(tmp_path: Path) -> Committer:
    return Committer(verifier(), Store(tmp_path / "games.db", GAME.name))


def game(seed: int) -> GameRecord:
    return random_game(GAME, np.random.default_rng(seed), simulations=20)


def job(record: GameRecord) -> Job:
    data = to_bytes(record)
    return Job(record.uid, sha256(data), "workers", data)


def test_honest_games_are_stored_as_they_came(committer: Committer, tmp_path: Path) -> None:
    jobs = [job(game(seed)) for seed in range(5)]
    result = committer.process([*jobs, jobs[0]], newest_version=0)
    assert [done.status for done in result.done] == ["stored"] * 5 + ["duplicate"]
    assert [record.uid for record in result.games] == [one.uid for one in jobs]
    assert result.last_seq == 5
    kept = [one.unpacked() for one in StoreReader(tmp_path / "games.db").rows(Range())]
    assert kept == [one.data for one in jobs]


def test_a_game_is_put_down_to_the_key_it_came_with(committer: Committer, tmp_path: Path) -> None:
    """Without a key it counts for the name that it gives itself; sending it again with another key changes
    nothing."""
    mine = [dataclasses.replace(job(game(seed)), source="clients") for seed in range(2)]
    keyed = dataclasses.replace(mine[0], key="lab-3")
    result = committer.process([keyed, mine[1], dataclasses.replace(keyed, key="other")], newest_version=0)
    unnamed = "clients/unnamed"
    assert result.players == ["keys/lab-3", unnamed]
    reader = StoreReader(tmp_path / "games.db")
    assert reader.players_between(1, 9) == {1: "keys/lab-3", 2: unnamed}


def test_false_games_are_refused_among_honest_ones(committer: Committer) -> None:
    honest = game(1)
    false = dataclasses.replace(game(2), outcome=-game(2).outcome or 1)
    good = job(game(3))
    torn, renamed = good.data[:-1], dataclasses.replace(job(game(4)), uid=bytes(16))
    jobs = [job(honest), job(false), dataclasses.replace(good, data=torn), renamed]
    jobs += [Job(bytes(16), sha256(b"garbage"), "clients", b"garbage")]
    result = committer.process(jobs, newest_version=0)
    assert sorted(done.status for done in result.done) == ["rejected"] * 4 + ["stored"]
    assert committer.rejected == {"wrong_outcome": 1, "bad_hash": 1, "bad_record": 2}
    assert [record.uid for record in result.games] == [honest.uid]
    reasons = {done.uid: done.reason for done in result.done}
    assert reasons[false.uid].startswith("wrong_outcome: ply")


def test_a_game_without_visits_is_refused_because_only_an_import_stores_such(committer: Committer) -> None:
    one = game(1)
    nothing = np.zeros(0, np.uint16)
    none = dataclasses.replace(
        one,
        visited=np.zeros(one.plies, np.uint16),
        visit_actions=nothing,
        visits=nothing,
        flags=np.zeros(one.plies, np.uint8),
    )
    result = committer.process([job(none)], newest_version=0)
    [done] = result.done
    assert (done.status, result.games) == ("rejected", [])
    assert "only `azplay games RUN import` stores games without a search" in done.reason


def test_fault_in_checking_refuses_the_game(committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer._verifier, "check", lambda *_: 1 / 0)
    result = committer.process([job(game(1))], newest_version=0)
    assert result.done[0].reason.startswith("internal:")


def test_a_refusal_is_told_only_when_it_is_on_the_disk(committer: Committer, tmp_path: Path) -> None:
    """While another process locks the file, every game of a batch is sent back, and nothing is counted."""
    false = dataclasses.replace(game(2), outcome=-game(2).outcome or 1)
    jobs = [job(game(1)), job(false)]
    committer._store._connection.set_busy_timeout(0)
    other = apsw.Connection(str(tmp_path / "games.db"))
    other.execute("BEGIN IMMEDIATE")
    assert {(done.status, done.reason) for done in committer.process(jobs, 0).done} == {
        ("retry", "the trainer stores no games at the moment: its disk or archive does not take them")
    }
    assert committer.rejected == {}
    only = committer.process(jobs[1:], 0)
    assert ([done.status for done in only.done], only.last_seq) == (["retry"], 0)
    other.execute("ROLLBACK")
    assert sorted(done.status for done in committer.process(jobs, 0).done) == ["rejected", "stored"]
    assert committer.rejected == {"wrong_outcome": 1}


def test_what_the_archive_does_not_take_is_sent_back_and_counts_once_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile only one batch is stored, and training hears of none, also if the archive fails again at
    once. Later all games come in order."""
    (tmp_path / "archive").mkdir()
    store, archive = Store(tmp_path / "games.db", GAME.name), open_archive(str(tmp_path / "archive"))
    assert archive is not None
    archive.begin({"format": FORMAT, "game": GAME.name, "id": ""}, store)
    committer = Committer(verifier(), store, archive=archive)
    jobs = [job(game(seed)) for seed in range(6)]
    assert committer.process(jobs[:2], 0).last_seq == 2
    (tmp_path / "archive").rename(tmp_path / "away")
    for several in (jobs[2:4], jobs[2:]):
        result = committer.process(several, 0)
        assert ({done.status for done in result.done}, result.games, result.last_seq) == ({"retry"}, [], 2)
    assert store.last_seq == 4
    (tmp_path / "away").rename(tmp_path / "archive")
    # Now it takes these two, and is away again before the next one.
    take, answers = archive.archive_games, iter((True, False))
    with monkeypatch.context() as patch:
        patch.setattr(archive, "archive_games", lambda store: next(answers) and take(store))
        result = committer.process(jobs[4:5], 0)
    assert (archive.last, result.games, result.last_seq) == (4, [], 2)
    result = committer.process(jobs[4:], 0)
    assert [done.status for done in result.done] == ["duplicate", "stored"]
    assert ([record.uid for record in result.games], result.last_seq) == ([one.uid for one in jobs[2:]], 6)
    assert len(result.players) == 4
    assert committer.process(jobs, 0).games == []


def played_with(record: GameRecord, version: int) -> Job:
    return job(dataclasses.replace(record, versions=np.full(record.plies, version, np.uint32)))


def test_games_that_are_too_old_are_stored_and_not_trained_on(tmp_path: Path) -> None:
    """Age is counted in versions behind the newest game in the store, so a restart does not change the
    decision."""
    store = Store(tmp_path / "games.db", GAME.name)
    committer = Committer(verifier(), store, stale_versions=10)
    jobs = [played_with(game(seed), version) for seed, version in enumerate((50, 40, 39, 50))]
    first = committer.process(jobs[:1], newest_version=60)
    second = committer.process(jobs[1:], newest_version=60)
    assert [done.status for done in first.done + second.done] == ["stored"] * 4
    assert [record.uid for record in first.games + second.games] == [jobs[at].uid for at in (0, 1, 3)]
    assert (first.old, second.old) == (0, 1)
    store.close()
    again = Committer(verifier(), Store(tmp_path / "games.db", GAME.name), stale_versions=10)
    late = played_with(game(9), 39)
    assert again.process([late, jobs[2]], 60).old == 1
    assert again.process([played_with(game(8), 40)], 60).old == 0
    reader = StoreReader(tmp_path / "games.db")
    assert sorted(reader.old_between(1, 99)) == [3, 5]
    assert reader.old_between(4, 4) == frozenset()


def test_games_of_any_age_are_trained_on_where_no_age_is_set(committer: Committer) -> None:
    result = committer.process([played_with(game(1), 5000)], 5000)
    assert (committer.process([played_with(game(2), 0)], 5000).old, result.old) == (0, 0)
