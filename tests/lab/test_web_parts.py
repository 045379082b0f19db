"""The parts behind the pages: readers of growing files, rates, locks, the command."""

import asyncio
import dataclasses
import itertools
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from games_runs import records, store_run
from in_process import ends
from report_runs import figures
from web_runs import run_with_games

from azselfplay.diagnostics.advice import ADVICE
from azselfplay.host import ports
from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit
from azselfplay.host.runs import RunFolder, newest_row
from azselfplay.lab.report.curves import Curves
from azselfplay.lab.web import person_games, runs
from azselfplay.lab.web.command import WebConfig, listen, serve
from azselfplay.lab.web.guarding import REQUEST_WITHIN
from azselfplay.lab.web.person_games import networks_of
from azselfplay.lab.web.players import Players
from azselfplay.lab.web.runs import summaries
from azselfplay.lab.web.watching import newest_alerts
from azselfplay.store.sqlite import Store, connect
from bench.random_games import entry


def add_rows(path: Path, *steps: int) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(figures(step)) + "\n" for step in steps)


def steps_of(curves: Curves) -> list[float]:
    return [row["trainer/step"] for row in curves.rows]


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    curves = Curves(path)
    curves.refresh()
    add_rows(path, 1, 2)
    for more, steps in (
        ("", [1, 2]),
        ('{"time": 5, "trainer', [1, 2]),
        ('/step": 3}\nnonsense\n', [1, 2, 3]),
    ):
        with path.open("a") as file:
            file.write(more)
        for _ in range(2):
            curves.refresh()
            assert steps_of(curves) == steps
    assert curves.damaged == 1


def test_a_file_that_begins_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    curves = Curves(path)
    add_rows(path, *range(1, 9))
    curves.refresh()
    path.unlink()
    add_rows(path, 1)
    curves.refresh()
    assert steps_of(curves) == [1]


def test_a_long_history_is_thinned_evenly_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    curves = Curves(path, most=10)
    for newest in range(1, 500):
        add_rows(path, newest)
        curves.refresh()
        assert steps_of(curves)[-1] == newest
        assert len(curves.rows) <= 21
    steps = steps_of(curves)
    gaps = {later - one for one, later in itertools.pairwise(steps[:-1])}
    assert len(steps) >= 10
    assert len(gaps) == 1


def test_rates_are_those_of_the_newest_games_whatever_becomes_of_the_clock(tmp_path: Path) -> None:
    """A clock that was set back by a day, or was in 1970, once left the newest games without a player."""

    def received_at(when: object) -> None:
        connect(folder / "games.db", read_only=False).execute(f"UPDATE games SET received_at = {when}")

    games = records("tic_tac_toe", 8)
    folder = store_run(tmp_path / "run", "tic_tac_toe", [entry(game) for game in games[:4]])
    for was_set, now in (("0", 1050.0), ("-86400 * (seq > 3)", -85350.0), ("-1000 * (seq < 2)", 1050.0)):
        players = Players(folder / "games.db")
        received_at(f"1000 + 10 * seq + {was_set}")
        (row,) = players.rates(now)
        assert 200 < row["games_per_h"] < 1000
    players = Players(folder / "games.db")
    store = Store(folder / "games.db", "tic_tac_toe")
    store.commit([entry(game, "clients") for game in games[4:]])
    store.close()
    received_at("1000 + 0.001 * seq")
    assert sum(row["games_per_h"] for row in players.rates(1300.0)) == pytest.approx(96, rel=0.01)
    players = Players(folder / "games.db")
    received_at(1000.0)
    assert {row["kind"] for row in players.rates(1400.0)} == {"worker of azserver", "azclient"}
    assert players.rates(1700.0) == []
    received_at("'x'")
    players = Players(folder / "games.db")
    assert players.rates(1400.0) == [], "a damaged row ends in no traceback"
    (folder / "games.db").unlink()
    assert players.rates(1400.0) == []


def test_a_player_with_a_key_has_the_name_of_the_key_however_many_names_it_gives_itself(tmp_path) -> None:
    games = [dataclasses.replace(one, source=f"me-{at}") for at, one in enumerate(records("tic_tac_toe", 4))]
    entries = [dataclasses.replace(entry(game, "clients"), player="keys/lab-3") for game in games[:3]]
    folder = store_run(tmp_path / "run", "tic_tac_toe", [*entries, entry(games[3], "clients")])
    players = Players(folder / "games.db")
    rows = {row["player"]: row["kind"] for row in players.rates()}
    assert rows == {"lab-3": "azclient, by its key", "me-3": "azclient"}


def test_the_step_of_a_network_that_could_not_be_read_is_looked_for_again(
    tmp_path: Path, monkeypatch
) -> None:
    run = RunFolder(tmp_path, "run")
    run.weights.mkdir(parents=True)
    (run.weights / "000001-abcdef.safetensors").touch()
    heads = iter([OSError("too many open files"), b""])

    def read_header(_file: Path) -> bytes:
        if isinstance(found := next(heads), OSError):
            raise found
        return found

    monkeypatch.setattr(person_games, "read_header", read_header)
    monkeypatch.setattr(person_games, "read_meta", lambda _data: SimpleNamespace(step=7))
    assert [networks_of(run)[0]["step"] for _ in range(3)] == [None, 7, 7]


def test_alerts_are_those_that_azserver_tells_now_with_the_same_advice_as_everywhere() -> None:
    """The trainer's file is some seconds older and has other numbers."""
    written = [{"name": "old weights", "seen": "newest games are 4 weights versions behind (limit 3)"}]
    text = "old weights: newest games are 5 weights versions behind (limit 3)"
    (alert,) = newest_alerts(written, {"trainer": {"alerts": [text]}})
    assert f"{alert['name']}: {alert['seen']}" == text
    assert alert["first"] == ADVICE["old weights"].first
    for none in ({"trainer": {"alerts": []}}, {"sessions": {"trainer": 0}}):
        assert newest_alerts(written, none) == []
    assert newest_alerts(written, None) == newest_alerts(written, {"trainer": None}) == written


def test_the_list_passes_over_what_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a file").write_text("")
    RunFolder(tmp_path, "run").create("tic_tac_toe", 1)
    assert [run["name"] for run in summaries(tmp_path)["runs"]] == ["run"]
    assert summaries(tmp_path / "nowhere") == {"runs": [], "left_out": 0}


def test_the_list_says_how_many_older_runs_it_leaves_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(runs, "MOST_RUNS", 2)
    for name in ("a", "b", "c"):
        RunFolder(tmp_path, name).create("tic_tac_toe", 1)
    found = summaries(tmp_path)
    assert (len(found["runs"]), found["left_out"]) == (2, 1)


def test_the_newest_whole_line_is_the_newest_row(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, "run")
    run.create("tic_tac_toe", 1)
    assert newest_row(run) == {}
    add_rows(run.figures_log, *range(1, 300))
    with run.figures_log.open("a") as file:
        file.write('{"trainer/step": 300')
    assert newest_row(run)["trainer/step"] == 299


def test_a_port_in_use_ends_the_command_with_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with ends(Exit.TRY_AGAIN, r"is in use.*another --port"):
            listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_what_cannot_be_a_host_name_ends_the_command_with_a_sentence(host: str) -> None:
    for listens in (lambda: listen(host, 0), lambda: ports.listen([f"tcp://{host}:0"])):
        with ends(Exit.CONFIG, "it is no host name"):
            listens()


@asynccontextmanager
async def served(runs: Path) -> AsyncIterator[int]:
    """Yield the port of the pages about `runs`."""
    stop, listener = Stop(), listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
        group.create_task(serve(runs, listener, WebConfig(), "/", stop))
        yield port
        stop.request()


async def said_to(port: int, sent: bytes) -> bytes:
    """Return all that comes over a new connection, on which `sent` is sent, until the server closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        return await reader.read()
    finally:
        writer.close()


LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ORDER = (
    b"POST /api/run/a-run/play HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 99\r\n\r\n"
)


UNFINISHED = b"GET / HTTP/1.1\r\nX-Slow: "


async def test_a_request_whose_header_does_not_end_ends_with_its_connection(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("azselfplay.lab.web.guarding.REQUEST_WITHIN", 0.3)
    async with served(tmp_path) as port:
        assert await said_to(port, UNFINISHED) == b""


async def test_a_later_request_whose_header_does_not_end_does_so_too(tmp_path, monkeypatch) -> None:
    """The loop's clock passes the limit once the first request is answered, however long that takes."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + ahead)
    async with served(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET.replace(b"GET", b"HEAD") + UNFINISHED)
        answered = await reader.readuntil(b"\r\n\r\n")
        ahead = REQUEST_WITHIN + 1
        more = await reader.read()
        writer.close()
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert more == b""


async def test_a_body_that_does_not_end_is_answered_and_not_waited_for(tmp_path, monkeypatch) -> None:
    run_with_games(tmp_path, "tic_tac_toe", games=1)
    monkeypatch.setattr("azselfplay.lab.web.app.REQUEST_WITHIN", 0.3)
    async with served(tmp_path) as port:
        answered = await said_to(port, ORDER + b"{")
    assert answered.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within" in answered
