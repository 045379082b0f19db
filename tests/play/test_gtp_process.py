"""The GTP engine as a real process, driven by scripts: a whole game, and a terminal that shows only ASCII."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "azselfplay.lab.azplay", "gtp", "--threads", "1", "--hash", "16"]
PATIENCE = 240.0
"""Seconds for starting and compiling on a busy machine."""


def test_it_plays_a_whole_game_against_itself_and_scores_it():
    command = [*COMMAND, "--game", "go_9x9", "--nodes", "10"]  # other tests compile it too
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as engine:

        def ask(line: str) -> str:
            """Return the lines of the answer, up to the empty one."""
            engine.stdin.write(line + "\n")
            engine.stdin.flush()
            return "\n".join(iter(lambda: engine.stdout.readline().rstrip("\n"), ""))

        ask("clear_board")
        moves = []
        while moves[-2:] != ["= pass", "= pass"]:
            moves.append(ask(f"genmove {'bw'[len(moves) % 2]}"))
            assert moves[-1].startswith("= ")
            assert len(moves) <= 170, "a game of 9 x 9 has 162 plies at most, and the passes behind them"
        assert ask("final_score")[:4] in ("= B+", "= W+")
        assert ask("final_status_list alive").startswith("=")
        assert ask("quit") == "="
        assert engine.wait(timeout=PATIENCE) == 0


def test_bytes_that_are_no_text_or_that_the_terminal_cannot_show_end_no_engine():
    """The path is written with escapes. The byte order mark is no part of the first command. The end of the
    input ends it."""
    script = "\ufeff1 name\n2 loadsgf /tmp/\u68cb\u8c31.sgf\n3 play b \u68cb\n"
    done = subprocess.run(
        [*COMMAND, "--game", "go_5x5"],
        input=script.encode() + b"\xff\xfe\x80garbage\n4 name\n",
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"},
        timeout=PATIENCE,
        check=True,
    )
    answers = done.stdout.decode("ascii").split("\n\n")
    assert answers[0] == "=1 azselfplay"
    assert answers[1].startswith("?2 cannot load file: there is no file")
    assert "\\u68cb" in answers[1]
    assert answers[-3:-1] == ["=4 azselfplay", "="]
