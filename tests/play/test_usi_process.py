"""The USI engine as a real process, driven by cshogi."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import cshogi
import pytest
from cshogi.usi import Engine

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "azselfplay.lab.azplay", "usi", "--threads", "1", "--hash", "16"]
MOST_PLIES = 60


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    script = tmp_path_factory.mktemp("usi") / "engine.sh"
    script.write_text(f"#!/bin/sh\ncd {shlex.quote(str(ROOT))}\nexec {shlex.join(COMMAND)}\n")
    script.chmod(0o755)
    running = Engine(str(script))
    running.isready()
    yield running
    running.quit()


def played(engine: Engine, sfen: str = cshogi.STARTING_SFEN, **limits: int) -> tuple[cshogi.Board, str]:
    """Let the engine play against itself, for MOST_PLIES at most; return the last position and the last
    `bestmove`."""
    board, moves, best = cshogi.Board(sfen), [], ""
    engine.usinewgame()
    while len(moves) < MOST_PLIES:
        engine.position(moves, f"sfen {sfen}")
        best, _ = engine.go(**limits)
        if best == "resign":
            break
        move = board.move_from_usi(best)
        assert board.is_legal(move), (board.sfen(), best)
        board.push(move)
        moves.append(best)
    return board, best


def test_it_plays_legal_moves_from_the_usual_start(engine):
    board, _ = played(engine, nodes=20)
    assert board.move_number > 5


def test_it_mates_and_resigns_where_there_is_no_move(engine):
    board, best = played(engine, "k8/9/1G7/9/9/9/9/9/K8 b G 1", nodes=200)
    assert best == "resign"
    assert board.is_game_over()
    assert board.move_number == 2
