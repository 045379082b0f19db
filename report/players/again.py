"""Searches stored positions again, with the weights and settings they were played with, and compares the
visits.

Two searches of our own also differ, because noise is drawn again. So each position is searched twice, and the
result is the excess: how much further the stored visits are from ours than ours are from each other. It is
near 0 for every player that really searched, whatever the network, and does not depend on the other players.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.nets import load_net
from games.spec import Game
from protocol.records import POLICY_TARGET, PRUNED_TARGET, BadRecord, GameRecord
from protocol.settings import SelfPlaySettings
from runtime.weights_files import SUFFIX
from search.evaluator import Evaluator
from search.forest import Forest
from search.mcts import search
from search.pool import SearchPool
from search.tree import SearchTree
from store.reader import StoreReader

LEAST_POSITIONS = 10
"""Least number of a player's positions for any statement about it."""
SURE = 4.0
"""Standard errors by which the mean excess must exceed 0."""
MATTERS = 0.1
"""Least mean excess: visits made up without a search have 0.2 to 0.9."""
AT_A_TIME = 64
"""Positions searched at a time, so that the network gets batches."""
GAMES_LOOKED_AT = 4
"""Most games that are read for one position, because weights of old games may be gone."""


class Position(NamedTuple):
    """One searched position of a stored game."""

    player: str
    record: GameRecord
    ply: int

    @property
    def version(self) -> int:
        return int(self.record.versions[self.ply])

    def shares(self, actions: int) -> npt.NDArray[np.float64]:
        """[actions] the stored shares of the visits."""
        ends = np.cumsum(self.record.visited, dtype=np.int64)
        end = int(ends[self.ply])
        here = slice(end - int(self.record.visited[self.ply]), end)
        return shares_of(self.record.visit_actions[here], self.record.visits[here], actions)


class Judged(NamedTuple):
    """The result of searching a player's positions again."""

    positions: int
    excess: float
    """Mean of the excess, 0..1."""
    z: float
    """The excess in standard errors; NaN with fewer than two positions."""

    @property
    def is_made_up(self) -> bool:
        """Whether the visits are certainly not those of a search with these weights."""
        return self.positions >= LEAST_POSITIONS and self.excess >= MATTERS and self.z >= SURE


def shares_of(
    actions: npt.NDArray[np.uint16], visits: npt.NDArray[np.integer], of: int
) -> npt.NDArray[np.float64]:
    """[of] shares of `visits [k]`, which belong to `actions [k]`."""
    shares = np.zeros(of)
    shares[actions] = visits
    return shares / max(1.0, float(shares.sum()))


def total_variation(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Half the sum of the absolute differences of two distributions [n], 0..1."""
    return float(np.abs(one - other).sum() / 2)


def versions_in(folder: Path) -> dict[int, Path]:
    """The weights files of a run's folder `weights/` by version."""
    found = ((re.match(r"(\d{6,})-", path.name), path) for path in folder.glob(f"*{SUFFIX}"))
    return {int(match[1]): path for match, path in found if match is not None}


def draw(
    games: StoreReader,
    game: Game,
    players: Mapping[int, str],
    wanted: int,
    versions: Iterable[int],
    rng: np.random.Generator,
) -> list[Position]:
    """About `wanted` positions, equally many of each player, whose weights exist.

    `players`: the players of the games to draw from, by game number.
    """
    numbers: dict[str, list[int]] = defaultdict(list)
    for seq, player in players.items():
        numbers[player].append(seq)
    each, there = max(1, wanted // max(1, len(numbers))), np.array(sorted(versions), np.uint32)
    found: list[Position] = []
    for player, own in numbers.items():
        chosen = rng.permutation(own)[: GAMES_LOOKED_AT * each].tolist()
        found += _of_player(games, game, player, chosen, there, rng)[:each]
    return found


def _of_player(
    games: StoreReader,
    game: Game,
    player: str,
    chosen: Sequence[int],
    there: npt.NDArray[np.uint32],
    rng: np.random.Generator,
) -> list[Position]:
    """A position of each of the `chosen` games that has one to search again, in random order."""
    found = []
    for stored in games.numbered(chosen):
        try:
            record = stored.record(game)
        except BadRecord:
            continue
        kinds = record.flags & np.uint8(POLICY_TARGET | PRUNED_TARGET)
        plies = np.flatnonzero((kinds == POLICY_TARGET) & np.isin(record.versions, there))
        if len(plies):
            found.append(Position(player, record, int(rng.choice(plies))))
    return [found[at] for at in rng.permutation(len(found))]


def judge(
    game: Game, settings: SelfPlaySettings, positions: Sequence[Position], weights: Mapping[int, Path]
) -> dict[str, Judged]:
    """Results by player. `settings`: resolved, of the run; `weights`: files by version."""
    excesses: dict[str, list[float]] = defaultdict(list)
    by_version: dict[int, list[Position]] = defaultdict(list)
    for position in positions:
        by_version[position.version].append(position)
    for version, some in sorted(by_version.items()):
        net = load_net(weights[version], game.name)
        try:
            found = asyncio.run(_excesses(game, settings, net.evaluator, some))
        finally:
            net.close()
        for position, excess in zip(some, found, strict=True):
            excesses[position.player].append(excess)
    return {player: _judged(np.array(found)) for player, found in excesses.items()}


def _judged(excesses: npt.NDArray[np.float64]) -> Judged:
    count, mean = len(excesses), float(excesses.mean())
    error = float(excesses.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    z = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    return Judged(count, mean, z)


async def _excesses(
    game: Game, settings: SelfPlaySettings, evaluator: Evaluator, positions: Sequence[Position]
) -> list[float]:
    """For each position: mean distance of the stored visits from ours, minus the distance between ours."""
    pool = SearchPool(Forest(game, settings, 2 * min(len(positions), AT_A_TIME)), evaluator)
    places = asyncio.Semaphore(AT_A_TIME)

    async def excess(number: int, position: Position) -> float:
        async with places:
            ours = await asyncio.gather(
                *(_searched(pool, position, np.random.default_rng([number, turn])) for turn in range(2))
            )
        stored = position.shares(game.actions)
        theirs = (total_variation(stored, ours[0]) + total_variation(stored, ours[1])) / 2
        return theirs - total_variation(*ours)

    return list(await asyncio.gather(*(excess(number, one) for number, one in enumerate(positions))))


async def _searched(
    pool: SearchPool, position: Position, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """[actions] shares of the visits of a search as in self-play."""
    game = pool.forest.game
    with SearchTree(pool.forest, rng) as tree:
        tree.reset_randomness()
        tree.reset(game.notation.state_from_text(position.record.start))
        for action in position.record.actions[: position.ply].tolist():
            tree.advance(action)
        result = await search(tree, pool)
        return shares_of(result.actions, result.visits, game.actions)
