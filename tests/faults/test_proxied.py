"""azclient and trainer behind a bad network: no game is lost or set aside, and play goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from proxied import Proxied


@pytest.mark.timeout(400)
def test_resets_and_changed_bytes_lose_no_game(tmp_path: Path) -> None:
    """Connections of azclient and of the trainer are reset under load, bits flip, bytes come twice; then
    azclient is killed. What it had finished is stored or in its spool, and what a byte damaged was sent
    again."""
    with Proxied(tmp_path) as target:
        target.more_games(20)
        for _ in range(3):
            target.proxy.call(lambda proxy: proxy.reset_all())
            target.more_games(5)
        target.proxy.call(lambda proxy: proxy.set(flipped=0.02, repeated=0.005, truncated=0.005, reset=0.01))
        target.wait(
            lambda: sum(proxy.counts.flipped for proxy in target.proxy.proxies) >= 20, "twenty changed bytes"
        )
        target.proxy.call(lambda proxy: proxy.set())
        left = target.end_client()
        target.start_client()
        target.more_games(5)
        target.wait(lambda: not left & target.spooled(), "the games of the killed client")
        stored = {uid.hex() for uid in target.stored_uids()}
        assert left <= stored
        assert target.rejected() == []
