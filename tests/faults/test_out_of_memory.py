"""Parts that the kernel kills for lack of memory lose no game."""

from __future__ import annotations

from pathlib import Path

import pytest
from out_of_memory import Bounded
from unavailable import Unavailable

pytestmark = pytest.mark.nightly


@pytest.mark.timeout(900)
def test_parts_that_the_kernel_ends_for_want_of_memory_lose_no_game(tmp_path: Path) -> None:
    """azserver's front and the trainer; both are restarted, as systemd does."""
    with Bounded(tmp_path) as parts:
        try:
            for part in ("the trainer", "azserver's front"):
                parts.starve(part)
        except Unavailable as why:
            pytest.skip(str(why))
        parts.advance("after both were ended")
        finished, acknowledged = parts.check()
    assert finished >= acknowledged > 20
