"""azclient and trainer behind a bad network: no game is lost or set aside, and play recovers by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from proxied import Proxied

pytestmark = pytest.mark.nightly


@pytest.mark.timeout(400)
def test_resets_and_changed_bytes_lose_no_game(tmp_path: Path) -> None:
    """Connections of azclient and of the trainer are reset under load, bits flip, bytes come twice; then
    azclient is killed. Its finished games are stored or in its spool, and what was damaged was sent again."""
    with Proxied(tmp_path) as target:
        target.more_games(20)
        for _ in range(3):
            target.proxy.call(lambda proxy: proxy.reset_all())
            target.more_games(5)
        target.proxy.call(lambda proxy: proxy.set(flipped=0.05, repeated=0.01))
        target.wait(
            lambda: sum(proxy.counts.flipped for proxy in target.proxy.proxies) >= 8, "eight changed bytes"
        )
        target.proxy.call(lambda proxy: proxy.set())
        left = target.end_client()
        target.start_client()
        target.more_games(5)
        waiting = target.spooled()  # read before the store: a game is in at least one of them
        assert left - waiting <= {uid.hex() for uid in target.stored_uids()}
        assert target.rejected() == []
