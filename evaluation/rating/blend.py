"""Stepping stones: a player that plays another's move only now and then, and any legal move otherwise.

In chess `greedy` beats `random` in 99 of 100 games, which says little about how far apart they are. Blends
lie between them, and between any two others, so that each is measured against a neighbour.
"""

from __future__ import annotations

import numpy as np

from evaluation.match.player import Choice, Clock, Player, Seat
from evaluation.match.players import make_player
from games.game_history import GameHistory
from games.spec import Game
from runtime.exits import Exit, Fatal

KIND = "blend:"


def rating_player(spec: str, game: Game, *, device: str = "cpu", threads: int = 0) -> Player:
    """As `make_player`, and `blend:SPEC:PERCENT`, which plays PERCENT of its moves as SPEC would."""
    if not spec.startswith(KIND):
        return make_player(spec, game, device=device, threads=threads)
    inner, _, percent = spec.removeprefix(KIND).rpartition(":")
    if not percent.isdecimal() or not 0 < int(percent) < 100 or not inner:
        raise Fatal(f"{spec!r}: write blend:SPEC:PERCENT with a percentage from 1 to 99", Exit.CONFIG)
    return Blend(spec, make_player(inner, game, device=device, threads=threads), int(percent) / 100)


class Blend:
    """Plays as `inner` with probability `share`, else any legal move."""

    def __init__(self, name: str, inner: Player, share: float) -> None:
        self.name = name
        self.inner = inner
        self.share = share

    async def sit_down(self, seed: int) -> Seat:
        return _BlendSeat(await self.inner.sit_down(seed), self.share, np.random.default_rng([seed, 1]))

    async def close(self) -> None:
        await self.inner.close()


class _BlendSeat:
    """One game."""

    def __init__(self, inner: Seat, share: float, rng: np.random.Generator) -> None:
        self._inner = inner
        self._share = share
        self._rng = rng

    async def choose(self, game_history: GameHistory, clock: Clock | None = None) -> Choice:
        if self._rng.random() < self._share:
            return await self._inner.choose(game_history, clock)
        return Choice(int(self._rng.choice(game_history.legal_actions())))

    async def close(self) -> None:
        await self._inner.close()
