"""The engine as a real process, driven by python-chess."""

import subprocess
import sys
from pathlib import Path

import chess
import chess.engine

COMMAND = [sys.executable, "-m", "azselfplay.lab.azplay", "uci", "--threads", "1", "--hash", "16"]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0
"""Seconds for starting and compiling on a busy machine."""


def test_its_moves_are_legal_in_a_game_of_few_men():
    board = chess.Board("8/8/8/8/8/3k4/4r3/7K w - - 0 1")
    with chess.engine.SimpleEngine.popen_uci(COMMAND, timeout=PATIENCE, cwd=ROOT) as engine:
        engine.ping()
        while not board.is_game_over(claim_draw=True) and board.ply() < 60:
            result = engine.play(board, chess.engine.Limit(nodes=150), game="one")
            assert result.move in board.legal_moves
            board.push(result.move)
    assert board.ply() > 0


def test_weights_that_do_not_exist_end_it_with_a_clear_message():
    command = [*COMMAND, "/nonexistent/net.safetensors"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, **pipes) as process:
        process.stdin.write(b"isready\n")  # input stays open: a failed set-up ends it by itself
        process.stdin.flush()
        assert process.wait(timeout=PATIENCE) == 65
        said = process.stderr.read()
    assert b"does not exist" in said
    assert b"Traceback" not in said
