"""The state of a run on the pages: it runs, has ended, or does not answer."""

import asyncio
import json
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from in_process import azplay_here
from report_runs import STEPS, figures
from test_store import seen
from web_runs import next_event, pages, run_with_games, with_client

from azselfplay.host.config import to_toml
from azselfplay.host.exits import Fatal
from azselfplay.host.runs import RunFolder, RunLock, here
from azselfplay.lab.web import watching
from azselfplay.lab.web.app import SITE
from azselfplay.lab.web.games import Filter, StoredGames
from azselfplay.lab.web.guarding import PageError
from azselfplay.lab.web.runs import RunState, state_of, summary

OTHER_MACHINE = "another-boot 1"
HOUR = 3600.0


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, "a-run")
    folder.create("tic_tac_toe", 1)
    return folder


def write_figures(run: RunFolder, *, age: float) -> None:
    """Write a line of figures that is `age` seconds old."""
    run.figures_log.write_text(json.dumps(figures(1)) + "\n")
    at = datetime.now(UTC).timestamp() - age
    os.utime(run.figures_log, (at, at))


def test_a_run_runs_until_its_processes_end_though_its_figures_are_fresh(run: RunFolder) -> None:
    write_figures(run, age=0)
    with run.lock("azserver"):
        assert state_of(run) is RunState.RUNNING
        run.lock("trainer").close()
        assert state_of(run) is RunState.RUNNING
    assert state_of(run) is RunState.ENDED


def test_a_run_whose_trainer_was_killed_does_not_answer(run: RunFolder) -> None:
    write_figures(run, age=0)
    run.lock_of("trainer").write_text(here())
    run.lock("azserver").close()
    assert state_of(run) is RunState.SILENT
    assert summary(run)["silent_s"] >= 0


@pytest.mark.parametrize(("age", "expected"), [(20.0, RunState.RUNNING), (HOUR, RunState.SILENT)])
def test_a_run_of_another_machine_runs_while_figures_come(
    run: RunFolder, age: float, expected: RunState
) -> None:
    run.lock_of("trainer").write_text(OTHER_MACHINE)
    write_figures(run, age=age)
    assert state_of(run) is expected


@pytest.mark.parametrize("is_link", [False, True])
def test_a_run_of_another_machine_runs_while_games_come_though_it_does_not_train_yet(
    run: RunFolder, is_link: bool
) -> None:
    """Games come into the write-ahead log; the store itself is written only now and then."""
    run.lock_of("trainer").write_text(OTHER_MACHINE)
    if is_link:
        run.games.symlink_to(run.path.with_name("games.db"))
    assert state_of(run) is RunState.SILENT
    run.games.resolve().with_name("games.db-wal").write_bytes(b"games")
    assert state_of(run) is RunState.RUNNING


def test_a_run_that_waits_does_not_show_the_games_an_hour_of_its_last_step(run: RunFolder) -> None:
    run.figures_log.write_text(json.dumps({**figures(1), "trainer/games_per_h": 60.0}) + "\n")
    with run.lock("trainer"):
        assert summary(run)["games_per_h"] == 60
        os.utime(run.figures_log, (HOUR, HOUR))
        assert (summary(run)["games_per_h"], summary(run)["games"]) == (None, 3)


def test_a_trainer_that_has_left_says_nothing_about_the_present(run: RunFolder) -> None:
    alerts = {"alerts": ["collapse: x"], "trainer/games_per_h": 60.0}
    run.figures_log.write_text(json.dumps({**figures(1), **alerts}) + "\n")
    with run.lock("azserver"):
        with run.lock("trainer"):
            assert (summary(run)["alerts"], summary(run)["games_per_h"]) == (["collapse: x"], 60)
        assert (summary(run)["alerts"], summary(run)["games_per_h"]) == ([], None)


def test_on_the_servers_machine_games_and_curves_are_the_trainers(run: RunFolder) -> None:
    run.config.write_text("")
    assert "not begun here yet, or keeps games and curves on another" in summary(run)["away"]
    with pytest.raises(PageError, match="no games here: the trainer has not begun here yet"):
        StoredGames().listed(run, Filter(), 0)


def test_an_ended_run_shows_its_final_figures_and_when_it_was_created(run: RunFolder) -> None:
    write_figures(run, age=HOUR)
    run.write_figures({"games": 77, "step": 9, "weights_version": 3, "alerts": ["collapse: x"]})
    created = datetime.fromtimestamp(run.about.stat().st_mtime - 2 * HOUR, UTC)
    run.about.write_text(json.dumps({**run.describe(), "created": created.isoformat()}))
    for path in (run.figures, run.about):
        at = created.timestamp() + HOUR
        os.utime(path, (at, at))
    os.utime(run.figures_log, (created.timestamp(), created.timestamp()))
    run.lock("trainer").close()
    found = summary(run)
    assert (found["games"], found["step"], found["version"]) == (77, 9, 3)
    assert found["alerts"] == ["collapse: x"]
    assert found["created"] == pytest.approx(created.timestamp(), abs=2)
    assert found["silent_s"] is None


async def test_a_page_that_is_open_at_the_end_of_a_run_is_told_so_and_the_terminal_once(
    tmp_path, caplog
) -> None:
    folder = RunFolder(tmp_path, run_with_games(tmp_path, "tic_tac_toe").name)
    lock = RunLock(folder.lock_of("trainer"))
    caplog.set_level(logging.INFO, "azselfplay.lab.web")
    async with pages(tmp_path) as client, client.get("/api/run/a-run/events") as answer:
        assert (await next_event(answer))["summary"]["state"] == "running"
        folder.write_figures({"games": 500, "step": STEPS, "weights_version": 4, "alerts": []})
        lock.close()
        while (found := await next_event(answer))["summary"]["state"] == "running":
            pass
        assert found["summary"]["state"] == "ended"
        assert (found["summary"]["games"], found["summary"]["version"]) == (500, 4)
        assert "last" not in found
        await next_event(answer)
    assert caplog.messages == ["run a-run has ended; its pages show the last figures"]


async def test_pages_follow_azserver_to_another_port_and_ask_again_who_refused(run, monkeypatch) -> None:
    dialled: list[str] = []

    class Refused:
        def __init__(self, _context, endpoint: str, *_: object, **__: object) -> None:
            dialled.append(endpoint)

        def send(self, _: object) -> bool:
            return True

        async def run(self) -> None:
            if "5700" in dialled[-1]:
                raise Fatal("refused")
            await asyncio.Event().wait()

    monkeypatch.setattr(watching, "Connection", Refused)
    async with asyncio.TaskGroup() as group, aclosing(watching.ServerFigures(run, group)) as server:
        for port in (5600, 5600, 5700, 5700):
            run.config.write_text(to_toml({"listen": "127.0.0.1", "port": port}))
            await server.ask(running=True)
            await asyncio.sleep(0)
        assert server.state == "refused"
    assert dialled == [f"tcp://127.0.0.1:{port}" for port in (5600, 5700, 5700)]


@with_client
async def test_pages_that_end_with_their_run_tell_its_last_figures(client, tmp_path: Path) -> None:
    folder = run_with_games(tmp_path, "tic_tac_toe")
    assert client.app is not None
    async with client.get("/api/run/a-run/events") as answer:
        await next_event(answer)
        with (folder / "figures.jsonl").open("a") as file:
            file.write(json.dumps(figures(STEPS + 7)) + "\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(client.app[SITE].watching.close())
            while "last" not in (found := await next_event(answer)):
                pass
        assert found["row"]["trainer/step"] == STEPS + 7
        assert not (await answer.content.read()).strip()


def test_a_thread_that_still_reads_keeps_others_out(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop has given it up: its page was closed."""
    files, order = watching.Files(run), list[str]()
    inside, go_on = threading.Event(), threading.Event()

    def read() -> None:
        order.append("begin")
        inside.set()
        assert go_on.wait(60)
        order.append("end")

    monkeypatch.setattr(files.curves, "refresh", read)
    with ThreadPoolExecutor(2) as threads:
        reading = [threads.submit(files.refresh)]
        assert inside.wait(60)
        reading += [threads.submit(files.history)]
        wait(reading, timeout=0.1)
        go_on.set()
    assert [one.exception() for one in reading] == [None, None]
    assert order == ["begin", "end"] * 2


PAGES = tuple(f"run/a-run/{page}" for page in ("history", "settings", "games", "weights", "games/1"))
COMMANDS = (
    *("report RUN --out OUT", "status RUN", "games RUN list", "games RUN show 1", "games RUN stats"),
    *("games RUN verify", "games RUN export --out OUT", "games RUN salvage --out OUT"),
)


def ended_run(runs: Path) -> RunFolder:
    run_with_games(runs, "tic_tac_toe")
    folder = RunFolder(runs, "a-run")
    folder.lock("azserver").close()
    folder.lock("trainer").close()
    for path in [*folder.path.rglob("*"), folder.path]:
        os.utime(path, (1e9, 1e9))
    return folder


async def test_the_pages_of_an_ended_run_change_nothing_in_it_nor_the_time_of_its_end(tmp_path: Path) -> None:
    folder = ended_run(tmp_path)
    before = seen(folder.path)
    answered = []
    async with pages(tmp_path) as client:
        for page in ("runs", *PAGES):
            async with client.get(f"/api/{page}") as answer:
                answered.append((page, answer.status))
                await answer.read()
    assert [page for page, status in answered if status == 200] == ["runs", *PAGES]
    assert seen(folder.path) == before
    assert summary(folder)["changed"] == 1e9


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_looks_at_an_ended_run_changes_nothing_in_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ended_run(tmp_path)
    before = seen(folder.path)
    words = {"RUN": str(folder.path), "OUT": str(tmp_path / "out")}
    ended = azplay_here(monkeypatch, capsys)(*(words.get(word, word) for word in command.split()))
    assert ended.returncode in (0, 3), ended
    assert seen(folder.path) == before
