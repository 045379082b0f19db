"""What watches memory for hours runs itself, here for a minute."""

from pathlib import Path

import pytest
from soak import slope, soak


def test_a_growth_is_found_within_its_interval() -> None:
    """Two MB an hour, beside noise that repeats."""
    seconds = [5.0 * step for step in range(720)]
    found = slope("a process", seconds, [100 + 2 * at / 3600 + (at % 35) / 100 for at in seconds])
    assert found.low <= 2 <= found.high
    assert found.high - found.low < 0.2


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_it_watches_the_lasting_processes_while_clients_come_and_go(tmp_path: Path) -> None:
    said: list[str] = []
    found = soak(tmp_path, 0.7, said.append)
    assert {one.process for one in found} == {"azserver", "trainer"}
    assert all(one.samples > 3 for one in found)
