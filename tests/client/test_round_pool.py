"""A worker in rounds plays all games of one version and no others, even if somebody has played some of them
already."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from changed_settings import self_play
from leaf_by_leaf import Answer, LeafByLeaf

from client.rounds import CurrentVersion, RoundPool
from client.self_play import Player
from games import get_game
from protocol.messages import WeightsInfo
from protocol.records import GameRecord, to_bytes
from protocol.rounds import uid_of
from protocol.settings import SelfPlaySettings
from search.forest import Forest
from search.leaf_batch import Leaf
from search.pool import SearchPool
from search.settings import resolve

GAME = get_game("tic_tac_toe")
SETTINGS = resolve(self_play(simulations=4, round_games=5, seed=3, random_share=1, random_plies=2), GAME)


def info(version: int) -> WeightsInfo:
    return WeightsInfo(version, 0, bytes(32), 1, GAME.name, "1x8")


class Uniform(LeafByLeaf):
    """Answers with the version that the test sets."""

    told = 0

    def answer(self, leaf: Leaf) -> Answer:
        self.version = self.told
        return super().answer(leaf)


class Opinionated(Uniform):
    """Its priors depend on the version, too."""

    def answer(self, leaf: Leaf) -> Answer:
        _, value = super().answer(leaf)
        weights = np.array([1.0 + (3 * int(action) + 5 * self.told) % 7 for action in leaf.actions])
        return weights / weights.sum(), value


class Pool:
    """A RoundPool and the games it kept. `name` is the player's, which must not matter."""

    def __init__(self, name: str = "", evaluator: Uniform | None = None, cache: int = 0) -> None:
        self.kept: list[GameRecord] = []
        self.current, self.finishing, room = CurrentVersion(), asyncio.Event(), asyncio.Event()
        self.evaluator, self.came = evaluator or Uniform(), asyncio.Event()
        room.set()
        player = Player(99, 4, name, is_client=bool(name))
        self.pool = RoundPool(
            SearchPool(Forest(GAME, SETTINGS, cache=cache), self.evaluator), player,
            current=self.current, keep=self.keep, room=room, finishing=self.finishing,
        )  # fmt: skip

    async def keep(self, record: GameRecord) -> None:
        self.kept.append(record)
        self.came.set()

    async def until(self, count: int) -> None:
        while len(self.kept) < count or self.pool.finished < count:
            self.came.clear()
            await self.came.wait()
            await asyncio.sleep(0)


async def rounds(games: int) -> list[GameRecord]:
    """Play rounds 0 and 2 with a worker that missed version 1."""
    one = Pool()
    one.current.heard(info(0))
    async with asyncio.TaskGroup() as group:
        (task,) = one.pool.start(group, games)
        await one.until(5)
        one.evaluator.told = 2
        one.current.heard(None)
        one.current.heard(info(2))
        await one.until(10)
        assert one.pool.finished == 10
        task.cancel()
    return one.kept


def test_a_round_is_played_by_its_own_weights_alone() -> None:
    """A worker that has played another round before, and remembers its evaluations, plays the same games as
    one that has just been started."""

    async def games(versions: list[int]) -> list[GameRecord]:
        one = Pool(evaluator=Opinionated(), cache=5000)
        for version in versions:
            one.evaluator.told = version
            await one.pool.play_round(version, 3)
        return one.kept[-5:]

    again, fresh = asyncio.run(games([1, 2])), asyncio.run(games([2]))
    assert {game.uid: to_bytes(game) for game in again} == {game.uid: to_bytes(game) for game in fresh}


def test_round_has_the_games_of_its_version() -> None:
    """Five games by version 0, then nothing until another version is announced; all plies have that
    version."""
    kept = asyncio.run(rounds(3))
    numbers = [*range(5), *range(10, 15)]
    assert sorted(game.uid for game in kept) == [uid_of(3, number) for number in numbers]
    for game in kept:
        assert set(game.versions.tolist()) == {int.from_bytes(game.uid[8:], "big") // 5}


def test_games_of_a_round_are_the_same_bytes_again() -> None:
    """Played again with another number of games at a time, each game is the same record: the trainer sees a
    duplicate."""
    first, second = (asyncio.run(rounds(games)) for games in (1, 5))
    assert {game.uid: to_bytes(game) for game in first} == {game.uid: to_bytes(game) for game in second}


@pytest.mark.parametrize("is_announced", [True, False])
def test_game_that_newer_weights_answered_is_not_of_the_round(is_announced: bool) -> None:
    """A round that others finished meanwhile is abandoned, and nothing of it is kept, whether or not the
    worker has heard of the new version."""

    async def scenario() -> Pool:
        one = Pool()
        one.current.heard(info(0))
        one.evaluator.told = one.evaluator.version = 1
        if is_announced:
            one.current.heard(info(1))
        await one.pool.play_round(0, 2)
        return one

    played = asyncio.run(scenario())
    assert played.kept == []
    assert (played.evaluator.rows == 0) == is_announced


def test_rounds_need_a_seed() -> None:
    with pytest.raises(ValueError, match=r"set self_play.seed above 0"):
        resolve(SelfPlaySettings(round_games=5), GAME)
