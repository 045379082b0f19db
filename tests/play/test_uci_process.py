"""The engine as a real process, driven by python-chess and by a hostile script."""

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


HOSTILE = [
    b"\xff\xfe\x00garbage\x80",
    b"position startpos moves " + b"e2e4 " * 100_000,
    b"setoption name Hash value -7",
    b"setoption name WeightsFile value /nonexistent/file",
    b"setoption name Unknown value \x01\x02",
    b"go infinite",
    b"stop",
    b"position startpos moves e2e4 e7e5",
    b"d",
]


def test_hostile_input_never_kills_it_and_it_still_plays():
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018
        script = [*HOSTILE, b"go nodes 20"]
        process.stdin.write(b"\n".join(script) + b"\n")
        process.stdin.flush()
        lines: list[str] = []
        for _ in [line for line in script if line.startswith(b"go")]:
            while not lines or not lines[-1].startswith("bestmove"):
                lines.append(process.stdout.readline().decode())
                assert lines[-1], "it has ended"
            lines.append("--")
        assert lines[-2].split()[1] not in ("(none)", "0000")
        process.stdin.close()  # end of input ends it
        assert process.wait(timeout=PATIENCE) == 0
    notes = [line for line in lines if line.startswith("info string")]
    assert len(notes) >= 5
    assert any("former settings" in note for note in notes)
    assert any("Fen: rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w" in line for line in lines)


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
