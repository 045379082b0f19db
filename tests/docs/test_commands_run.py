"""The first commands of a newcomer are really run, after a short run of the whole loop.

The commands are taken from the pages: one of each kind about the run of "Getting started". Times and numbers
of games are cut to the smallest that still show something.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from doc_commands import PAGES, ROOT, Shown, shown, titled
from in_process import azplay_here

RUN = "tic_tac_toe-tiny"
MODULES = {"azplay": "azselfplay.lab.azplay", "azrun": "azselfplay.lab.azrun"}
DOCS = ROOT / "docs"
SERVERS = ("web",)
"""These commands serve until they are stopped; tests/lab/test_web_*.py cover them."""
SECONDS = 240
"""Limit for one command, on a busy machine."""


class Home(NamedTuple):
    """A folder with a run that has ended, and a backup that was made while it went on."""

    folder: Path
    backup: Path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Play and train the run of "Getting started" until it has three networks."""
    folder, backups = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("backups")
    process = _start(folder)
    try:
        _wait_for_weights(folder / "runs" / RUN, process)
        _run(f"azplay backup {RUN} {backups / RUN}", folder)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
    return Home(folder, backups / RUN)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """Start azrun as `make run GAME=tic_tac_toe` does, but with weights as soon as there are games."""
    (folder / "trainer.toml").write_text(
        "[publishing]\nsteps = 5\ncheckpoint_seconds = 1\n[window]\nmin_positions = 100\n"
    )
    command = [sys.executable, "-m", "azselfplay.lab.azrun", "--game", "tic_tac_toe"]
    return subprocess.Popen(
        [*command, "--trainer-config", "trainer.toml"],
        cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _environment() -> dict[str, str]:
    """Return our environment, with the packages of this tree found from any folder."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


def _wait_for_weights(run: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the trainer has published weights and written a checkpoint; the tests' time limit ends the
    wait."""
    while process.poll() is None:
        if len(list((run / "weights").glob("*.safetensors"))) > 2 and any(
            (run / "checkpoints").glob("*.state")
        ):
            return
        time.sleep(0.2)
    raise AssertionError(f"azrun ended with {process.returncode}")


def _run(text: str, folder: Path) -> str:
    """Return the standard output of a command, run as a shell runs it; our programs are those of this
    tree."""
    for program, module in MODULES.items():
        text = re.sub(rf"(^|\s){program} ", rf"\1{shlex.quote(sys.executable)} -m {module} ", text)
    ended = subprocess.run(
        text, shell=True, cwd=folder, env=_environment(), capture_output=True, text=True,
        timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == 0, f"{text}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def _of_the_run(one: Shown) -> bool:
    return RUN in one.text and one.words[0] == "azplay" and one.words[1] not in SERVERS


def _shortened(text: str) -> str:
    """Return the same command with the fewest games and positions that still show something."""
    text = re.sub(r"--games \d+", "--games 4", text)
    return f"{text} --limit 50" if " truth " in text else text


_ABOUT_THE_RUN = sorted(_shortened(one.text) for page in PAGES for one in shown(page) if _of_the_run(one))
COMMANDS = list({text.split()[1]: text for text in _ABOUT_THE_RUN}.values())
"""One command of each kind; the others differ by a number, and test_commands_parse.py covers those."""


@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_about_the_first_run_works(text: str, home: Home, monkeypatch, capsys) -> None:
    """It runs in this process. `azplay play` may end its process, and so has one of its own."""
    if text.split()[1] == "play":
        assert _run(text, home.folder).strip()
        return
    monkeypatch.chdir(home.folder)
    ended = azplay_here(monkeypatch, capsys)(*shlex.split(text)[1:])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()


def test_there_are_such_commands() -> None:
    assert {text.split()[1] for text in COMMANDS} >= {"truth", "games", "report", "match", "ladder"}


def test_the_script_on_the_page_asks_the_network(home: Home) -> None:
    (home.folder / "ask.py").write_text(titled(DOCS / "use_a_network.md")["ask.py"])
    said = _run(f"{shlex.quote(sys.executable)} ask.py", home.folder)
    assert re.search(r"best: [2-46-9]\nvalue for the side to move: [+-][01][.]\d\d\n", said)


def test_what_was_backed_up_while_it_played_is_restored(home: Home, tmp_path: Path) -> None:
    assert f"{RUN} (tic_tac_toe)" in _run(f"azplay restore {home.backup} {RUN}", tmp_path)
