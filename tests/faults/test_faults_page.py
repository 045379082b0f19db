"""results/faults.md is generated from the rows and their results, and names tests that exist."""

from __future__ import annotations

import re
import subprocess
import sys

from rows import EVERYWHERE, HERE, PAGE, ROWS, page_with, results, table
from signal_rows import signal_table

TESTS = HERE.parent


def test_the_page_has_the_rows_as_they_are() -> None:
    """If it fails, run `python -m tests.faults page`."""
    assert PAGE.read_text() == page_with(table(), signal_table())
    assert [row.number for row in ROWS] == list(range(1, 28))
    assert all(row.shown or row.missing for row in ROWS)


def test_every_figure_belongs_to_a_row() -> None:
    assert set(results()) - set(EVERYWHERE) <= {name for row in ROWS for name in row.measured}


def test_every_command_is_one() -> None:
    commands = set(re.findall(r"python -m tests\.faults (\w+)", PAGE.read_text()))
    said = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--help"],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert commands <= set(re.findall(r"\w+", said))
    assert commands
