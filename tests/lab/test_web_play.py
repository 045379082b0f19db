"""Games of a person against a network, as the pages request them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp.test_utils import TestClient
from web_runs import got, looked_at, ordered, run_with_games

from azselfplay.games import get_game
from azselfplay.lab.web.app import SITE
from azselfplay.store.sqlite import Store
from bench.random_games import entry, random_game

Client = TestClient[Any, Any]
PLAY = "/api/run/a-run/play"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run_with_games(folder, "tic_tac_toe", games=1)
    return folder


def test_a_game_is_played_to_its_end(runs: Path) -> None:
    async def look(client: Client) -> None:
        game = await ordered(client, PLAY, {"side": 1, "simulations": 20})
        path = f"/api/play/{game['room']}"
        assert game["legal"] == []
        while game["over"] is None:
            if game["is_mine"]:
                game = await ordered(client, f"{path}/move", {"move": game["legal"][0]["text"]})
            else:
                game = await ordered(client, f"{path}/reply", {})
                assert sum(game["found"]["wdl"]) == 1000
                assert game["found"]["lines"][0]["moves"][0] == game["moves"][-1]
        assert game["over"] in ("line", "board_full")
        assert game["outcome"] in (-1, 0, 1)
        assert "over" in (await ordered(client, f"{path}/move", {"move": "1"}, 409))["error"]
        assert "over" in (await ordered(client, f"{path}/hint", {}, 409))["error"]

    looked_at(runs, look)


def test_hints_leave_the_position_and_moves_are_taken_back_to_the_persons_turn(runs: Path) -> None:
    async def look(client: Client) -> None:
        game = await ordered(client, PLAY, {"simulations": 10})
        path = f"/api/play/{game['room']}"
        hinted = await ordered(client, f"{path}/hint", {})
        assert hinted["moves"] == []
        assert hinted["found"]["is_hint"]
        assert hinted["found"]["lines"][0]["clicks"] == [f"cell {hinted['found']['lines'][0]['moves'][0]}"]
        assert "no move of yours" in (await ordered(client, f"{path}/back", {}, 409))["error"]
        await ordered(client, f"{path}/move", {"move": "5"})
        assert len((await ordered(client, f"{path}/reply", {}))["moves"]) == 2
        assert (await ordered(client, f"{path}/back", {}))["moves"] == []
        assert (await got(client, path))["is_mine"]

    looked_at(runs, look)


def test_a_stored_game_is_gone_on_from_and_not_taken_back_into(runs: Path) -> None:
    async def look(client: Client) -> None:
        stored = (await got(client, "/api/run/a-run/games/1"))["moves"][:3]
        game = await ordered(client, PLAY, {"side": 1, "simulations": 5, "game": 1, "ply": 3})
        assert game["moves"] == stored
        path = f"/api/play/{game['room']}"
        await ordered(client, f"{path}/back", {}, 409)
        await ordered(client, f"{path}/move", {"move": game["legal"][0]["text"]})
        assert (await ordered(client, f"{path}/back", {}))["moves"] == stored
        assert "no game 99" in (await ordered(client, PLAY, {"game": 99}, 404))["error"]

    looked_at(runs, look)


@pytest.mark.parametrize(
    "body",
    [
        {"simulations": 0},
        {"simulations": 1_000_000},
        {"side": 2},
        {"weights": 3},
        {"other": 1},
        {"simulations": "many"},
        [],
    ],
)
def test_an_order_that_makes_no_sense_is_explained(runs: Path, body: object) -> None:
    async def look(client: Client) -> None:
        assert "cannot be understood" in (await ordered(client, PLAY, body, 400))["error"]

    looked_at(runs, look)


def test_moves_games_and_weights_that_are_not_there_are_explained(runs: Path) -> None:
    async def look(client: Client) -> None:
        game = await ordered(client, PLAY, {"simulations": 1})
        path = f"/api/play/{game['room']}"
        assert "not a legal cell" in (await ordered(client, f"{path}/move", {"move": "10"}, 409))["error"]
        assert "no such order" in (await ordered(client, f"{path}/dance", {}, 404))["error"]
        assert "no longer open" in (await got(client, "/api/play/nothing", 410))["error"]
        wrong = await ordered(client, PLAY, {"weights": "../a-run/weights/000001-01234561"}, 404)
        assert "no weights called" in wrong["error"]
        await ordered(client, f"{path}/leave", {})
        await got(client, path, 410)

    looked_at(runs, look)


def test_weights_that_are_damaged_are_explained(tmp_path: Path) -> None:
    folder = run_with_games(tmp_path, "tic_tac_toe", games=1)
    (folder / "weights" / "000009-01234569.safetensors").write_bytes(b"nothing of the kind")

    async def look(client: Client) -> None:
        assert "its name says 01234569" in (await ordered(client, PLAY, {}, 409))["error"]

    looked_at(tmp_path, look)


def test_the_game_not_touched_for_longest_gives_way_and_is_opened_again_with_its_moves(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azselfplay.lab.web.rooms.MOST_ROOMS", 2)

    async def look(client: Client) -> None:
        terms = {"simulations": 1, "side": 0}
        first = await ordered(client, PLAY, terms)
        second = await ordered(client, PLAY, terms)
        first = await ordered(client, f"/api/play/{first['room']}/move", {"move": "5"})
        await ordered(client, PLAY, terms)
        await got(client, f"/api/play/{second['room']}", 410)
        await ordered(client, PLAY, terms)
        await got(client, f"/api/play/{first['room']}", 410)
        again = await ordered(client, PLAY, {**terms, "moves": first["moves"]})
        assert (again["moves"], again["board"], again["is_mine"]) == (["5"], first["board"], False)
        wrong = await ordered(client, PLAY, {**terms, "moves": ["5", "5"]}, 400)
        assert "cannot be opened again" in wrong["error"]

    looked_at(runs, look)


def test_no_game_that_is_searching_gives_way(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azselfplay.lab.web.rooms.MOST_ROOMS", 1)

    async def look(client: Client) -> None:
        room = (await ordered(client, PLAY, {"simulations": 1}))["room"]
        async with client.app[SITE].rooms.find(room).lock:
            assert "at this moment" in (await ordered(client, PLAY, {}, 503))["error"]
        await ordered(client, PLAY, {"simulations": 1})

    looked_at(runs, look)


def test_a_game_that_is_gone_on_from_keeps_its_own_cap(tmp_path: Path) -> None:
    short = random_game(get_game("tic_tac_toe"), np.random.default_rng(0), simulations=20, max_plies=3)
    run = run_with_games(tmp_path, "tic_tac_toe", games=1)
    store = Store(run / "games.db", "tic_tac_toe")
    store.commit([entry(short)])
    store.close()
    assert short.reason == "ply_cap"

    async def look(client: Client) -> None:
        game = await ordered(client, PLAY, {"game": 2, "ply": 2, "simulations": 10})
        assert game["is_mine"]
        path = f"/api/play/{game['room']}/move"
        assert (await ordered(client, path, {"move": game["legal"][0]["text"]}))["over"] == "ply_cap"

    looked_at(tmp_path, look)
