"""`azplay match` as a process: flags, files, exit codes."""

import asyncio
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import chess.pgn
import pytest

from azselfplay.host.aio import Stop
from azselfplay.host.exits import Exit
from azselfplay.play import match

ROOT = Path(__file__).resolve().parents[2]


def azplay(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "azselfplay.lab.azplay", "match", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def test_a_match_prints_json_and_writes_pgn_and_moves(tmp_path: Path) -> None:
    pgn, moves = tmp_path / "games.pgn", tmp_path / "games.jsonl"
    arguments = ("--games", "5", "--max-plies", "60", "--json", "--pgn", str(pgn), "--moves", str(moves))
    done = azplay("greedy", "random", *arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["games"] == 6
    assert result["wins"] + result["draws"] + result["losses"] == 6
    text = io.StringIO(pgn.read_text())
    games = [chess.pgn.read_game(text) for _ in range(6)]
    assert all(game is not None and not game.errors for game in games)
    assert {game.headers["White"] for game in games if game} == {"greedy", "random"}
    lines = [json.loads(line) for line in moves.read_text().splitlines()]
    assert [len(line["moves"]) for line in lines] == [line["plies"] for line in lines]
    assert [int(game.headers["PlyCount"]) for game in games if game] == [line["plies"] for line in lines]


@pytest.mark.parametrize("file", ["--pgn", "--moves"])
def test_a_full_disk_below_a_file_of_games_is_named_once_and_the_match_goes_on(file: str) -> None:
    done = azplay("greedy", "random", "--games", "4", "--max-plies", "30", file, "/dev/full")
    assert done.returncode == Exit.DISK
    assert done.stderr == "/dev/full cannot be written: No space left on device; it gets no more games\n"
    assert "games                4 (" in done.stdout


def test_sprt_stops_the_match_and_the_table_says_so() -> None:
    done = azplay("greedy", "random", "--game", "tic_tac_toe", "--games", "2000", "--sprt", "0,100")
    assert done.returncode == 0, done.stderr
    assert "H1 accepted" in done.stdout
    assert "Elo of A over B" in done.stdout
    assert "2000 (" not in done.stdout


def test_the_progress_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(match, "TTY_SECONDS", 0.0)
    monkeypatch.setattr(terminal, "fileno", lambda: 2)  # the output may go to a file
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((20 if fd == 2 else 80, 5)))
    config = match.MatchConfig(game="tic_tac_toe", games=4, sprt="0,10")
    asyncio.run(match.Match(config, ("random", "random")).run(Stop()))
    lines = terminal.getvalue().rstrip("\n").split("\r\x1b[K")
    assert {len(line) for line in lines[1:]} == {19}


INTERRUPTED = """
import asyncio, os, signal, sys, threading
from azselfplay.play import match
from azselfplay.play.builtin_players import ThinkingPlayer
def think(*_):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
class Starting(ThinkingPlayer):
    async def prepare(self):
        if self.name == "starting":
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
match.make_player = lambda spec, *_, **__: Starting(spec, think)
sys.argv = ["azplay match", sys.argv[1], "slow", "--game", "tic_tac_toe", "--concurrent", "1"]
sys.exit(match.main())
"""


@pytest.mark.parametrize("first", ["slow", "starting"])
def test_an_interrupted_match_does_not_wait_for_a_player_that_thinks_for_ever(first: str) -> None:
    """Nor for an engine that does not start."""
    command = [sys.executable, "-c", INTERRUPTED, first]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "A won, drew, lost    0 0 0" in done.stdout
