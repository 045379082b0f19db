"""azserver, azclient and trainer in three network namespaces, with keys: links are cut, and everything
recovers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from apart import Apart
from separate_networks import Networks
from unavailable import Unavailable

pytestmark = pytest.mark.nightly

BEYOND_HEARTBEATS = 21.0
"""Seconds: both ends send PING after 5 s and wait 15 s for the answer."""


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    try:
        with Networks(["one", "other"]):
            pass
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.timeout(900)
def test_play_training_and_weights_go_on_after_links_were_cut(tmp_path: Path) -> None:
    """azclient receives nothing for longer than the heartbeats, while azserver hears it; and the trainer's
    link is down. Every acknowledged game is in the store once."""
    with Apart(tmp_path) as apart:
        apart.networks.half_cut("server", "client")
        apart.networks.cut("trainer")
        time.sleep(BEYOND_HEARTBEATS)
        apart.networks.mend()
        apart.advance("after the cuts")
        finished, acknowledged = apart.check()
    assert finished >= acknowledged > 20
