"""The games of one key fill no more than its part of the replay window, whatever is restarted and when."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_quarantine import accounts, content
from training_runs import GAME, games, training

from protocol.records import sha256, to_bytes
from store.players import set_quarantine
from store.reader import StoreReader
from store.sqlite import Store
from trainer.config import WindowSettings
from trainer.ingest import Job
from trainer.intake import Committed, Intake
from trainer.run_setup import window_shares
from trainer.verify import Expected
from trainer.window_shares import PRESENT_PART, WindowShares

WINDOW, PRESENT, LARGE = 320, 20, 3200
"""In positions: the window; the newest games that show who plays now; a larger window."""
A, B, WORKERS, NO_KEY = "keys/a", "keys/b", "workers/gpu", "clients/lab"
Play = tuple[str, int]


def in_window(played: list[tuple[Play, bool]], positions: int = WINDOW) -> Counter[str]:
    """Return the positions by player of the newest games that were accepted and fit, counted from scratch."""
    found: Counter[str] = Counter()
    for (player, plies), taken in reversed(played):
        if taken and found.total() + plies > positions:
            break
        found[player] += plies if taken else 0
    return found


def parts(played: list[tuple[Play, bool]], positions: int) -> dict[str, float]:
    found = in_window(played, positions)
    return {player: plies / found.total() for player, plies in found.items()}


def all_of(shares: WindowShares, plays: list[Play]) -> list[tuple[Play, bool]]:
    return [(play, shares.takes(*play)) for play in plays]


PLAYS = st.lists(
    st.tuples(st.sampled_from([A, A, A, B, WORKERS, NO_KEY, "keys/c"]), st.integers(1, 9)), max_size=200
)


@given(PLAYS, st.integers(0, 200))
def test_no_key_has_more_than_its_part_and_a_restart_changes_no_decision(plays: list[Play], at: int) -> None:
    """It may exceed its part by one game at most; a player without a key is never left out."""
    shares, played = WindowShares(WINDOW, 0.3), list[tuple[Play, bool]]()
    for play in plays:
        before = in_window(played)[play[0]]
        played.append((play, shares.takes(*play)))
        players = {player for player, _ in plays[: len(played)]}
        if played[-1][1] and play[0].startswith("keys/") and len(players) > 3:
            assert before <= max(0.3, 1 / 4) * max(PRESENT, in_window(played[:-1]).total()) or _few(played)
        assert played[-1][1] or play[0].startswith("keys/")
    again = WindowShares(WINDOW, 0.3)
    again.restore([(*play, taken) for play, taken in played[:at]])
    assert all_of(again, plays[at:]) == played[at:]


def _few(played: list[tuple[Play, bool]]) -> bool:
    """Return whether fewer than four play now, so that each may have an equal part."""
    there, positions = set[str](), 0
    for (player, plies), _ in reversed(played[:-1]):
        if (positions := positions + plies) > PRESENT:
            break
        there.add(player)
    return len(there | {played[-1][0][0]}) < 4


def test_a_key_that_floods_fills_its_part_and_the_others_lose_no_game() -> None:
    """It sends ten times as many games as the two others together."""
    shares, who = WindowShares(LARGE, 0.4), {0: WORKERS, 11: NO_KEY}
    played = all_of(shares, [(who.get(at % 22, A), 1) for at in range(200_000)])
    assert parts(played[-50_000:], LARGE)[A] == pytest.approx(0.4, abs=0.01)
    assert all(taken for (player, _), taken in played if player != A)


def test_without_others_nobody_is_limited_for_long() -> None:
    """A key alone has the whole window; two have a half each, though each is guaranteed only a quarter; the
    one that remains has the whole window again."""
    shares = WindowShares(LARGE, 0.25)
    assert all(taken for _, taken in all_of(shares, [(A, 5)] * 1000))
    two = all_of(shares, [(A, 5), (B, 5)] * 2000)
    assert parts(two, LARGE) == pytest.approx({A: 0.5, B: 0.5}, abs=0.03)
    left = all_of(shares, [(A, 5)] * 1000)
    assert [taken for _, taken in left].count(False) <= LARGE / PRESENT_PART / 5
    assert parts(left, LARGE) == {A: 1.0}


def test_all_keys_together_leave_their_part_to_the_servers_own_workers() -> None:
    shares = WindowShares(LARGE, 1.0, 0.4)
    plays = [(f"keys/{at % 9}" if at % 10 else WORKERS, 3) for at in range(40_000)]
    assert parts(all_of(shares, plays), LARGE)[WORKERS] == pytest.approx(0.4, abs=0.03)
    without = all_of(shares, [(A, 3)] * 4000)
    assert parts(without, LARGE) == {A: 1.0}, "none of them plays any more"


def test_games_that_could_not_be_stored_count_for_nothing() -> None:
    shares, twin = WindowShares(WINDOW, 0.3), WindowShares(WINDOW, 0.3)
    plays = [(player, 7) for player in (A, B, WORKERS, A, NO_KEY, A, B) * 20]
    for one in (shares, twin):
        all_of(one, plays)
        one.settle()
    all_of(shares, [(A, 4), (B, 9)] * 300)
    shares.undo()
    assert all_of(shares, plays) == all_of(twin, plays)


class Played:
    """A trainer's path of games: intake, store and training loop, which can be restarted."""

    def __init__(self, folder: Path, key_share: float = 0.3) -> None:
        self._folder, self._key_share = folder, key_share
        folder.mkdir()
        self.path = folder / "games.db"
        self.store = Store(self.path, GAME.name)
        self.reader = StoreReader(self.path)
        self.loop = training(folder / "checkpoints", held_out=0.1, positions=800)
        self.begin()
        self.loop.fill(self.reader, 0)

    def begin(self) -> None:
        settings = WindowSettings(positions=800, min_positions=1, key_share=self._key_share)
        self.intake = Intake(GAME, Expected("", 9, 20), self.store, shares=window_shares(settings))

    def restart(self) -> None:
        self.loop = training(self._folder / "checkpoints", held_out=0.1, positions=800)
        self.follow()
        self.begin()

    def follow(self) -> None:
        self.loop.follow_quarantine(self.reader)
        self.loop.fill(self.reader, self.store.newest)

    def play(self, first: int, last: int) -> Committed:
        """Send the games number `first` to `last - 1`: four of five are of one key."""
        jobs = []
        for number, record in enumerate(games(last)[first:], first):
            data = to_bytes(dataclasses.replace(record, source="same/0"))
            key = "" if number % 5 == 0 else "flood"
            jobs.append(Job(record.uid, sha256(data), "clients", data, key))
        result = self.intake.process(jobs, 0)
        self.loop.turn(result.games, result.last_seq, 10**6, result.players)
        return result


def test_a_trainer_keeps_a_key_to_its_part_over_restarts_and_quarantine(tmp_path: Path) -> None:
    """Window and accounts equal those without a restart; a quarantine removes what is in them, and a release
    gives back exactly that."""
    one, restarted = Played(tmp_path / "one"), Played(tmp_path / "restarted")
    result = one.play(0, 300)
    assert len(result.over_share) == one.intake.over_share["keys/flood"] > 150
    assert set(result.over_share) == {"keys/flood"}
    assert set(one.reader.old_between(1, 300)) == {
        seq for seq in range(1, 301) if one.reader.one(seq).uid not in {game.uid for game in result.games}
    }
    for first, last in ((0, 40), (40, 190), (190, 300)):
        restarted.play(first, last)
        if last == 190:
            restarted.loop.save()
        restarted.restart()
    assert content(restarted.loop) == content(one.loop)
    assert restarted.loop.budget.learned_from == one.loop.budget.learned_from
    before = content(one.loop), accounts(one.loop)
    assert set_quarantine(one.path, "keys/flood", held=True)
    one.follow()
    assert 0 < one.loop.budget.learned_from < before[1][0]
    assert set_quarantine(one.path, "keys/flood", held=False)
    one.follow()
    assert (content(one.loop), accounts(one.loop)) == before


def test_a_commit_that_failed_decides_nothing(tmp_path: Path) -> None:
    one, twin = Played(tmp_path / "one"), Played(tmp_path / "twin")
    for trainer in (one, twin):
        trainer.play(0, 50)
    one.store._connection.set_busy_timeout(0)
    other = apsw.Connection(str(one.path))
    other.execute("BEGIN IMMEDIATE")
    assert {done.status for done in one.play(50, 150).done} == {"retry"}
    other.execute("ROLLBACK")
    assert one.play(50, 150).over_share == twin.play(50, 150).over_share != []


def test_where_nobody_is_limited_nothing_is_looked_at() -> None:
    assert window_shares(WindowSettings()) is None
    assert window_shares(WindowSettings(workers_share=0.1)) is not None
