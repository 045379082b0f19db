"""Games of a person against a network, as the pages request them."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from web_runs import got, ordered, run_with_games, with_client

from azselfplay.games import get_game, knowledge
from azselfplay.lab.web import app, person_games
from azselfplay.lab.web.app import SITE
from azselfplay.link.weights_files import hash_in_name
from azselfplay.play.nets import LoadedNet, load_net
from azselfplay.store.sqlite import Store
from bench.random_games import entry, random_game
from protocol.messages import WeightsInfo

PLAY = "/api/run/a-run/play"


@with_client
async def test_a_game_is_played_to_its_end(client, runs: Path) -> None:
    game = await ordered(client, PLAY, {"side": 1, "simulations": 20})
    path = f"/api/play/{game['token']}"
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


@with_client
async def test_sides_are_called_by_the_colours_of_a_drawn_board_too(
    client, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "tic_tac_toe", get_game("tic_tac_toe").knowledge
    monkeypatch.setitem(knowledge._known, key, knowledge.Knowledge(words=knowledge.Words(("Light", "Dark"))))
    sides = ["Light (blue)", "Dark (orange)"]
    assert (await got(client, "/api/run/a-run/networks"))["sides"] == sides
    assert (await got(client, "/api/run/a-run/games/1"))["names"] == sides
    assert (await ordered(client, PLAY, {"simulations": 1}))["sides"] == sides


@with_client
async def test_hints_leave_the_position_and_moves_are_taken_back_to_the_persons_turn(
    client, runs: Path
) -> None:
    game = await ordered(client, PLAY, {"simulations": 10})
    path = f"/api/play/{game['token']}"
    hinted = await ordered(client, f"{path}/hint", {})
    assert hinted["moves"] == []
    assert hinted["found"]["is_hint"]
    assert hinted["found"]["lines"][0]["clicks"] == [f"cell {hinted['found']['lines'][0]['moves'][0]}"]
    assert "no move of yours" in (await ordered(client, f"{path}/back", {}, 409))["error"]
    await ordered(client, f"{path}/move", {"move": "5"})
    assert len((await ordered(client, f"{path}/reply", {}))["moves"]) == 2
    game = await ordered(client, f"{path}/back", {})
    assert (game["moves"], game["is_mine"]) == ([], True)


@with_client
async def test_a_network_that_knows_them_tells_the_owners_of_the_points_for_the_first_player(
    client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network says that the side to move owns everything."""
    run_with_games(tmp_path, "go_3x3", games=1)

    def knowing(*given: Any, **named: Any) -> LoadedNet:
        return replace(load_net(*given, **named), ownership=lambda _: np.ones((1, 9), np.float32))

    monkeypatch.setattr(person_games, "load_net", knowing)
    game = await ordered(client, PLAY, {"side": 0, "simulations": 2})
    path = f"/api/play/{game['token']}"
    hinted = await ordered(client, f"{path}/hint", {})
    assert list(hinted["found"]["owners"]) == [f"{column}{row}" for row in "123" for column in "ABC"]
    assert set(hinted["found"]["owners"].values()) == {1.0}
    await ordered(client, f"{path}/move", {"move": "B2"})
    replied = await ordered(client, f"{path}/reply", {})
    assert set(replied["found"]["owners"].values()) == {-1.0}


def test_owners_are_known_by_the_spots_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a drawn picture these are no texts of moves; columns have no cells."""
    game, four = get_game("tic_tac_toe"), get_game("connect_four")
    start = game.notation.state_from_text("")
    assert knowledge.spots_of_cells(game, start) == [f"cell {cell}" for cell in range(1, 10)]
    monkeypatch.setattr(knowledge, "_known", {})
    game, four = replace(game, knowledge=""), replace(four, knowledge="")
    spots = knowledge.spots_of_cells(game, start)
    assert (len(spots), spots[4]) == (9, "row 2, column 2")
    flat = replace(game, policy_planes=None, actions=20)
    assert knowledge.spots_of_cells(flat, start) == spots
    assert knowledge.spots_of_cells(four, start) == []


@with_client
async def test_a_stored_game_is_gone_on_from_and_not_taken_back_into(client, runs: Path) -> None:
    stored = (await got(client, "/api/run/a-run/games/1"))["moves"][:3]
    game = await ordered(client, PLAY, {"side": 1, "simulations": 5, "game": 1, "ply": 3})
    assert game["moves"] == stored
    path = f"/api/play/{game['token']}"
    await ordered(client, f"{path}/back", {}, 409)
    await ordered(client, f"{path}/move", {"move": game["legal"][0]["text"]})
    assert (await ordered(client, f"{path}/back", {}))["moves"] == stored
    assert "no game 99" in (await ordered(client, PLAY, {"game": 99}, 404))["error"]


@with_client
async def test_a_pasted_position_or_game_is_gone_on_from(client, runs: Path) -> None:
    game = await ordered(client, PLAY, {"side": 1, "position": "5 1 2"})
    assert (game["moves"], game["first"], game["is_mine"]) == (["5", "1", "2"], 3, True)
    game = await ordered(client, PLAY, {"position": "o../.x./..."})
    assert (game["moves"], game["board"]["position"]) == ([], "o../.x./...")
    again = await ordered(client, PLAY, {"position": "o../.x./...", "moves": ["9"]})
    assert again["board"]["position"] == "o.x/.x./..."
    wrong = await ordered(client, PLAY, {"position": "5 5"}, 400)
    assert "cannot be used" in wrong["error"]
    assert "move 2 ('5')" in wrong["error"]


@with_client
async def test_a_game_speaks_of_its_sides_and_shows_and_writes_what_was_played(
    client, tmp_path: Path
) -> None:
    run_with_games(tmp_path, "chess", games=1)
    game = await ordered(client, PLAY, {"position": "e2e4 e7e5", "simulations": 1})
    assert (game["sides"], game["said"], game["movers"]) == (["White", "Black"], ["e4", "e5"], [0, 1])
    path = f"/api/play/{game['token']}"
    game = await ordered(client, f"{path}/move?turned=1", {"move": "g1f3"})
    assert game["said"] == ["e4", "e5", "Nf3"]
    seen = {spot[0]: spot[1:3] for spot in game["board"]["spots"]}
    assert seen["h8"] == [15, 330]
    assert (await got(client, f"{path}/at/1"))["position"].split()[:2] == [AFTER_E4, "b"]
    assert "positions 0 to 3, not 4" in (await got(client, f"{path}/at/4", 404))["error"]
    game = await ordered(client, f"{path}/reply", {})
    line = game["found"]["lines"][0]
    assert len(line["said"]) == len(line["moves"])
    assert game["said"][-1] == line["said"][0]
    assert game["forms"] == ["PGN", "text"]
    file = await got(client, f"{path}/file?form=PGN")
    assert file["name"].endswith(".pgn")
    assert f"1. e4 e5 2. Nf3 {game['said'][-1]} *" in file["text"]
    assert '[White "a person"]' in file["text"]
    assert "no format 'KIF'" in (await got(client, f"{path}/file?form=KIF", 404))["error"]


AFTER_E4 = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR"


@with_client
async def test_networks_are_listed_by_step_age_and_strength(client, tmp_path: Path) -> None:
    folder = run_with_games(tmp_path, "tic_tac_toe", games=1)
    (newest,) = folder.glob("weights/000002-*")
    (folder / "weights" / "000003-01234569.safetensors").write_bytes(b"nothing of the kind")
    rated = {"name": "n", "label": "", "simulations": 9, "version": 2, "sha256": hash_in_name(newest)}
    ratings = {"players": [rated], "ratings": {"n": {"elo": 321.0, "margin95": 9.0}}}
    (folder / "ratings.json").write_text(json.dumps(ratings))
    found = await got(client, "/api/run/a-run/networks")
    assert found["sides"] == ["X", "O"]
    assert [(one["step"], one["elo"]) for one in found["networks"]] == [(None, None), (2, 321.0), (1, None)]
    assert found["networks"][1]["name"] == newest.stem
    assert found["networks"][1]["at"] == pytest.approx(newest.stat().st_mtime)
    (played,) = folder.glob("weights/000001-*")  # the gate has refused both newer ones
    sha256 = bytes.fromhex(hash_in_name(played).ljust(64, "0"))
    info = WeightsInfo(1, 1, sha256, 1, "tic_tac_toe", "1x8")
    (folder / "weights" / "current.json").write_bytes(msgspec.json.encode(info))
    found = await got(client, "/api/run/a-run/networks")
    assert [one["step"] for one in found["networks"]] == [1, None, 2]


@pytest.mark.parametrize(
    "body",
    [*({"simulations": n} for n in (0, 1_000_000, "many")), {"side": 2}, {"weights": 3}, {"other": 1}, []],
)
@with_client
async def test_an_order_that_makes_no_sense_is_explained(client, runs: Path, body: object) -> None:
    assert "cannot be understood" in (await ordered(client, PLAY, body, 400))["error"]


@with_client
async def test_moves_games_and_weights_that_are_not_there_are_explained(client, runs: Path) -> None:
    game = await ordered(client, PLAY, {"simulations": 1})
    path = f"/api/play/{game['token']}"
    assert "not a legal cell" in (await ordered(client, f"{path}/move", {"move": "10"}, 409))["error"]
    assert "no such order" in (await ordered(client, f"{path}/dance", {}, 404))["error"]
    assert "no longer open" in (await got(client, "/api/play/nothing/at/0", 410))["error"]
    wrong = await ordered(client, PLAY, {"weights": "../a-run/weights/000001-01234561"}, 404)
    assert "no weights called" in wrong["error"]
    await ordered(client, f"{path}/leave", {})
    await got(client, f"{path}/at/0", 410)


@with_client
async def test_the_game_not_touched_for_longest_gives_way_and_is_opened_again_with_its_moves(
    client, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azselfplay.lab.web.person_games.MOST_GAMES", 2)
    terms = {"simulations": 1, "side": 0}
    first = await ordered(client, PLAY, terms)
    second = await ordered(client, PLAY, terms)
    first = await ordered(client, f"/api/play/{first['token']}/move", {"move": "5"})
    await ordered(client, PLAY, terms)
    await got(client, f"/api/play/{second['token']}/at/0", 410)
    await ordered(client, PLAY, terms)
    await got(client, f"/api/play/{first['token']}/at/0", 410)
    again = await ordered(client, PLAY, {**terms, "moves": first["moves"]})
    assert (again["moves"], again["board"], again["is_mine"]) == (["5"], first["board"], False)
    # Meanwhile azserver has removed its network.
    gone = {**terms, "moves": ["5"], "weights": "000000-00000000"}
    assert (await ordered(client, PLAY, gone))["moves"] == ["5"]
    wrong = await ordered(client, PLAY, {**terms, "moves": ["5", "5"]}, 400)
    assert "cannot be opened" in wrong["error"]


@with_client
async def test_a_long_pasted_game_is_opened_again_with_the_moves_played_from_there(
    client, runs: Path
) -> None:
    moves = ["1", "2", "3"]
    longest = "5".ljust(app.MOST_PASTED)
    game = await ordered(client, PLAY, {"position": longest, "moves": moves, "simulations": 1})
    assert game["moves"] == ["5", *moves]
    refused = await ordered(client, PLAY, {"position": longest + " "}, 400)
    assert "longer than 16,384 characters" in refused["error"]


@with_client
async def test_a_game_that_is_closed_while_an_order_for_it_is_read_is_gone(
    client, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, opened = (await ordered(client, PLAY, {"simulations": 1}))["token"], client.app[SITE].person_games
    read = app._body

    async def slow(*asked):
        order = await read(*asked)
        opened.leave(opened.find(token))
        return order

    monkeypatch.setattr(app, "_body", slow)
    assert "no longer open" in (await ordered(client, f"/api/play/{token}/hint", {}, 410))["error"]


@with_client
async def test_no_game_that_is_searching_gives_way(
    client, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azselfplay.lab.web.person_games.MOST_GAMES", 1)
    token = (await ordered(client, PLAY, {"simulations": 1}))["token"]
    async with client.app[SITE].person_games.find(token).lock:
        assert "at this moment" in (await ordered(client, PLAY, {}, 503))["error"]
    await ordered(client, PLAY, {"simulations": 1})


@with_client
async def test_a_game_that_is_gone_on_from_keeps_its_own_cap(client, tmp_path: Path) -> None:
    short = random_game(get_game("tic_tac_toe"), np.random.default_rng(0), simulations=20, max_plies=3)
    run = run_with_games(tmp_path, "tic_tac_toe", games=1)
    store = Store(run / "games.db", "tic_tac_toe")
    store.commit([entry(short)])
    store.close()
    assert short.reason == "ply_cap"
    game = await ordered(client, PLAY, {"game": 2, "ply": 2, "simulations": 10})
    assert game["is_mine"]
    path = f"/api/play/{game['token']}/move"
    assert (await ordered(client, path, {"move": game["legal"][0]["text"]}))["over"] == "ply_cap"


INTERRUPTED = """
import os, signal, sys, threading
from azselfplay.lab import azplay
from azselfplay.lab.web import app, person_games
def prepare(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
exec(sys.argv.pop(1) + " = prepare")
sys.exit(azplay.main())
"""


@pytest.mark.parametrize(
    ("what", "path", "body"),
    [
        ("person_games.load_net", PLAY, b"{}"),
        ("person_games.Thinker.warm_up", PLAY, b"{}"),
        ("app.Analyst.warm_up", "/api/run/a-run/games/1/at/0/network", None),
    ],
)
def test_ctrl_c_does_not_wait_for_a_network_that_is_prepared(
    runs: Path, what: str, path: str, body: bytes | None
) -> None:
    command = [sys.executable, "-c", INTERRUPTED, what, "web", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().rstrip("/")
            asked = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
            with contextlib.suppress(OSError), urllib.request.urlopen(asked):  # it leaves without an answer
                pass
            assert process.wait(400) == 0
        finally:
            process.kill()
