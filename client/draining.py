"""A stop that loses no game: those in progress are played to their end and handed in (`azclient --drain`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from client.uploader import Uploader


def waits_for(seconds: float) -> str:
    """What a stop of a worker waits for, for people. `seconds`: of --drain."""
    if seconds:
        return f"its games in progress, and those not handed in yet, {seconds:.0f} s at most"
    return "games already sent to be acknowledged; unfinished games are given up"


async def drained(games: Sequence[asyncio.Task[None]], uploader: Uploader, seconds: float) -> bool:
    """Whether all is played and acknowledged within `seconds`. `games` start no new game by themselves any
    more; they are left as they are when the time is over."""
    try:
        async with asyncio.timeout(seconds):
            if games:
                await asyncio.wait(games)
            await uploader.empty.wait()
    except TimeoutError:
        return False
    return True
