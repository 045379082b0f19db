"""Stored games in a browser: lists, positions, files."""

from dataclasses import replace
from pathlib import Path

import pytest
from games_runs import records
from report_runs import whole_run
from web_runs import got, run_with_games, with_client

from azselfplay.store.sqlite import Store
from protocol.records import IMPROVED_POLICY

GAMES = 30


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run_with_games(folder, "tic_tac_toe", games=GAMES)
    return folder


@with_client
async def test_a_filter_leaves_the_games_that_pass(client, runs: Path) -> None:
    path = "/api/run/a-run/games"
    every = (await got(client, path))["games"]
    assert [game["number"] for game in every] == list(range(GAMES, 0, -1))
    for name, outcome in (("first", 1), ("draw", 0), ("second", -1)):
        found = (await got(client, f"{path}?outcome={name}"))["games"]
        assert found == [game for game in every if game["outcome"] == outcome] != []
    long = (await got(client, f"{path}?min_plies=8&version=2"))["games"]
    assert long == [game for game in every if game["plies"] >= 8 and game["weights"] == "2"]
    assert (await got(client, f"{path}?reason=nonsense"))["games"] == []
    assert (await got(client, f"{path}?before=3"))["games"] == every[-2:]


@with_client
async def test_a_game_is_shown_position_by_position_with_what_the_search_found(client, runs: Path) -> None:
    path = "/api/run/a-run/games/1"
    game = await got(client, path)
    assert (await got(client, "/api/run/a-run/games"))["games"][-1]["last"] == game["moves"][-6:]
    assert len(game["values"]) == len(game["moves"]) == game["plies"]
    for ply in range(game["plies"] + 1):
        found = await got(client, f"{path}/at/{ply}")
        board = found["board"]
        assert board["svg"].startswith("<svg")
        assert board["position"].count("x") + board["position"].count("o") == ply
        if ply < game["plies"]:
            candidates = found["search"]["candidates"]
            assert [one["said"] for one in candidates if one["played"]] == [game["moves"][ply]]
            assert sum(one["share"] for one in candidates) == pytest.approx(1)
            assert candidates[0]["clicks"] == [f"cell {candidates[0]['text']}"]
    assert found["search"] is None


@with_client
async def test_shares_of_an_improved_policy_are_not_called_visits(client, tmp_path: Path) -> None:
    [record] = records("tic_tac_toe", 1)
    improved = replace(record, flags=record.flags | IMPROVED_POLICY)
    whole_run(tmp_path / "a-run", "tic_tac_toe", [improved])
    search = (await got(client, "/api/run/a-run/games/1/at/0"))["search"]
    assert {search["visits"], *(one["visits"] for one in search["candidates"])} == {None}
    assert sum(one["share"] for one in search["candidates"]) == pytest.approx(1)


@with_client
async def test_a_network_says_what_it_thinks_of_a_position(client, runs: Path) -> None:
    names = await got(client, "/api/run/a-run/weights")
    assert names[0].startswith("000002-")
    found = await got(client, f"/api/run/a-run/games/1/at/1/network?weights={names[1]}")
    assert found["weights"] == f"{names[1]} (step 1)"
    assert sum(one["share"] for one in found["policy"]) == pytest.approx(1, abs=1e-3)
    last = (await got(client, "/api/run/a-run/games/1"))["plies"]
    assert "over" in (await got(client, f"/api/run/a-run/games/1/at/{last}/network", 409))["error"]
    no_net = "/api/run/a-run/games/1/at/0/network?weights=..%2f..%2fsecret"
    assert "no weights called" in (await got(client, no_net, 404))["error"]


@with_client
async def test_a_line_that_was_not_played_is_shown_from_a_position_of_the_game(client, runs: Path) -> None:
    path = "/api/run/a-run/games/1"
    played = (await got(client, path))["moves"]
    other = next(str(cell) for cell in range(1, 10) if str(cell) not in played[:3])
    found = await got(client, f"{path}/at/2?line={other}")
    assert found["search"] is None
    position = found["board"]["position"]
    assert (position.count("x"), position.count("o")) == (2, 1)
    assert position != (await got(client, f"{path}/at/3"))["board"]["position"]
    wrong = await got(client, f"{path}/at/2?line={played[0]}", 400)
    assert "cannot be played from position 2" in wrong["error"]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/99", 404, "numbers 1 to 30"),
        ("/0", 400, "whole number"),
        ("/x", 400, "whole number"),
        ("/1/at/99", 404, "positions 0 to"),
        ("/1/at/-1", 400, "whole number"),
        ("?outcome=maybe", 400, "first, draw or second"),
        *((f"?{query}", 400, "whole number") for query in ("min_plies=-1", "before=x", "version=1e9")),
        (f"?before={'9' * 30}", 400, "whole number"),
    ],
)
@with_client
async def test_a_game_position_or_filter_that_is_not_there_is_a_sentence(
    client, runs: Path, path: str, status: int, text: str
) -> None:
    assert text in (await got(client, f"/api/run/a-run/games{path}", status))["error"]


TEXT = ("text", "txt", "[Game ")


@pytest.mark.parametrize(
    ("game", "forms"),
    [
        ("tic_tac_toe", [TEXT]),
        ("chess", [("PGN", "pgn", "[Event"), TEXT]),
        ("go_5x5", [("SGF", "sgf", "(;"), TEXT]),
        ("shogi", [("CSA", "csa", "V2"), ("KIF", "kifu", "#KIF"), TEXT]),
    ],
)
@with_client
async def test_games_are_downloaded_as_other_programs_read_them(
    client, tmp_path: Path, game: str, forms: list[tuple[str, str, str]]
) -> None:
    run_with_games(tmp_path, game, games=1)
    shown = await got(client, "/api/run/a-run/games/1")
    assert shown["forms"] == [form for form, _, _ in forms]
    path, plain = "/run/a-run/games/1/download", ""
    for form, ending, begin in [("", *forms[0][1:]), *forms]:
        async with client.get(f"{path}?form={form}") as answer:
            assert answer.headers["Content-Disposition"] == f'attachment; filename="a-run-1.{ending}"'
            text = await answer.text()
            assert text.startswith(begin)
        plain = plain or text
    async with client.get(f"{path}?variations=2") as answer:
        assert len(await answer.text()) > len(plain), "other moves were searched"
        assert "a-run-1-variations." in answer.headers["Content-Disposition"]
    async with client.get(f"{path}?form=odt") as answer:
        assert answer.status == 400
        assert "can be had as" in await answer.text()


@with_client
async def test_a_game_whose_record_was_dropped_is_told_of(client, tmp_path: Path) -> None:
    path = run_with_games(tmp_path, "tic_tac_toe") / "games.db"
    store = Store(path, "tic_tac_toe", keep=2)
    store.commit([])
    store.close()
    assert "no longer stored" in (await got(client, "/api/run/a-run/games/1", 404))["error"]
    assert "has no game 99" in (await got(client, "/api/run/a-run/games/99", 404))["error"]
    assert (await got(client, "/api/run/a-run/games"))["games"][0]["number"] == 6
