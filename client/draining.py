"""A stop that loses no game: games in progress are finished and handed in (`azclient --drain`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from client.uploader import Uploader


def waits_for(seconds: float) -> str:
    """Return what a stop of a worker waits for, for people. `seconds`: the setting --drain."""
    if seconds:
        return f"its games in progress, and those not handed in yet, {seconds:.0f} s at most"
    return "games already sent to be acknowledged; unfinished games are given up"


async def drained(games: Sequence[asyncio.Task[None]], uploader: Uploader, seconds: float) -> bool:
    """Wait until all games are finished and acknowledged, for at most `seconds`. Returns whether they are.
    `games` must not start new games by themselves; when the time is over they are left running."""
    try:
        async with asyncio.timeout(seconds):
            if games:
                await asyncio.wait(games)
            await uploader.empty.wait()
    except TimeoutError:
        return False
    return True
