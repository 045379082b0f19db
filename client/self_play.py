"""Self-play: one coroutine per concurrent game, many of them in a worker, each playing game after game."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from client.opening import Opening, start_of_game
from client.remote_evaluator import LeafRefused
from client.resigning import Resigning
from games.spec import RESIGNATION, outcome_for_first_player
from protocol.records import (
    IMPROVED_POLICY,
    PLAYED_ON,
    POLICY_TARGET,
    PRUNED_TARGET,
    SEARCH_DIFFERS,
    BadRecord,
    GameRecord,
)
from runtime.logs import Repeated
from search.evaluator import BadEvaluation
from search.mcts import search
from search.moves import choose_action
from search.pool import SearchPool
from search.result import SearchResult, search_columns
from search.tree import SearchTree

PAUSE_AFTER_REFUSAL = 5.0
"""Seconds before a coroutine whose game was abandoned starts another one."""
MOST_VISITS = 0xFFFF
"""Largest visit count: records store it as uint16."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Player:
    """The player's identity, which goes into the random numbers and the records of its games.

    Game `number` of worker `index` draws from (seed, index, number), so that a single worker repeats its
    games. A client adds its name, because many machines have workers with the same index.
    """

    seed: int
    index: int = 0
    name: str = ""
    is_client: bool = False
    run: bytes = b""
    """Identity of the run that the games are for."""

    def rng(self, number: int) -> np.random.Generator:
        entropy = [self.seed, self.index, number]
        if self.is_client:
            entropy.append(zlib.crc32(self.name.encode()))
        return np.random.default_rng(np.random.SeedSequence(entropy))


@dataclass
class _Columns:
    """The columns of a record while its game is played: one entry per ply."""

    actions: list[int] = field(default_factory=list)
    results: list[SearchResult] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    is_played_on: bool = False
    """Whether nobody may resign in this game."""
    mover: int = 0
    """The player of the newest move; 0 is the first player."""

    def add(self, action: int, result: SearchResult, version: int) -> None:
        if result.visits.max(initial=0) > MOST_VISITS:
            raise BadRecord(f"a root action has {result.visits.max()} visits, a record holds {MOST_VISITS}")
        self.actions.append(action)
        self.results.append(result)
        self.versions.append(version)

    def add_unsearched(self, action: int, version: int) -> None:
        """Add a ply played without a search: no visits, no target, and a value of 0."""
        nothing = SearchResult(np.zeros(0, np.uint16), np.zeros(0, np.int32), 0.0, 0, is_target=False)
        self.add(action, nothing, version)


async def play_game(
    pool: SearchPool,
    rng: np.random.Generator,
    *,
    player: Player | None = None,
    uid: bytes | None = None,
    resigning: Resigning | None = None,
) -> GameRecord:
    """Play one game of the pool's forest against itself to its end and return its record.

    `uid` is drawn from the system's random numbers, not from `rng`, so that repeated games are still
    different games. Raises the evaluator's errors, BadRecord for a game that a record cannot hold, and
    ValueError for a start position without legal actions.
    """
    uid = uid or os.urandom(16)
    with SearchTree(pool.forest, rng) as tree:
        resigning = resigning or Resigning(tree.settings)
        return await _play(tree, pool, player or Player(0), uid, resigning)


async def _play(
    tree: SearchTree, pool: SearchPool, player: Player, uid: bytes, resigning: Resigning
) -> GameRecord:
    began = time.monotonic()
    game, settings, rng = tree.game, tree.settings, tree.rng
    cheap = settings.playout_cap.cheap_probability
    tree.reset_randomness()
    text, is_sampled = start_of_game(game, settings, rng)
    start = game.notation.state_from_text(text)
    tree.reset(start)
    columns = _Columns(is_played_on=resigning.is_played_on(rng))
    opening = Opening(tree, start, settings, rng)
    if not is_sampled:
        opening.play_random()
        await opening.play_sampled(pool)
    for action in opening.actions:
        columns.add_unsearched(action, pool.evaluator.version)
    reason = tree.end_reason()
    while reason is None:
        is_cheap = cheap > 0 and rng.random() < cheap
        result = await search(tree, pool, is_cheap=is_cheap)
        action = choose_action(result, tree.ply, settings, rng)
        columns.add(action, result, pool.evaluator.version)
        columns.mover = int(game.rules.side_to_move(tree.state))
        tree.advance(action)
        reason = tree.end_reason()
        if reason is None and not columns.is_played_on and resigning.gives_up(result.value):
            reason = RESIGNATION
    if not columns.actions:
        raise ValueError(f"the game is over at its start position ({reason}): {text!r}")
    return _record(columns, tree, text, reason, uid, player, time.monotonic() - began)


def _record(
    columns: _Columns, tree: SearchTree, start: str, reason: str, uid: bytes, player: Player, seconds: float
) -> GameRecord:
    results, settings = columns.results, tree.settings
    values = np.array([result.value for result in results], np.float32)
    played_on = PLAYED_ON if columns.is_played_on else 0
    return GameRecord(
        uid=uid,
        game=tree.game.name,
        start=start,
        max_plies=settings.max_plies,
        simulations=settings.search.simulations,
        actions=np.array(columns.actions, np.uint16),
        visited=np.array([len(result.actions) for result in results], np.uint16),
        visit_actions=np.concatenate([result.actions for result in results]).astype(np.uint16),
        visits=np.concatenate([result.visits for result in results]).astype(np.uint16),
        root_values=np.clip(values, -1.0, 1.0),
        flags=np.array([_flags(result) | played_on for result in results], np.uint8),
        versions=np.array(columns.versions, np.uint32),
        **search_columns(results),
        outcome=_outcome(tree, reason, columns.mover),
        reason=reason,
        seed=player.seed,
        source=player.name,
        seconds=seconds,
        run=player.run,
    )


def _outcome(tree: SearchTree, reason: str, mover: int) -> int:
    """Return the outcome. A side resigns with its move, so after a resignation the last `mover` has lost."""
    if reason == RESIGNATION:
        return outcome_for_first_player(-1, mover)
    return tree.outcome()


def _flags(result: SearchResult) -> int:
    return (
        (POLICY_TARGET if result.is_target else 0)
        | (IMPROVED_POLICY if result.is_improved else 0)
        | (PRUNED_TARGET if result.is_pruned else 0)
        | (SEARCH_DIFFERS if result.stats is not None and result.stats.differs else 0)
    )


class GamePool:
    """Plays `games` games at a time, forever. Tasks belong to the caller's group; cancelling them ends it.

    `keep(record)` returns when the game is safe on disk. `room` is clear while the spool is full, or the
    trainer far behind: then games in progress continue, and new ones wait. No game starts once `finishing` is
    set.
    """

    def __init__(
        self,
        searches: SearchPool,
        player: Player,
        *,
        keep: Callable[[GameRecord], Awaitable[None]],
        room: asyncio.Event,
        finishing: asyncio.Event,
    ) -> None:
        self.finished = 0
        """Games finished and kept."""
        self.plies = 0
        """Plies of these games."""
        self.in_progress = 0
        self.given_up = 0
        """Attempts at a game that failed: the server refused a leaf or sent an invalid answer, or a record
        cannot hold the game."""
        self.resigning = Resigning(searches.forest.settings)
        self._searches = searches
        self._player = player
        self._keep = keep
        self._room = room
        self._finishing = finishing
        self._repeated = Repeated(log)
        self._games = 0
        """How many games to play at a time."""
        self._slots = 0
        """Running coroutines; more than `_games` until enough of them have finished their game."""

    def start(self, group: asyncio.TaskGroup, games: int) -> list[asyncio.Task[None]]:
        """Begin `games` coroutines in `group`. `resize` keeps the returned list up to date."""
        self._group, self._numbers = group, itertools.count()
        self._tasks: list[asyncio.Task[None]] = []
        self.resize(games)
        return self._tasks

    def resize(self, games: int) -> None:
        """Play another number of games at a time. Games in progress are finished even if there are more of
        them."""
        if self._finishing.is_set():
            return
        self._games = games
        self._tasks[:] = [task for task in self._tasks if not task.done()]
        while self._slots < games:
            self._slots += 1
            self._tasks.append(self._group.create_task(self._play_in_slot(), name="game"))

    async def _play_in_slot(self) -> None:
        try:
            await self._play_on(self._numbers)
        finally:
            self._slots -= 1

    async def _play_on(self, numbers: Iterator[int]) -> None:
        while not self._finishing.is_set() and self._slots <= self._games:
            await self._room.wait()
            if self._finishing.is_set():  # it was set while waiting
                return
            try:
                await self._play_and_keep(next(numbers))
            except (LeafRefused, BadEvaluation, BadRecord) as fault:
                self.given_up += 1
                kind = type(fault).__name__
                self._repeated.warning(kind, f"a game is given up ({kind}): {fault}", time.monotonic())
                await asyncio.sleep(PAUSE_AFTER_REFUSAL)

    async def _play_and_keep(self, number: int) -> None:
        rng = self._player.rng(number)
        self.in_progress += 1
        try:
            record = await play_game(self._searches, rng, player=self._player, resigning=self.resigning)
        finally:
            self.in_progress -= 1
        await self._keep(record)
        self.finished += 1
        self.plies += record.plies
