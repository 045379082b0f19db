"""Runs whose network is part of the players' own search (the family `sparse`): there is no evaluator.

Weights are current once their file is stored and checked.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from games.spec import Game
from net.sparse import player_for
from net.weights import BadWeights
from protocol.messages import WeightsInfo
from server.evaluators import EvaluatorPool

READ_AGAIN = 5.0
"""Seconds until the first weights are read again from a disk that cannot be read."""

log = logging.getLogger(__name__)


def objection_to(path: Path, info: WeightsInfo, game: Game, history: int, network: str) -> str:
    """Return why players cannot use the weights in a file; "" if they can. `network`: the name from which
    they have made theirs. Raises OSError if the disk cannot be read now."""
    player = player_for(game, history, network)
    assert player is not None
    try:
        player.load(path, info.sha256)
    except BadWeights as error:
        return str(error)
    return ""


class NoEvaluators(EvaluatorPool):
    """Takes the place of the evaluators. `expect` is to be called first."""

    is_checked = False
    """Whether some weights have been found good."""
    _expected: tuple[Game, int, str]

    def expect(self, game: Game, history: int, network: str) -> None:
        """`network`: the name of the players' network."""
        self._expected = game, history, network

    @property
    def is_ready(self) -> bool:
        return self.is_checked

    async def objection(self, info: WeightsInfo) -> str:
        path = self._store.path(info)
        return await asyncio.to_thread(objection_to, path, info, *self._expected)

    async def begin(self) -> None:
        """Check the weights that the run begins with, and use them."""
        while not self.is_checked and (info := self.newest) is not None:
            try:
                reason = await self.objection(info)
            except OSError as error:
                log.warning("weights %d cannot be read (%s), trying again", info.version, error)
                await asyncio.sleep(READ_AGAIN)
                continue
            if not reason:
                self.load(info)
            elif info == self.newest:
                log.error("weights %d are refused: %s", info.version, reason)
                is_last = info == self._store.current
                self._refuse(info, reason)
                if is_last:
                    return

    def load(self, info: WeightsInfo) -> None:
        """Use weights that have been checked."""
        self.newest, self.is_checked = info, True
        self._events.taken(info)
