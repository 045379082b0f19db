"""Self-play in rounds: N games with one network, then wait for the next one (docs/decisions/0014).

A game is determined bit by bit by its number and the weights, and so is its uid. A worker that was killed
plays its round again; games that the trainer already has are duplicates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import numpy as np

from client.remote_evaluator import LeafRefused
from client.self_play import Player, Pool
from protocol.messages import WeightsInfo
from protocol.records import BadRecord, GameRecord
from protocol.rounds import uid_of
from search.evaluator import BadEvaluation
from search.pool import SearchPool

log = logging.getLogger(__name__)


class CurrentVersion:
    """The newest weights version known to be used by the server."""

    def __init__(self) -> None:
        self.newest = -1
        self._changed = asyncio.Event()

    def heard(self, info: WeightsInfo | None) -> None:
        if info is not None and info.version > self.newest:
            self.newest = info.version
            self._changed.set()

    async def after(self, version: int) -> int:
        """Return the newest version, once it is above `version`."""
        while self.newest <= version:
            self._changed.clear()
            await self._changed.wait()
        return self.newest


class RoundPool(Pool):
    """Like `client.self_play.GamePool`, in rounds of `settings.round_games` games."""

    def __init__(
        self,
        searches: SearchPool,
        player: Player,
        *,
        current: CurrentVersion,
        keep: Callable[[GameRecord], Awaitable[None]],
        room: asyncio.Event,
        finishing: asyncio.Event,
    ) -> None:
        # The same random numbers, whichever worker plays.
        player = replace(player, seed=searches.forest.settings.seed, index=0, is_client=False)
        super().__init__(searches, player, keep=keep, room=room, finishing=finishing)
        self._current = current

    def start(self, group: asyncio.TaskGroup, games: int) -> list[asyncio.Task[None]]:
        """Play round after round in `group`, `games` games at a time."""
        return [group.create_task(self._play_rounds(games), name="rounds")]

    async def _play_rounds(self, games: int) -> None:
        played = -1
        while not self._finishing.is_set():
            version = await self._current.after(played)
            await self.play_round(version, games)
            played = version

    async def play_round(self, version: int, games: int) -> None:
        """Return when all games of the round are kept, or when there is a newer version, because then the
        round is over."""
        # What the last round's weights said about a position is not what these say.
        self._searches.forest.forget_evaluations()
        count = self._settings.round_games
        log.info("round %d: games %d to %d", version, version * count, (version + 1) * count - 1)
        numbers = iter(range(version * count, (version + 1) * count))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(games, count)):
                group.create_task(self._play_on(version, numbers))

    async def _play_on(self, version: int, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self._room.wait()
            while not self._finishing.is_set() and self._current.newest <= version:
                try:
                    await self._play_and_keep(version, number)
                    break
                except (LeafRefused, BadEvaluation, BadRecord) as fault:
                    await self._gave_up(fault, f"game {number} is played again")

    async def _play_and_keep(self, version: int, number: int) -> None:
        record = await self._played(number, uid_of(self._settings.seed, number))
        if int(record.versions.max()) <= version:
            await self._kept(of_round(record, version))


def of_round(record: GameRecord, version: int) -> GameRecord:
    """Return the record without what differs when it is played again: the time it took, and the version
    before the first answer of a round, which is that of the previous round or of none."""
    return replace(record, versions=np.full(record.plies, version, np.uint32), seconds=0.0)
