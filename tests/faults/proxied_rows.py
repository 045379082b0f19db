"""Measures what azclient and trainer achieve behind several kinds of networks, and checks that no game is
lost: `tests.faults proxy`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from proxied import Proxied

STEADY = 20.0
"""Seconds over which games are counted."""
BAD_SECONDS = 60.0
STALL_SECONDS = 30.0
PATIENCE = 90.0
"""Seconds within which play must be back."""


def measure(folder: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Return figures by the name of their row. Raises AssertionError when a game was lost, or play does not
    come back."""
    found = {}
    with Proxied(folder) as target:
        target.more_games(20)
        usual = target.games_in(STEADY)
        for name, kind in (("proxy_slow", _slow), ("proxy_bad", _bad), ("proxy_stall", _stall)):
            found[name] = f"{kind(target)}; {_back(target, usual)}"
            say(f"{name}: {found[name]}")
        left = target.end_client()
        target.start_client()
        target.more_games(20)
        waiting = target.spooled()  # read before the store: a game is in at least one of them
        gone = left - waiting - {uid.hex() for uid in target.stored_uids()}
        assert not gone, f"P1: {len(gone)} games left the spool and are not stored"
        assert not target.rejected(), f"honest games were set aside: {target.rejected()[:5]}"
    return found


def _slow(target: Proxied) -> str:
    target.proxy.call(lambda proxy: proxy.set(latency=0.1, jitter=0.2, reset=0.0005))
    rate = target.games_in(BAD_SECONDS)
    target.proxy.call(lambda proxy: proxy.set(piece=7))
    sliced = target.games_in(STEADY)
    target.proxy.call(lambda proxy: proxy.set())
    resets = sum(proxy.counts.resets for proxy in target.proxy.proxies)
    far = f"{rate:.2f} games/s at 100 to 300 ms each way with {resets} resets"
    return f"{far}, {sliced:.2f} games/s in pieces of 7 bytes"


def _bad(target: Proxied) -> str:
    target.proxy.call(
        lambda proxy: proxy.set(flipped=0.01, repeated=0.002, truncated=0.002, reset=0.005, half_closed=0.001)
    )
    rate = target.games_in(BAD_SECONDS)
    target.proxy.call(lambda proxy: proxy.set())
    counts = [proxy.counts for proxy in target.proxy.proxies]
    kinds = ("flipped", "repeated", "truncated", "resets", "half_closed")
    told = ", ".join(f"{sum(getattr(one, kind) for one in counts)} {kind}" for kind in kinds)
    return f"{rate:.2f} games/s while pieces of 16 KiB at most were harmed ({told})"


def _stall(target: Proxied) -> str:
    target.proxy.call(lambda proxy: proxy.stall())
    stalled = target.games_in(STALL_SECONDS)
    target.proxy.call(lambda proxy: proxy.go_on())
    return f"{stalled:.2f} games/s stored in a stall of {STALL_SECONDS:.0f} s"


def _back(target: Proxied, usual: float) -> str:
    """Describe when the next game is stored, and the rate after that."""
    begun, before = time.monotonic(), target.clients_games()
    target.wait(lambda: target.clients_games() > before, "a game after the fault")
    first = time.monotonic() - begun
    assert first < PATIENCE, f"the first game came {first:.0f} s after the fault"
    rate = target.games_in(STEADY)
    then = f"then {rate:.2f} games/s (before: {usual:.2f})"
    return f"first game stored {first:.1f} s after it, {then}; none lost or set aside"
