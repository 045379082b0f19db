"""The examples run as a reader runs them, and show what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = EXAMPLES / "tic_tac_toe.ipynb"


def test_the_script_searches_and_plays_games(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "python_api.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "plays tic_tac_toe" in done.stdout
    assert "visits, prior" in done.stdout
    won, drawn, lost = map(int, re.findall(r"(\d+) (?:won|drawn|lost)", done.stdout))
    assert won + drawn + lost == 10


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert [cell.outputs for cell in cells if cell.cell_type == "code" and cell.outputs] == []


@pytest.mark.nightly
def test_the_notebook_learns_and_shows_a_search_that_finds_the_only_move(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    paths = os.pathsep.join(path for path in sys.path if path)
    where = {"metadata": {"path": tmp_path}}
    client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where)
    client.execute(env=os.environ | {"PYTHONPATH": paths, "MPLBACKEND": "agg"})
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    (before,) = re.findall(r"untrained: ([\d.]+)%", printed)
    after = re.findall(r"([\d.]+)% played right", printed)
    assert len(after) == 8
    assert float(after[-1]) > max(85.0, float(before) + 10)
    assert "5 is right" in printed
    assert re.search(r"^ +5 +[\d.]+ +\d+ +[-+][\d.]+$", printed, re.M)
