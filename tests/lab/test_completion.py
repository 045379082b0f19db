"""Shell completion, called as a shell calls it: words and a cursor in, candidates out."""

import shutil
import subprocess
import sys

import pytest


def script(module: str, shell: str) -> str:
    asked = [sys.executable, "-m", module, "--tyro-print-completion", shell]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("module", "words", "offered"),
    [
        ("azselfplay.lab.azplay", ("azplay", "lad"), ["ladder"]),
        ("azselfplay.lab.azplay", ("azplay", "ladder", "--poi"), ["--points"]),
        ("server.main", ("azserver", "--lis"), ["--listen"]),
    ],
)
def test_commands_and_flags_are_completed_in_bash(
    module: str, words: tuple[str, ...], offered: list[str]
) -> None:
    ask = f"""{script(module, "bash")}
COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _tyro_{words[0]}; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_takes_the_script() -> None:
    subprocess.run(["zsh", "-n", "-c", script("azselfplay.lab.azplay", "zsh")], check=True)


@pytest.mark.parametrize("module", ["azselfplay.lab.azplay", "server.main"])
def test_an_unknown_shell_is_named(module: str) -> None:
    asked = [sys.executable, "-m", module, "--tyro-print-completion", "nosh"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "give bash, zsh or fish" in done.stderr
