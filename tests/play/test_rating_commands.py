"""The commands on a real, tiny run: what they print and keep, and how they refuse bad input."""

import asyncio
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from in_process import ends

from azselfplay.games import GAME_NAMES, get_game
from azselfplay.games.spec import Game
from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit
from azselfplay.host.runs import RunFolder
from azselfplay.lab.web import person_games
from azselfplay.play import tournament as matches
from azselfplay.play.book import Entrant, Gone, anchors_of, fixed_ratings, points_of
from azselfplay.play.builtin_players import Blend
from azselfplay.play.ladder import Ladder, LadderConfig, Scaling, ScalingConfig, Session, find_network
from azselfplay.play.nets import search_name
from azselfplay.play.player import Player
from azselfplay.play.players import make_player
from azselfplay.search.settings import FOR_PLAY
from net.architectures.network import build
from net.architectures.residual import Residual
from net.weights import WeightsMeta, to_bytes
from protocol.messages import WeightsInfo

ROOT = Path(__file__).resolve().parents[2]
GAME, CHESS = get_game("tic_tac_toe"), get_game("chess")
FEW = {"simulations": 2, "games": 4, "anchors": "random,greedy", "threads": 1, "openings": "random:1"}


@pytest.fixture(autouse=True)
def _short_pairings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azselfplay.play.ladder.PAIRING_OPENINGS", 1)


def add_weights(run: RunFolder, version: int) -> None:
    """Add a network with random weights, published `version` minutes after the run was made."""
    import torch

    torch.manual_seed(version)
    architecture = Residual(blocks=1, channels=8)
    data = to_bytes(
        build(architecture, GAME, 1), WeightsMeta(GAME.name, 1, architecture, 100 * version, version)
    )
    digits = hashlib.sha256(data).hexdigest()
    name = f"{version:06d}-{digits[:8]}" if version else digits  # older folders have this name
    path = run.weights / f"{name}.safetensors"
    path.write_bytes(data)
    os.utime(path, (version * 60, version * 60))
    info = WeightsInfo(version, 100 * version, bytes.fromhex(digits), len(data), GAME.name)
    (run.weights / "current.json").write_bytes(msgspec.json.encode(info))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Make a run with three networks."""
    folder = RunFolder(tmp_path, "tiny")
    folder.create(GAME.name, 1)
    folder.about.write_text(
        '{"format": 5, "game": "tic_tac_toe", "history": 1, "created": "1970-01-01T00:00+00:00"}'
    )
    for version in range(3):
        add_weights(folder, version)
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace networks by players that need no loading."""

    def player(spec: str, game: Game, **_: object) -> Player:
        return make_player("blend:greedy:50" if spec.startswith("net:") else spec, game)

    monkeypatch.setattr(matches, "make_player", player)


@pytest.mark.usefixtures("quick")
def test_a_ladder_rates_and_later_adds_only_what_is_missing(run: RunFolder, capsys) -> None:
    settings = LadderConfig(run=run.path, **FEW)
    asyncio.run(Ladder(settings).run(Stop()))
    first = capsys.readouterr()
    names = [line.split()[0] for line in first.out.splitlines()]
    assert names == ["player", "v0", "v1", "v2", "random", "greedy"]
    kept = json.loads((run.path / "ratings.json").read_bytes())
    assert sum(one["wins"] + one["draws"] + one["losses"] for one in kept["pairings"]) >= 6
    asyncio.run(Ladder(settings).run(Stop()))
    again = capsys.readouterr()
    assert again.out == first.out
    assert " - " not in again.err
    add_weights(run, 3)
    asyncio.run(Ladder(settings).run(Stop()))
    new = [line for line in capsys.readouterr().err.splitlines() if " - " in line]
    assert new
    assert all("v3-" in line for line in new)


def test_anchors_are_looked_for_in_the_folder_of_runs(run: RunFolder, monkeypatch) -> None:
    folders = set()

    def player(_: str, game: Game, *, runs: Path, **__: object) -> Player:
        folders.add(runs)
        return make_player("random", game)

    monkeypatch.setattr(matches, "make_player", player)
    asyncio.run(Ladder(LadderConfig(run="tiny", runs=run.path.parent, **FEW)).run(Stop()))
    assert folders == {run.path.parent}


def test_two_processes_do_not_rate_into_one_file(run: RunFolder) -> None:
    """Each writes the whole file, so the games of one would be lost."""
    settings = LadderConfig(run=run.path, **FEW)
    first = Ladder(settings)
    with ends(Exit.TRY_AGAIN, r"another process rates into .*ratings.json"):
        Ladder(settings)
    asyncio.run(first._session.aclose())
    Ladder(settings)


@pytest.mark.usefixtures("quick")
def test_a_watching_ladder_rates_new_weights_and_ends_on_a_signal(run: RunFolder, monkeypatch) -> None:
    stop, rated = Stop(), []

    def report(session: Session, networks: list[Entrant]) -> None:
        rated.append([one.step for one in networks])
        if len(rated) == 1:
            add_weights(run, 3)
        else:
            stop.request()

    monkeypatch.setattr(Session, "report", report)
    monkeypatch.setattr("azselfplay.play.ladder.WATCH_SECONDS", 0.1)
    ladder = Ladder(LadderConfig(run=run.path, **FEW, watch=True))
    asyncio.run(asyncio.wait_for(ladder.run(stop), 240))
    assert rated == [[0, 100, 200], [0, 100, 200, 300]]


@pytest.mark.usefixtures("quick")
def test_weights_that_were_removed_are_noticed_before_they_play(run: RunFolder, monkeypatch) -> None:
    """Even while they are loaded."""

    async def choose_then_remove() -> None:
        ladder = Ladder(LadderConfig(run=run.path, **FEW))
        players = ladder.players()

        def removed(spec: str, *asked: Any, **how: Any) -> Player:
            for player in players:
                if player.spec == spec and player.file is not None:
                    player.file.unlink()
            return make_player(spec, *asked, **how)

        monkeypatch.setattr(matches, "make_player", removed)
        await ladder._session.play(players, Stop())

    with pytest.raises(Gone, match="has been removed"):
        asyncio.run(choose_then_remove())


def test_scaling_rates_one_network_at_doubling_searches(run: RunFolder, capsys) -> None:
    asyncio.run(Scaling(ScalingConfig(network=run.path, **FEW | {"simulations": 3})).run(Stop()))
    lines = capsys.readouterr().out.splitlines()
    search = search_name(FOR_PLAY)
    assert [line.split()[1] for line in lines[1:4]] == [f"@{n}/{search}" for n in (1, 2, 3)]
    newest = points_of(run)[-1]
    assert find_network(newest.path)[0].sha256.startswith(newest.sha256)
    assert find_network(newest.path)[2] == run.path.resolve()
    asyncio.run(Scaling(ScalingConfig(network=newest.path, **FEW | {"simulations": 3})).run(Stop()))
    assert capsys.readouterr().out.splitlines()[:4] == lines[:4], "by the file it is the same network"


def test_a_run_stands_for_the_network_that_plays_not_for_a_newer_one_that_a_gate_has_refused(run) -> None:
    best = find_network(run.path)[0]
    playing = (run.weights / "current.json").read_bytes()
    add_weights(run, 3)
    assert find_network(run.path)[0].version == 3
    (run.weights / "current.json").write_bytes(playing)
    assert find_network(run.path)[0] == best
    assert person_games.find_weights(run, "") == best.path


@pytest.mark.parametrize("name", GAME_NAMES)
def test_fixed_players_stand_in_order_from_random_up(name: str) -> None:
    game = get_game(name)
    ratings = fixed_ratings(anchors_of("", game), game)
    assert next(iter(ratings.items())) == ("random", 0)
    assert list(ratings.values()) == sorted(ratings.values())
    assert len(set(ratings.values())) == len(ratings)


def test_anchors_that_were_never_measured_are_rated_with_the_networks() -> None:
    assert fixed_ratings(anchors_of("random, uci:engine", CHESS), CHESS) == {"random": 0}
    with ends(Exit.CONFIG, "must begin with 'random'"):
        anchors_of("greedy", CHESS)


def test_a_blend_plays_another_players_move_in_its_share_of_moves() -> None:
    from azselfplay.games.game_history import replay

    game_history = replay(GAME, "", ["1", "5", "2", "9"])

    async def wins(spec: str) -> float:
        player = make_player(spec, GAME)
        assert isinstance(player, Blend)
        seats = [await player.sit_down(seed) for seed in range(300)]
        return float(np.mean([await seat.choose(game_history) == 2 for seat in seats]))

    assert asyncio.run(wins("blend:greedy:50")) == pytest.approx(0.5 + 0.5 / 5, abs=0.07)
