"""`azplay players`: a cheat among honest players is found by the statistics of its games."""

import asyncio
import dataclasses
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from azselfplay.diagnostics.players import PlayerBook, rates
from azselfplay.games import get_game
from azselfplay.host.config import to_toml
from azselfplay.host.exits import Exit
from azselfplay.host.runs import RunFolder
from azselfplay.lab.azplay import main as azplay
from azselfplay.play.nets import load_net
from azselfplay.search.forest import Forest
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.store.reader import StoreReader
from azselfplay.store.sqlite import Store
from bench.random_games import entry
from client.self_play import Player, play_game
from protocol.records import GameRecord
from protocol.settings import SelfPlaySettings, changed
from server.config import ServerConfig
from server.weights import WeightsStore
from trainer.config import TrainerConfig
from trainer.training_loop import TrainingLoop

GAME = get_game("tic_tac_toe")
HONEST = [f"clients/honest-{number:02}" for number in range(20)]
CHEAT = "clients/cheat"
GAMES_EACH = 40
SETTINGS = resolve(changed(SelfPlaySettings(), {"search.simulations": 24}), GAME)


def played(weights: Path, count: int) -> list[GameRecord]:
    """Return honest games by a network, each searched as in self-play."""

    async def all_of_them() -> list[GameRecord]:
        net = load_net(weights, GAME.name)
        try:
            pool = SearchPool(Forest(GAME, SETTINGS, 64), net.evaluator)
            rngs = [np.random.default_rng([5, number]) for number in range(count)]
            return list(await asyncio.gather(*(play_game(pool, rng, player=Player(0)) for rng in rngs)))
        finally:
            net.close()

    return asyncio.run(all_of_them())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Make a run of twenty honest players and one that makes up its values, all with the same network."""
    folder = RunFolder(tmp_path_factory.mktemp("runs"), "crowd")
    folder.create(GAME.name, SETTINGS.history)
    of_trainer = TrainerConfig(device="cpu", cpu_threads=1)
    loop = TrainingLoop(of_trainer, GAME, SETTINGS.history, "tiny", folder.path)
    store = WeightsStore(folder.weights, GAME.name)
    info = store.add(loop.export_weights(0)[2], 1, 0, "tiny")
    config = ServerConfig(game=GAME.name, self_play=changed(SelfPlaySettings(), {"search.simulations": 24}))
    folder.config.write_text(to_toml(config))
    records = played(store.path(info), GAMES_EACH * (len(HONEST) + 1))
    entries = []
    for number, record in enumerate(records):
        player = (*HONEST, CHEAT)[number % (len(HONEST) + 1)]
        versions = np.full(record.plies, info.version, np.uint32)
        honest = dataclasses.replace(record, versions=versions)
        wrong = np.full(record.plies, -0.9 * record.outcome, np.float32)
        kept = dataclasses.replace(honest, root_values=wrong) if player == CHEAT else honest
        entries.append(dataclasses.replace(entry(kept), player=player))
    games = Store(folder.games, GAME.name)
    assert set(games.commit(entries)) == {"stored"}
    games.close()
    return folder


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["azplay", "players", *arguments])
    return azplay()


def test_the_rate_of_fast_games_is_not_limited_and_one_commit_is_no_rate() -> None:
    assert rates([("a", number / 200) for number in range(1000)])["a"] == pytest.approx(720_000, rel=0.01)
    assert rates([("a", 0.0), ("a", 0.001)])["a"] == 720


def test_made_up_values_are_found_among_twenty_honest_players(run: RunFolder, monkeypatch, capsys) -> None:
    assert ran(monkeypatch, str(run.path)) == Exit.FOUND
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["player", "games"]
    assert len(lines) == 21
    assert [line.split()[0] for line in lines if "other value errors" in line] == [CHEAT]


def test_a_player_is_put_into_quarantine_and_released_by_a_command(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = StoreReader(run.games)
    assert ran(monkeypatch, str(run.path), "--quarantine", CHEAT) == Exit.OK
    assert reader.quarantined() == {CHEAT}
    assert ran(monkeypatch, str(run.path)) == Exit.OK, "somebody has dealt with it"
    assert f"{CHEAT}: in quarantine, 40 games" in (said := capsys.readouterr().out)
    assert [line.split()[0] for line in said.splitlines() if "  in quarantine" in line] == [CHEAT]
    assert ran(monkeypatch, str(run.path), "--release", CHEAT) == Exit.OK
    assert reader.quarantined() == frozenset()
    reader.close()


def book_of(players: dict[str, list[GameRecord]]) -> PlayerBook:
    book = PlayerBook(GAME)
    for player, records in players.items():
        for record in records:
            book.on_game(record, player)
    return book


@pytest.fixture(scope="module")
def records(run: RunFolder) -> list[GameRecord]:
    with closing(StoreReader(run.games)) as reader:
        return [record for _, record in reader.records_of(GAME, range(1, 241))]


def test_a_player_whose_games_are_shorter_or_end_otherwise_differs(records: list[GameRecord]) -> None:
    short = [one for one in records if one.plies == min(one.plies for one in records)] * 40
    wrong = [
        dataclasses.replace(one, root_values=np.full(one.plies, 0.9, np.float32) * -one.outcome)
        for one in records
        if one.outcome
    ]
    longer = [one for one in records if one.plies >= short[0].plies + 2]
    book = book_of({"a": longer[::2], "b": longer[1::2], "short": short[:40]})
    assert min(book.players.values()) >= 30
    assert book.who_differs()["lengths"] == ["short"]
    assert book.who_differs()["resignations"] == []
    resigned = [dataclasses.replace(one, reason="resignation") for one in records[:60]]
    book = book_of({"a": records[:120], "b": records[120:], "resigns": resigned})
    assert book.who_differs()["resignations"] == ["resigns"]
    book = book_of({"a": records[:120], "b": records[120:], "wrong": wrong})
    assert book.who_differs()["value errors"] == ["wrong"]


def test_few_games_say_nothing(records: list[GameRecord]) -> None:
    book = book_of({"few": records[:15], "many": records[60:95]})
    assert book.players == {"many": 35, "few": 15}
    assert not any(one.differs for one in book.compared("few").values())
