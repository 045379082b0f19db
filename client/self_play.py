"""Self-play: a worker has many slots (`GamePool`), each with one coroutine that plays game after game.

A game begins at a start position. Next come plies drawn uniformly from the legal ones (`opening_plies`; none
after a start that a generator drew). They are neither searched nor trained on: they make games differ. Each
later ply is searched, until the result is certain; plies that the rules want after that are drawn uniformly
too. `Resigning` knows when a side resigns (docs/decisions/0011-resignation.md).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from azselfplay.games.spec import RESIGNATION, State, outcome_for_first_player
from azselfplay.host.aio import first_of
from azselfplay.search.evaluator import BadEvaluation
from azselfplay.search.mcts import choose_action, search
from azselfplay.search.pool import SearchPool
from azselfplay.search.result import SearchResult, search_columns
from azselfplay.search.settings import start_of_game
from azselfplay.search.tree import SearchTree
from client.remote_evaluator import LeafRefused
from protocol.records import (
    IMPROVED_POLICY,
    MOST_VISITS,
    PLAYED_ON,
    POLICY_TARGET,
    PRUNED_TARGET,
    SEARCH_DIFFERS,
    BadRecord,
    GameRecord,
)
from protocol.settings import SelfPlaySettings

PAUSE_AFTER_REFUSAL = 5.0
"""Seconds before a coroutine whose game was abandoned starts another one."""
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


class GamePool:
    """Plays `games` games at a time, forever. Tasks belong to the caller's group; cancelling them ends the
    pool.

    `save(record)` returns when the game is safe on disk. `room` is not set while the spool is full or the
    trainer is far behind: then games in progress continue, and new ones wait. No game starts once `finishing`
    is set.
    """

    def __init__(
        self,
        searches: SearchPool,
        player: Player,
        *,
        save: Callable[[GameRecord], Awaitable[None]],
        room: asyncio.Event,
        finishing: asyncio.Event,
    ) -> None:
        self.finished = 0
        """Games finished and saved."""
        self.in_progress = 0
        self.resigning = Resigning(searches.forest.settings)
        self._searches = searches
        self._player = player
        self._save = save
        self._room = room
        self._finishing = finishing
        self.games = 0
        """How many games to play at a time."""
        self._slots = 0
        """Running coroutines; more than `games` until enough of them have finished their game."""

    def start(self, group: asyncio.TaskGroup, games: int) -> None:
        """Begin `games` coroutines in `group`."""
        self._group, self._numbers = group, itertools.count()
        self.tasks: list[asyncio.Task[None]] = []
        self.resize(games)

    def resize(self, games: int) -> None:
        """Play another number of games at a time. Games in progress are finished even if there are more than
        `games`."""
        if self._finishing.is_set():
            return
        self.games = games
        self.tasks = [task for task in self.tasks if not task.done()]
        while self._slots < games:
            self._slots += 1
            self.tasks.append(self._group.create_task(self._play_in_slot(), name="game"))

    async def _play_in_slot(self) -> None:
        """Play game after game, until there are more slots than games or no game may begin."""
        try:
            while not self._finishing.is_set() and self._slots <= self.games:
                if not self._room.is_set():
                    await first_of(self._room, self._finishing)
                    if self._finishing.is_set():
                        return
                rng = self._player.rng(next(self._numbers))
                try:
                    self.in_progress += 1
                    try:
                        record = await play_game(
                            self._searches, rng, player=self._player, resigning=self.resigning
                        )
                    finally:
                        self.in_progress -= 1
                    await self._save(record)
                    self.finished += 1
                # The server refused a leaf or sent an invalid answer, or a record cannot hold the game.
                except (LeafRefused, BadEvaluation, BadRecord) as fault:
                    log.warning("a game is given up (%s): %s", type(fault).__name__, fault)
                    # Otherwise hundreds of coroutines would ask a server that refuses them all at once.
                    await asyncio.sleep(PAUSE_AFTER_REFUSAL)
        finally:
            self._slots -= 1


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
    began = time.monotonic()
    with SearchTree(pool.forest, rng) as tree:
        game, settings = tree.game, tree.settings
        resigning = resigning or Resigning(settings)
        # Randomness depends on this game's numbers alone, whatever was played in this slot before.
        tree.reset_randomness()
        text, is_sampled = start_of_game(game, settings, rng)
        start = game.notation.state_from_text(text)
        tree.reset(start)
        columns = _Columns(is_played_on=resigning.is_played_on(rng))
        # Plies that make games differ. They are neither searched nor trained on.
        opening = [] if is_sampled else opening_plies(tree, start)
        reason = tree.end_reason()
        while reason is None and not tree.outcome_is_certain():
            result = await search(tree, pool)
            # Only now, because before its first answer the evaluator does not know the version.
            if not columns.actions:
                for unsearched in opening:
                    columns.add_unsearched(unsearched, pool.evaluator.version)
            action = choose_action(result, tree.ply, settings, rng)
            columns.add(action, result, pool.evaluator.version)
            gives_up = not columns.is_played_on and resigning.gives_up(result.value)
            if gives_up:
                # Note the mover before the move: a side may move twice in a row, so the next state does not
                # tell.
                columns.mover = int(game.rules.side_to_move(tree.state))
            tree.advance(action)
            reason = tree.end_reason()
            if reason is None and gives_up:
                reason = RESIGNATION
        if not columns.actions:
            over = reason or "it is decided"
            raise ValueError(f"the game is over at its start position ({over}): {text!r}")
        # What is left of a decided game teaches nothing: all its moves are equally good.
        while reason is None:
            action = int(rng.choice(tree.legal_actions()))
            columns.add_unsearched(action, pool.evaluator.version)
            tree.advance(action)
            reason = tree.end_reason()
        seconds = time.monotonic() - began
        return _record(columns, tree, text, reason, uid or os.urandom(16), player or Player(0), seconds)


@dataclass
class _Columns:
    """The columns of a record while its game is played: one entry per ply."""

    actions: list[int] = field(default_factory=list)
    results: list[SearchResult] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    is_played_on: bool = False
    """Whether nobody may resign in this game."""
    mover: int = 0
    """The player who would resign with the newest move; 0 is the first player."""

    def add(self, action: int, result: SearchResult, version: int) -> None:
        self.actions.append(action)
        self.results.append(result)
        self.versions.append(version)

    def add_unsearched(self, action: int, version: int) -> None:
        """Add a ply played without a search: no visits, no target, and a value of 0."""
        nothing = SearchResult(np.zeros(0, np.uint16), np.zeros(0, np.int32), 0.0)
        self.add(action, nothing, version)


def _record(
    columns: _Columns, tree: SearchTree, start: str, reason: str, uid: bytes, player: Player, seconds: float
) -> GameRecord:
    results, settings = columns.results, tree.settings
    # A side resigns with its move, so after a resignation the last mover has lost.
    has_resigned = reason == RESIGNATION
    outcome = outcome_for_first_player(-1, columns.mover) if has_resigned else tree.outcome()
    values = np.array([result.value for result in results], np.float32)
    visits = np.concatenate([result.visits for result in results])
    if visits.max(initial=0) > MOST_VISITS:
        raise BadRecord(f"a root action has {visits.max()} visits, a record holds {MOST_VISITS}")
    flags = [
        (PLAYED_ON if columns.is_played_on else 0)
        | (POLICY_TARGET if len(result.visits) else 0)
        | (IMPROVED_POLICY if result.is_improved else 0)
        | (PRUNED_TARGET if result.is_pruned else 0)
        | (SEARCH_DIFFERS if result.stats is not None and result.stats.differs else 0)
        for result in results
    ]
    return GameRecord(
        uid=uid,
        game=tree.game.name,
        start=start,
        max_plies=settings.max_plies,
        simulations=settings.search.simulations,
        actions=np.array(columns.actions, np.uint16),
        visited=np.array([len(result.actions) for result in results], np.uint16),
        visit_actions=np.concatenate([result.actions for result in results]).astype(np.uint16),
        visits=visits.astype(np.uint16),
        # Rounding may push a sum of float32 values beyond 1, which the trainer refuses.
        root_values=np.clip(values, -1.0, 1.0),
        flags=np.array(flags, np.uint8),
        versions=np.array(columns.versions, np.uint32),
        **search_columns(results),
        outcome=outcome,
        reason=reason,
        seed=player.seed,
        source=player.name,
        seconds=seconds,
        run=player.run,
    )


def opening_plies(tree: SearchTree, start: State) -> list[int]:
    """Play 0 to `random_plies` legal actions, all equally likely, in a `random_share` of games, and return
    them. `tree` is at `start`. An action that would end or decide the game is not played: the opening stops
    before it."""
    opening, rng = tree.settings.opening, tree.rng
    actions: list[int] = []
    # Draw no number where there are no such plies, so that settings that are off change no game.
    if opening.random_share * opening.random_plies == 0 or rng.random() >= opening.random_share:
        return actions
    for _ in range(int(rng.integers(opening.random_plies, endpoint=True))):
        action = int(rng.choice(tree.legal_actions()))
        tree.advance(action)
        if tree.end_reason() is not None or tree.outcome_is_certain():
            # A tree cannot take a move back: the opening is played again without it.
            tree.reset(start)
            for again in actions:
                tree.advance(again)
            break
        actions.append(action)
    return actions


class Resigning:
    """The root value at which a side resigns, as far as this worker knows it. All games of the worker share
    it."""

    def __init__(self, settings: SelfPlaySettings) -> None:
        self._settings = settings
        is_fixed = settings.resignation.mistakes == 0
        self.threshold = settings.resignation.value if is_fixed else 0.0
        """Negative; 0 while nobody resigns, or the trainer's threshold is not known yet."""

    def set_threshold(self, threshold: float) -> None:
        """Set the threshold at which the trainer finds mistakes rare enough; never above what the settings
        allow."""
        self.threshold = min(threshold, self._settings.resignation.value) if threshold < 0 else 0.0

    def is_played_on(self, rng: np.random.Generator) -> bool:
        """Return whether the game that begins is played to its end without resigning, to count mistakes."""
        settings = self._settings
        return settings.resignation.value < 0 and rng.random() < settings.resignation.play_on

    def gives_up(self, value: float) -> bool:
        """Return whether a side resigns at this root value. The value is rounded as in the record, which the
        trainer checks."""
        return self.threshold < 0 and float(np.float32(value)) <= self.threshold
