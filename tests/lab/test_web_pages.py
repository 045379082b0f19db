"""Pages about runs, their data, and their messages when something is wrong."""

import asyncio
import json
import logging
import re
import shutil
from pathlib import Path

import pytest
from report_runs import STEPS, figures
from web_runs import JSON, got, next_event, pages, run_with_games, with_client

from azselfplay.games import get_game
from azselfplay.host.exits import Fatal
from azselfplay.lab.web.app import ASSETS
from azselfplay.lab.web.guarding import NEW_GAME, may_name, page_error
from azselfplay.play.nets import load_net


@with_client
async def test_the_list_of_runs_tells_game_network_games_alerts_and_a_note(client, runs: Path) -> None:
    (runs / "a-run" / "notes.md").write_text("Half the samples.\n\nSee why.\n")
    (run,) = (one for one in (await got(client, "/api/runs"))["runs"] if one["name"] == "a-run")
    assert (run["game"], run["network"], run["games"]) == ("tic_tac_toe", "tiny", 3.0 * (STEPS - 1))
    assert (run["alerts"], run["strength"]) == ([], None)
    assert run["curve"][0] == [1, 2.99]
    assert run["curve"][-1] == [STEPS - 1, figures(STEPS - 1)["trainer/policy_loss"]]
    assert run["note"] == "Half the samples."
    assert (await got(client, "/api/run/a-run/settings"))["notes"] == "Half the samples.\n\nSee why."


@with_client
async def test_no_text_becomes_a_part_of_a_page(client, runs: Path) -> None:
    """Names of clients and runs, and parts of an address, are escaped or put in as text. A browser would load
    nothing from elsewhere, and run no script that is not one of our files."""
    pages = ["/", "/compare", *(f"/run/a-run{rest}" for rest in ("", "/games", "/games/1", "/play"))]
    for path in (*pages, "/run/%3Cscript%3E", "/run/a-run/games/%3Cscript%3E", "/%3Cscript%3E"):
        async with client.get(path) as answer:
            assert answer.status == 200 or path not in pages
            text, policy = await answer.text(), answer.headers["Content-Security-Policy"]
            assert "<h1>" in text
            assert "http" not in text
            assert "<script>" not in text
            assert policy.startswith("default-src 'none'")
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    for script in ASSETS.glob("*.js"):
        assert not re.search(markup, script.read_text()), script.name


@pytest.mark.parametrize("request_line", ["GET / HTTP/1.1", f"GET /{'a' * 20_000} HTTP/1.1", "\x16\x03\x01"])
async def test_what_is_no_request_is_answered_and_fills_no_log(runs: Path, request_line: str, caplog) -> None:
    """It has no Host, is too long or is not HTTP; others may send as many of these as they like."""
    async with pages(runs) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(request_line.encode() + b"\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"400"
        writer.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@with_client
async def test_a_run_that_does_not_exist_is_a_page_that_says_so(client, runs: Path) -> None:
    for path in ("/run/nobody", "/run/nobody/games/1", "/run/a-run/nothing", "/assets/nothing.js"):
        async with client.get(path) as answer:
            assert answer.status == 404
            text = await answer.text()
            assert "Traceback" not in text
            assert "<h1>Not Found</h1>" in text
    assert "no run called nobody" in (await got(client, "/api/run/nobody/history", 404))["error"]


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2fa-run", "%2fetc", ".", "a-run%2f..", "a%00b", "%3Cb%3E"]
)
async def test_a_name_that_is_no_folder_inside_the_runs_finds_nothing(runs: Path, name: str) -> None:
    for folder in (runs / "a-run", runs):
        async with pages(folder) as client, client.get(f"/api/run/{name}/history") as answer:
            assert answer.status == 404


@with_client
async def test_a_game_that_this_process_does_not_know_is_told_with_what_to_do(
    client, runs: Path, monkeypatch
) -> None:
    """Its package may have been installed after `azplay web` was started."""
    monkeypatch.setattr("azselfplay.lab.web.games.get_game", lambda _name: get_game("hexx"))
    error = (await got(client, "/api/run/a-run/games", 409))["error"]
    assert error.startswith("unknown game 'hexx'")
    assert error.endswith("If the game is new, start azplay web again.")
    with pytest.raises(Fatal) as found:
        load_net(None, "hexx")
    assert page_error(found.value, "a test").text.endswith(NEW_GAME)


@with_client
async def test_assets_are_only_those_of_the_package(client, runs: Path) -> None:
    async with client.get("/assets/core.js") as answer:
        assert answer.content_type == "text/javascript"
    for name in ("..%2fapp.py", "%2e%2e%2fapp.py", "app.py"):
        async with client.get(f"/assets/{name}") as answer:
            assert answer.status == 404


@with_client
async def test_another_sites_name_for_this_machine_is_refused(client, runs: Path) -> None:
    for host in ("evil.example:80", "[x", "127.0.0.1.evil.example"):
        async with client.get("/api/runs", headers={"Host": host}) as answer:
            assert answer.status == 421
    async with client.get("/api/runs", headers={"Host": "localhost"}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("host", "listen", "answered"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "localhost", True),
        ("192.168.1.5", "127.0.0.1", False),
        ("192.168.1.5", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("runs.example", "runs.example", True),
        ("", "127.0.0.1", False),
    ],
)
def test_names_that_a_server_answers_to(host: str, listen: str, answered: bool) -> None:
    assert may_name(host, listen) is answered


@with_client
async def test_orders_of_other_sites_are_refused(client, runs: Path) -> None:
    path = "/api/run/a-run/play"
    for headers, status in (
        ({**JSON, "Origin": "http://evil.example"}, 403),
        ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ):
        async with client.post(path, data=b"{}", headers=headers) as answer:
            assert answer.status == status
    async with client.post(path, data=b"[" * 50_000, headers=JSON) as answer:
        assert answer.status == 413


@with_client
async def test_live_figures_follow_what_the_trainer_writes_and_tell_cause_and_remedy(
    client, tmp_path: Path
) -> None:
    folder = run_with_games(tmp_path, "tic_tac_toe")
    async with client.get("/api/run/a-run/events") as answer:
        assert (await next_event(answer))["row"]["trainer/step"] == STEPS - 1
        row = {**figures(STEPS), "alerts": ["memorising: much", "of another version: x"]}
        with (folder / "figures.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        while (found := await next_event(answer))["row"]["trainer/step"] < STEPS:
            pass
        known, strange = found["alerts"]
        assert known["seen"] == "much"
        assert "memorised" in known["cause"]
        assert "samples.per_position" in known["change"]
        assert strange == {"name": "of another version", "seen": "x"}


@with_client
async def test_a_run_that_is_deleted_while_it_is_watched_is_a_sentence(client, tmp_path: Path) -> None:
    folder = run_with_games(tmp_path, "tic_tac_toe")
    async with client.get("/api/run/a-run/events") as answer:
        assert "error" not in await next_event(answer)
        shutil.rmtree(folder)
        while "error" not in (found := await next_event(answer)):
            pass
        assert "deleted" in found["error"]
    assert "deleted" in (await got(client, "/api/run/a-run/games", 404))["error"]
    assert (await got(client, "/api/runs"))["runs"] == []


@with_client
async def test_strength_shows_the_ladder_and_the_errors_that_were_left(client, runs: Path) -> None:
    folder = runs / "a-run"
    network = {"name": "n1", "label": "v1", "simulations": 50, "step": 100, "version": 1}
    players = [network, {"name": "random", "label": "random"}]
    ratings = {"n1": {"elo": 300.0, "margin95": 40.0}, "random": {"elo": 0.0, "margin95": 0.0}}
    (folder / "ratings.json").write_text(json.dumps({"players": players, "ratings": ratings}))
    group = {"group": "tree", "rows": 10, "errors": 0.2, "matter": 5, "errors_matter": 0.4, "longer": None}
    player = {"player": "000001-ab (step 100)", "simulations": 0, "search": "", "groups": {"tree": group}}
    (folder / "truth-10.json").write_text(json.dumps({"players": [player]}))
    (folder / "truth-1.json").write_text("{")
    player["groups"] = {"tree": {**group, "errors": 0.5}}
    (folder / "truth-2.json").write_text(json.dumps({"players": [player]}))
    found = (await got(client, "/api/run/a-run/history"))["strength"]
    (rated,) = found["ladder"]
    assert (rated["step"], rated["elo"], rated["search"]) == (100, 300.0, "50 simulations, puct")
    assert found["fixed"] == [{"label": "random", "elo": 0.0}]
    assert found["is_solved"]
    assert found["commands"]["truth"].endswith("/truth-3.json"), "the first that overwrites nothing"
    (errors,) = found["errors"]
    assert (errors["step"], errors["search"], errors["errors"]) == (100, "raw policy", 0.2)
    strengths = {run["name"]: run["strength"] for run in (await got(client, "/api/runs"))["runs"]}
    assert strengths["a-run"] == {"elo": 300.0, "margin": 40.0, "step": 100}
    (folder / "ratings.json").write_text("{")
    assert (await got(client, "/api/run/a-run/history"))["strength"]["ladder"] == []
