"""What a command of azplay cannot do is said in one line, with an exit status and no output."""

import sys
from pathlib import Path

import pytest
from in_process import azplay_here

from azselfplay.host.exits import Exit
from net.create import create

ROOT = Path(__file__).resolve().parents[2]
ENGINE = f"uci:{sys.executable} {Path(__file__).with_name('scripted_engine.py')}"
MATCH = ("match", "greedy", "random")
ROWS = [
    (("analyse", "--game", "chess", "WEIGHTS"), Exit.BAD_DATA, "connect_four, not chess"),
    (("analyse", "/nowhere"), Exit.BAD_DATA, "/nowhere"),
    (("analyse", "--simulations", "20001"), Exit.CONFIG, "20000"),
    (("analyse", "--in-flight", "-1"), Exit.CONFIG, "in-flight"),
    (("analyse", "--game", "checkers"), Exit.CONFIG, "known games"),
    (("annotate", "a.pgn", "--out", ".", "WEIGHTS"), Exit.CONFIG, "--out . is a folder; name a file"),
    (("gtp", "pyproject.toml"), Exit.BAD_DATA, "cannot be used"),
    (("gtp", "--game", "go_1x1"), Exit.CONFIG, "no Go board"),
    (("gtp", "--game", "chess"), Exit.CONFIG, "chess is not Go"),
    (("gtp", "--resign-percent", "90"), Exit.CONFIG, "from 0 to 50, not 90"),
    (("ladder",), Exit.USAGE, "RUN"),
    (("ladder", "no/such/run"), Exit.BAD_DATA, "there is no run 'no/such/run'"),
    (("ladder", "x", "--points", "1"), Exit.CONFIG, "--points must be a whole number from 2 to 1000"),
    (("ladder", "x", "--games", "0"), Exit.CONFIG, "--games must be"),
    (("match", "greedy", "uci:no-such-engine"), Exit.CONFIG, "there is no engine"),
    (("match", "greedy", f"{ENGINE} uci good?Skill Level=3"), Exit.CONFIG, "Skill Level"),
    (("match", "greedy", f"{ENGINE} uci dead"), Exit.CONFIG, "did not start"),
    ((*MATCH, "--sprt", "5"), Exit.CONFIG, "ELO0,ELO1"),
    ((*MATCH, "--game", "ludo"), Exit.CONFIG, "known games"),
    ((*MATCH, "--game", "connect_four", "--pgn", "x.pgn"), Exit.CONFIG, "--moves"),
    ((*MATCH, "--openings", "nothing.epd"), Exit.CONFIG, "openings"),
    (("match", "net:pyproject.toml@10", "random"), Exit.BAD_DATA, "cannot be used"),
    (("play", "--game", "ludo"), Exit.CONFIG, "known games"),
    (("play", "no-run"), Exit.BAD_DATA, "no-run"),
    (("truth", "--json", ".", "WEIGHTS"), Exit.CONFIG, "--json . is a folder"),
    (("scaling", "no.safetensors"), Exit.BAD_DATA, "no.safetensors does not exist"),
]


@pytest.mark.parametrize(("words", "code", "said"), ROWS)
def test_what_cannot_be_done_is_said_in_one_line(
    words: tuple[str, ...],
    code: Exit,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    if "WEIGHTS" in words:
        create("connect_four", 0, "tiny", 3, tmp_path / "w.safetensors")
        words = (*words[:-1], str(tmp_path / "w.safetensors"))
    done = azplay_here(monkeypatch, capsys)(*words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    if code != Exit.USAGE:  # that is said in a table
        assert done.stderr.count("\n") == 1, done.stderr
