"""`import azselfplay as az`: the interface for people's own programs."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from unittest.mock import Mock

import pytest
from process_marks import wait_for

import azselfplay as az
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.runs import RunFolder, is_locked
from azselfplay.lab import api
from azselfplay.play.nets import LoadedNet
from net.create import create


@pytest.fixture(scope="module")
def run() -> Iterator[az.Run]:
    with az.load("tic_tac_toe") as loaded:
        yield loaded


@pytest.mark.parametrize(
    ("game", "text"),
    [
        *(("chess", "e2e4 e7e5"), ("shogi", "7g7f 3c3d"), ("go_5x5", "C3 C2")),
        *(("connect_four", "4 4"), ("dots_and_boxes", ""), ("tic_tac_toe", "5 1")),
    ],
)
def test_the_ten_lines_work_for_every_game(game: str, text: str) -> None:
    with az.load(game) as run:
        position = run.position(text)
        assert len(position.moves) == len(text.split())
        win, draw, loss, policy = position.evaluate()
        assert win + draw + loss == pytest.approx(1, abs=1e-4)
        assert set(policy) == set(position.legal_moves)
        found = position.search(simulations=8)
        assert found.best == found.line[0]
        assert found.best in position.legal_moves
        assert 7 <= sum(found.visits.values()) <= 8
        assert position.board.svg.startswith("<svg")
        assert str(position.board).count("\n") >= 2


def test_a_game_is_played_to_its_end_and_can_be_looked_at(run: az.Run) -> None:
    game = az.play(run, "alphabeta:9", simulations=8)
    assert game.final.finished == game.reason
    assert game.final.legal_moves == []
    assert game.outcome in (0, -1)  # perfect play does not lose
    assert run.position().moves == ()
    again = run.position(moves=game.moves)
    assert again.text == game.final.text


def test_the_outcome_is_of_the_players_in_their_order_whoever_is_to_move_at_the_start() -> None:
    game = az.play("random", "alphabeta:9", game="tic_tac_toe", start="xx./oo./x..")
    assert (game.moves, game.outcome) == (("6",), -1)


def test_two_players_that_are_no_runs_need_the_game_and_no_network(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    game = az.play("random", "alphabeta:9", game="tic_tac_toe")
    assert game.outcome in (0, -1)
    assert game.final.run.position(moves=game.moves[:1]).play(game.moves[1]).moves == game.moves[:2]
    with pytest.raises(az.Error, match="no network has played this game"):
        game.final.run.position().evaluate()
    with pytest.raises(az.Error, match="give the game too"):
        az.play("random", "random")


def test_what_cannot_be_done_is_said_in_a_sentence_by_one_exception(run: az.Run) -> None:
    over = run.position("1 4 2 5 3")
    wrong: dict[str, Callable[[], object]] = {
        "move 1 .'10'.": lambda: run.position("10"),
        "move 2 .'5'.": lambda: run.position("5 5"),
        "the game is over": lambda: over.play("9"),
        "game is over .line.": over.evaluate,
        "there is nothing to evaluate": over.search,
        "simulations is 0": lambda: run.position().search(0),
        "there is no network 'nothing'": lambda: az.load("nothing"),
        "is not a player": lambda: az.play(run, "stockfish"),
        "a position of connect_four": lambda: run.evaluate([az.load("connect_four").position()]),
        "one network plays": lambda: az.play(run, az.load("connect_four")),
        "plays tic_tac_toe, not chess": lambda: az.play(run, "random", game="chess"),
        "minutes is 0": lambda: az.train("tic_tac_toe", minutes=0),
        "unknown game 'tic_tac'": lambda: az.train("tic_tac", minutes=1),
    }
    for sentence, ask in wrong.items():
        with pytest.raises(az.Error, match=sentence):
            ask()


def test_a_closed_network_says_so_and_keeps_nobody_waiting() -> None:
    with az.load("tic_tac_toe") as run:
        position = run.position("5")
    for ask in (position.evaluate, position.search, lambda: az.play(run, "random")):
        with pytest.raises(az.Error, match="this network is closed: load it again"):
            ask()


def test_a_network_whose_run_cannot_be_read_is_closed_again(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise Fatal("config.toml does not say how the run searches", Exit.BAD_DATA)

    closed, close = list[LoadedNet](), LoadedNet.close
    monkeypatch.setattr(api, "settings_for_search", refuse)
    monkeypatch.setattr(LoadedNet, "close", lambda net: (closed.append(net), close(net)))
    with pytest.raises(az.Error, match="does not say how the run searches"):
        az.load("tic_tac_toe")
    assert len(closed) == 1


def test_without_torch_an_untrained_network_is_refused_with_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(az.Error, match=r"torch.*azselfplay\[train\]"):
        az.load("tic_tac_toe")


def test_it_works_in_several_threads_and_beside_a_running_loop(run: az.Run) -> None:
    position = run.position("5")
    alone = position.search(simulations=20)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: position.search(simulations=20), range(8)))
    assert found == [alone] * 8

    async def in_a_loop() -> None:
        assert position.search(simulations=20) == alone
        assert await position.search_async(simulations=20) == alone
        assert await position.evaluate_async() == position.evaluate()
        assert (await az.play_async(run, "random", simulations=4)).final.finished

    asyncio.run(in_a_loop())


def test_the_first_calls_of_several_threads_share_one_loop(monkeypatch) -> None:
    make, second_comes = asyncio.new_event_loop, Barrier(2)

    def make_slowly() -> asyncio.AbstractEventLoop:
        # Only a second thread in here would end this wait early.
        with suppress(BrokenBarrierError):
            second_comes.wait(timeout=0.1)
        return make()

    monkeypatch.setattr(api, "_loop", cache(api._loop.__wrapped__))
    monkeypatch.setattr(asyncio, "new_event_loop", make_slowly)
    with ThreadPoolExecutor(8) as threads:
        assert len({*threads.map(lambda _: api._background(), range(8))}) == 1


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    create("tic_tac_toe", 0, "tiny", 1, tmp_path / "net.safetensors")
    with az.load("~/net.safetensors") as loaded:
        assert loaded.name.startswith("net ")
    with pytest.raises(az.Error, match=f"no runs in the folder {tmp_path}/runs"):
        az.load("none", runs="~/runs")


def test_a_forked_child_is_told_so_instead_of_waiting_for_threads_that_it_lacks(run, monkeypatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (run.position().evaluate, lambda: az.load("tic_tac_toe")):
        with pytest.raises(az.Error, match=r"forked .*: load networks only after the fork, or .* 'spawn'"):
            call()


def test_many_positions_share_the_batches_of_the_network(run: az.Run) -> None:
    positions = [run.position(move) for move in run.position().legal_moves] * 50
    before = run._net.evaluator.batches
    found = run.evaluate(positions)
    assert found == [position.evaluate() for position in positions[:9]] * 50
    assert run._net.evaluator.batches - before < 60


PLAYS = "import azselfplay as az\nprint(az.load('tic_tac_toe').position('5').search(8).best)\n"


def ran(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(text)
    return subprocess.run([sys.executable, folder / "mine.py"], capture_output=True, text=True, check=False)


def test_files_of_ones_own_beside_the_script_do_no_harm(tmp_path: Path) -> None:
    for name in ("search.py", "games.py", "play.py", "host.py"):
        (tmp_path / name).write_text("raise RuntimeError('imported')\n")
    done = ran(tmp_path, PLAYS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() in "12346789"


@pytest.mark.parametrize("name", ["net", "server", "client", "trainer", "protocol"])
def test_a_file_that_hides_one_of_our_packages_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("")
    done = ran(tmp_path, PLAYS)
    assert f"{name}.py hides azselfplay's own package '{name}': rename that file" in done.stderr


def test_the_trainer_names_such_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("")
    command = [sys.executable, "-m", "trainer", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.CONFIG
    assert done.stderr.startswith("trainer: error: ")
    assert "net.py hides azselfplay's own package 'net': rename that file" in done.stderr


def test_importing_it_loads_nothing_and_the_room_named_play_is_the_function_too(tmp_path: Path) -> None:
    text = "import azselfplay as az, sys\nprint({'numpy', 'torch', 'numba'} & set(sys.modules))\n"
    text += "import azselfplay.play.player\n"
    text += "print(az.play('random', 'random', game='tic_tac_toe').final.finished is not None)\n"
    assert ran(tmp_path, text).stdout.split("\n")[:2] == ["set()", "True"]


def test_the_end_of_the_script_ends_the_training(tmp_path: Path) -> None:
    """The script may be killed, or be a notebook's kernel that is restarted."""
    text = "import azselfplay as az\naz.train('tic_tac_toe', minutes=60, run='left', runs='runs')\n"
    (tmp_path / "mine.py").write_text(text)
    script = subprocess.Popen([sys.executable, tmp_path / "mine.py"], cwd=tmp_path)
    lock = RunFolder(tmp_path / "runs", "left").lock_of("azserver")
    wait_for(lambda: lock.exists() and is_locked(lock), lambda: "azserver has not begun")
    script.kill()
    script.wait()
    wait_for(lambda: not is_locked(lock), lambda: "azserver has not ended")


def test_azrun_is_started_with_the_name_that_it_would_give_the_run_itself(tmp_path, monkeypatch) -> None:
    class Begun(Exception):
        pass

    def begin(command: list[str], **_: object) -> None:
        raise Begun(command)

    monkeypatch.setattr(subprocess, "Popen", begin)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Begun) as begun:
        az.train("tic_tac_toe", minutes=1, flags=["--recipe", "none", "--net", "2x8"])
    (command,) = begun.value.args
    assert command[-2:] == ["--run", "tic_tac_toe-2x8"]
    assert "-P" in command, "a file net.py of ones own does no harm"
    with pytest.raises(az.Error, match=r"azrun does not take these flags: .* --nett 2x8"):
        az.train("tic_tac_toe", minutes=1, flags=["--nett", "2x8"])


def test_a_line_of_azrun_with_brackets_is_shown_as_it_is(tmp_path, monkeypatch, capfd) -> None:
    azrun = Mock(stderr=["error: cannot read [/data/x]\n"], wait=lambda: 74, returncode=74)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: azrun)
    with pytest.raises(az.Error, match=r"azrun ended with exit status 74: error: cannot read \[/data/x\]"):
        az.train("tic_tac_toe", minutes=1, run="r", runs=tmp_path)
    assert "[/data/x]" in capfd.readouterr().out.replace("\n", "")


def test_a_run_is_trained_and_loaded(tmp_path: Path) -> None:
    """Compiling may take all the time of the first calls; the next call then continues the run."""
    (tmp_path / "trainer.toml").write_text("[publishing]\nsteps = 5\n[window]\nmin_positions = 100\n")
    flags, step = ["--trainer-config", str(tmp_path / "trainer.toml")], 0
    for minutes in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4):
        with (
            suppress(az.Error),
            az.train("tic_tac_toe", minutes=minutes, run="mine", runs=tmp_path, flags=flags) as run,
        ):
            step = run.step
        if step:
            break
    assert step > 0
    with pytest.raises(az.Error, match=r"azrun ended with exit status 78: .*--net"):
        az.train("tic_tac_toe", minutes=0.1, run="other", runs=tmp_path, flags=["--net", "9x9x9"])
