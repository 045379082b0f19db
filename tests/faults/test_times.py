"""Clocks that jump and processes that stand still end no session and lose no game."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from times import FAULTS, measure
from unavailable import Unavailable

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def test_clocks_that_jump_and_processes_that_stand_still_end_no_session(tmp_path: Path) -> None:
    """Here some of what `python -m tests.faults times` does, with real processes."""
    faults = ["the clock a day ahead", "the clock a day behind", "azserver stopped"]
    assert set(faults) <= set(FAULTS)
    try:
        figure = measure(tmp_path, print, faults)
    except Unavailable as why:
        pytest.skip(str(why))
    days = re.search(r"logs of (\d+) days", figure)
    assert days is not None
    assert int(days[1]) >= 3, "the clocks were not moved"
