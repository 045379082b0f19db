"""A quarantine takes exactly a player's games out of window and accounts, and a release puts them back."""

import dataclasses
from pathlib import Path

import apsw
import numpy as np
import pytest
from training_runs import GAME, games, training

from azselfplay.store.errors import unreadable
from azselfplay.store.players import player_of, set_quarantine
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import Store
from bench.random_games import entry
from trainer.training_loop import TrainingLoop
from trainer.window import Window

HONEST, CHEAT = "clients/honest", "clients/cheat"
PLAYERS = [HONEST, HONEST, CHEAT]
"""The sources of the games, in turn."""
HELD_OUT = 0.2


class Beside:
    """A training loop and the store that its games come from."""

    def __init__(self, folder: Path, **changes: object) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "games.db"
        self.store = Store(self.path, GAME.name)
        self.reader = StoreReader(self.path)
        self._folder, self._changes = folder / "checkpoints", {"held_out": HELD_OUT, **changes}
        self.count = 0
        self.start()

    def start(self) -> None:
        """Start the loop like a trainer that begins, or begins again."""
        self.loop = training(self._folder, **self._changes)
        self.follow()

    def follow(self) -> None:
        self.loop.apply_quarantine(self.reader)
        while not self.loop.fill(self.reader, self.store.last_seq, 7):
            pass

    def play(self, count: int) -> None:
        """Add `count` games."""
        for record in games(self.count + count)[self.count :]:
            player = PLAYERS[self.count % len(PLAYERS)]
            self.store.commit([dataclasses.replace(entry(record), player=player)])
            self.count += 1
            if self.loop.quarantine.players == self.reader.quarantined():
                self.loop.turn([record], self.store.last_seq, 10**6, [player])

    def hold(self, *, held: bool) -> None:
        assert set_quarantine(self.path, CHEAT, quarantined=held)
        assert not self.loop.is_quarantine_current(self.reader)
        self.follow()


def games_in(window: Window) -> list[tuple[bytes, int]]:
    """Return moves and outcome of each game."""
    found = []
    for number in range(window._oldest_game, window._next_game):
        slot = number % len(window.rings.game_first)
        at = (window.rings.game_first[slot] + np.arange(window.rings.game_plies[slot])) % window.capacity
        found.append((window.rings.action[at].tobytes(), int(window.rings.game_outcome[slot])))
    return found


def content(loop: TrainingLoop) -> tuple[list[tuple[bytes, int]], int, float]:
    """Return the games in the window, and the accounts."""
    return games_in(loop.window), loop.budget.learned_from, loop.budget.allowed


def without_the_cheat(folder: Path, count: int, **changes: object) -> TrainingLoop:
    """Return a loop that never had the cheat's games."""
    loop = training(folder, held_out=HELD_OUT, **changes)
    for at, record in enumerate(games(count)):
        if PLAYERS[at % len(PLAYERS)] != CHEAT:
            loop._add(record)
    return loop


@pytest.mark.parametrize("positions", [200, 5000])
def test_quarantine_changes_window_and_accounts_exactly_and_release_restores_them(
    tmp_path: Path, positions: int
) -> None:
    one = Beside(tmp_path / "run", positions=positions)
    one.play(60)
    before = content(one.loop)
    one.hold(held=True)
    honest = without_the_cheat(tmp_path / "honest", 60, positions=positions)
    assert content(one.loop) == content(honest)
    if positions == 5000:
        assert games_in(one.loop._held_out.window) == games_in(honest._held_out.window)
    one.hold(held=False)
    assert content(one.loop) == before


def test_games_that_come_during_a_quarantine_count_after_the_release(tmp_path: Path) -> None:
    one, never = Beside(tmp_path / "run"), Beside(tmp_path / "never")
    one.play(30)
    one.hold(held=True)
    one.play(30)
    honest = without_the_cheat(tmp_path / "honest", 60)
    assert content(one.loop) == content(honest)
    one.hold(held=False)
    never.play(60)
    assert content(one.loop) == content(never.loop)


@pytest.mark.parametrize("saved", ["before", "during", "at the end"])
def test_a_restart_at_any_moment_keeps_the_accounts_right(tmp_path: Path, saved: str) -> None:
    """The checkpoint may be from before, during, or after the quarantine, and may lag behind the store."""
    one, never = Beside(tmp_path / "run"), Beside(tmp_path / "never")
    one.play(30)
    if saved == "before":
        one.loop.save()
    one.hold(held=True)
    one.play(20)
    if saved == "during":
        one.loop.save()
    one.play(10)
    if saved == "at the end":
        one.loop.save()
    one.start()
    honest = without_the_cheat(tmp_path / "honest", 60)
    assert content(one.loop) == content(honest)
    assert set_quarantine(one.path, CHEAT, quarantined=False)
    one.start()
    never.play(60)
    assert content(one.loop) == content(never.loop)


def test_games_in_quarantine_stay_stored_and_count_once_by_their_uid(tmp_path: Path) -> None:
    one = Beside(tmp_path)
    one.play(30)
    one.hold(held=True)
    (record,) = games(3)[2:]
    assert one.store.commit([dataclasses.replace(entry(record), player=CHEAT)]) == ["duplicate"]
    assert one.store.totals.games.total() == 30
    assert not set_quarantine(one.path, CHEAT, quarantined=True)
    assert one.reader.quarantined() == {CHEAT}
    assert one.reader.games_of(CHEAT, 12) == [3, 6, 9, 12]


def test_without_positions_left_to_pay_for_its_steps_training_waits(tmp_path: Path) -> None:
    """Steps cannot be undone, and need not be paid for again."""
    one = Beside(tmp_path, positions=5000)
    one.play(60)
    while one.loop.turn([], one.store.last_seq, 10**6).more:
        pass
    steps = one.loop.step
    assert steps > 0
    one.hold(held=True)
    assert one.loop.budget.allowed < one.loop.budget.samples
    turn = one.loop.turn([], one.store.last_seq, 10**6)
    assert (turn.step, turn.more) == (steps, False)
    assert turn.waiting_for == "16 more positions for the next step"


@pytest.mark.parametrize(
    ("role", "source", "key", "player"),
    [
        ("clients", "lab-7/3", "", "clients/lab-7"),
        ("workers", "gpu/box/0", "", "workers/gpu/box"),
        ("clients", "foreign", "", "clients/foreign"),
        ("clients", "", "", "clients/unnamed"),
        ("clients", "a\x1b[2J\n/0", "", "clients/a\\x1b[2J\\n"),
        ("clients", "keys/cheat/0", "", "clients/keys/cheat"),
        ("clients", "", "lab-3", "keys/lab-3"),
        ("clients", "keys/cheat/0", "lab-3", "keys/lab-3"),
    ],
)
def test_a_game_is_put_down_to_its_key_or_to_its_client(
    role: str, source: str, key: str, player: str
) -> None:
    """This does not depend on which worker played it. No name that a client gives itself can be that of a
    key."""
    assert player_of(role, source, key) == player


def test_a_store_that_cannot_be_read_for_a_moment_changes_nothing(tmp_path: Path, monkeypatch) -> None:
    def away(reader: StoreReader) -> frozenset[str]:
        raise unreadable(tmp_path, apsw.BusyError("database is locked"))

    one = Beside(tmp_path)
    monkeypatch.setattr(StoreReader, "quarantined", away)
    assert one.loop.is_quarantine_current(one.reader)
