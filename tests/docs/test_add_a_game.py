"""The tutorial's game passes the checks of every game: its code is taken from the page and put where the page
says."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from azselfplay.games.jit import cache_folder
from azselfplay.games.small import encode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add_a_game.md").read_text(encoding="utf-8")
NAME = "hex"
CHECKS = ("tests/games/test_conformance.py", "tests/games/test_hex.py", "tests/test_protocol_page.py")
PLAYED = "tests/test_every_combination.py"


def block(title: str) -> str:
    """Return the only block of code on the page with this title."""
    (found,) = re.findall(rf'```\w+ title="{re.escape(title)}"\n(.*?)```', PAGE, re.S)
    return str(found)


def with_the_game(root: Path) -> None:
    """Copy the code to `root` and follow the page there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name in (*project["tool"]["mypy"]["packages"], "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("decisions", "images"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for title in (
        "azselfplay/games/hex/__init__.py",
        "azselfplay/games/hex/sparse.py",
        "tests/games/test_hex.py",
    ):
        (root / title).parent.mkdir(exist_ok=True)
        (root / title).write_text(block(title))
    _insert(
        root / "azselfplay" / "games" / "names.py", "GAME_MODULES = {\n", block("azselfplay/games/names.py")
    )
    _insert(root / "docs" / "protocol.md", r"\| `chess` 8x8 [^\n]*\n", block("docs/protocol.md"))


def _insert(path: Path, after: str, text: str) -> None:
    """Insert `text` behind the only place that the pattern `after` matches."""
    whole = path.read_text(encoding="utf-8")
    (place,) = re.finditer(after, whole)
    path.write_text(whole[: place.end()] + text + whole[place.end() :], encoding="utf-8")


@pytest.mark.parametrize(
    "files",
    [CHECKS, pytest.param((PLAYED,), marks=pytest.mark.nightly)],
    ids=["checked", "its sparse network is searched and trained"],
)
def test_the_game_of_the_page_passes_the_checks_of_every_game(files: tuple[str, ...], tmp_path: Path) -> None:
    with_the_game(tmp_path)
    # It needs a folder of its own: compiled code is cached by the contents of the sources, and these differ.
    environment = os.environ | {"AZ_JIT_CACHE": str(cache_folder().parent.with_name("jit-of-the-tutorial"))}
    wanted = f"{NAME} and not test_a_game_is_played"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files]
    ended = subprocess.run(
        [*command, "-k", wanted], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    (passed,) = re.findall(r"(\d+) passed", ended.stdout)
    assert int(passed) > (20 if files == CHECKS else 0)
    assert "skipped" not in ended.stdout


def test_the_features_of_the_page_tell_whose_edges_are_whose(tmp_path, monkeypatch) -> None:
    """For the other side the same stones are other features and rows, because it joins other edges."""
    (tmp_path / "sparse_of_hex.py").write_text(block("azselfplay/games/hex/sparse.py"))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("sparse_of_hex")
    described = []
    for stones in (2, 3):  # as word 2 counts them: its parity is the side to move
        active, rows = np.zeros(25, np.int32), np.zeros(2, np.int32)
        packed = np.zeros(3, np.uint64)
        encode(np.array([[0b1, 0b10, stones]], np.uint64), 1, 1, packed)
        assert module.describe(packed, 1, np.array([7], np.uint16), 1, active, rows) == 2
        described.append({*active[:2].tolist(), int(rows[0])})
    assert not described[0] & described[1]
