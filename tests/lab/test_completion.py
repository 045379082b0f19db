"""Shell completion, called as a shell calls it: words and a cursor in, candidates out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from azselfplay.lab import azplay


def candidates(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of `words`."""
    ask = "\n".join(
        [
            azplay.script("bash"),
            f"COMP_WORDS=({' '.join(repr(word) for word in words)})",
            f"COMP_CWORD={len(words) - 1}",
            "_azselfplay",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    )
    done = subprocess.run(["bash", "-c", ask], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_commands_flags_and_runs_are_completed(tmp_path: Path) -> None:
    (tmp_path / "runs" / "chess-tiny").mkdir(parents=True)
    (tmp_path / "runs" / "chess-tiny" / "run.json").touch()
    assert candidates(tmp_path, "azplay", "lad") == ["ladder"]
    assert candidates(tmp_path, "azplay", "ladder", "--poi") == ["--points"]
    assert candidates(tmp_path, "azplay", "ladder", "ch") == ["chess-tiny"]
    assert candidates(tmp_path, ".venv/bin/azserver", "--lis") == ["--listen"]
    assert candidates(tmp_path, "azclient", "--js") == []
    assert candidates(tmp_path, "azclient", "doctor", "--js") == ["--json"], "a flag of doctor only"
    assert "--self-play.search.simulations" in candidates(tmp_path, "azserver", "--self-play.")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_takes_the_script() -> None:
    subprocess.run(["zsh", "-n", "-c", azplay.script("zsh")], check=True)
