"""The trainer sends the threshold of resignation to players and keeps it over restarts."""

import dataclasses
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest
from changed_settings import self_play, varied
from fake_server import welcome
from test_service import beside_trainer
from training_runs import stored

from azselfplay.games import get_game
from azselfplay.store.players import set_quarantine
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import IMPORTED, Store
from bench.random_games import entry, random_game
from protocol.records import PLAYED_ON, GameRecord
from trainer.resign_threshold import ResignThreshold, resign_threshold

GAME = get_game("tic_tac_toe")
SETTINGS = self_play(simulations=20, value=-0.75)


def played_on(count: int) -> list[GameRecord]:
    """Return games of at least 7 plies in which the loser's value is rightly below the threshold at its third
    move."""
    rng, found = np.random.default_rng(1), []
    while len(found) < count:
        record = random_game(GAME, rng, simulations=20)
        if record.outcome and record.plies >= 7:
            values = np.zeros(record.plies, np.float32)
            values[4 if record.outcome < 0 else 5] = -0.9
            flags = record.flags | np.uint8(PLAYED_ON)
            found.append(dataclasses.replace(record, root_values=values, flags=flags))
    return found


async def test_every_acknowledgement_says_the_threshold(tmp_path: Path) -> None:
    """No threshold is safe at first; the twentieth game that was played on makes one safe, and the figures
    show it."""
    records = played_on(20)
    welcomed = msgspec.structs.replace(welcome(), self_play=dataclasses.asdict(SETTINGS))

    said: list[object] = []
    async with beside_trainer(tmp_path, welcomed) as (server, _):
        for number, record in enumerate(records, 1):
            server.play(record)
            await server.until(lambda number=number: len(server.acks) == number)
            said.append(server.acks[record.uid].resign_value)
        await server.until(lambda: server.figures.get("resignation", {}).get("played_on") == 20)  # type: ignore[attr-defined]
    figures = server.figures
    assert said == [0.0] * 19 + [-0.75]
    assert figures["rejected"] == {}
    known = {"threshold": -0.75, "played_on": 20, "would_resign": 20, "mistakes": 0.0}
    assert figures["resignation"] == known


def known_to_a_new_trainer(path: Path, **changes: object) -> ResignThreshold:
    with closing(StoreReader(path)) as reader:
        settings = varied(SETTINGS, **changes)  # type: ignore[arg-type]
        return resign_threshold(settings, GAME, reader, reader.span()[1])


def test_a_new_trainer_knows_what_the_stored_games_say(tmp_path: Path) -> None:
    """It does not read them where nobody resigns."""
    path = stored(tmp_path, played_on(25))
    assert known_to_a_new_trainer(path).threshold == -0.75
    assert known_to_a_new_trainer(path, play_on=1.0).as_dict()["played_on"] == 25
    assert known_to_a_new_trainer(path, value=0.0).as_dict() == {}


def test_a_new_trainer_looks_past_imported_games(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("trainer.resign_threshold.MOST_READ", 1)
    path = stored(tmp_path, played_on(25))
    imported = random_game(GAME, np.random.default_rng(99), simulations=20)
    with closing(Store(path, GAME.name)) as store:
        store.commit([dataclasses.replace(entry(imported, IMPORTED), is_old=True)])
    assert known_to_a_new_trainer(path).as_dict()["played_on"] == 1


@pytest.mark.parametrize("why", ["the player is in quarantine", "they are old"])
def test_games_that_are_not_trained_on_say_nothing_to_a_new_trainer(tmp_path: Path, why: str) -> None:
    path, by_key = tmp_path / "games.db", why.startswith("the player")
    games = [entry(record) for record in played_on(25)]
    player = "keys/cheat" if by_key else ""
    with closing(Store(path, GAME.name)) as store:
        store.commit([dataclasses.replace(one, player=player, is_old=not by_key) for one in games])
    if by_key:
        assert set_quarantine(path, "keys/cheat", quarantined=True)
    assert known_to_a_new_trainer(path).threshold == 0.0
