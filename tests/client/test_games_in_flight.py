"""A game depends only on its seed and its number, not on how many games are played at a time."""

import asyncio
from dataclasses import replace
from functools import cache

import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import HashEvaluator, LeafByLeaf, Scattered

from azselfplay.games import get_game
from azselfplay.search.forest import Forest
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from client.self_play import Player, play_game
from protocol.records import to_bytes

GAME = get_game("tic_tac_toe")
GAMES = 64
KINDS: dict[str, dict[str, object]] = {
    "puct": {},
    "gumbel": {"selection": "gumbel"},
    "thompson": {"selection": "thompson"},
    "secure": {"final_move": "secure", "temperature_plies": 2},
    "openings": {"random_share": 0.5, "random_plies": 3},
}


def games(
    kind: str, evaluator: LeafByLeaf, *, at_once: int = GAMES, slots: int = GAMES, cache: int = 0
) -> list[bytes]:
    """Play games 0, 1, 2, ... of one seed, at most `at_once` at a time; return them without durations."""
    settings = resolve(varied(self_play(simulations=6), **KINDS[kind]), GAME)  # type: ignore[arg-type]

    async def main() -> list[bytes]:
        pool = SearchPool(Forest(GAME, settings, slots, cache=cache), evaluator)
        places = asyncio.Semaphore(at_once)

        async def one(number: int) -> bytes:
            async with places:
                player = Player(7, name="somebody")
                uid = number.to_bytes(16, "big")
                record = await play_game(pool, player.rng(number), player=player, uid=uid)
                return to_bytes(replace(record, seconds=0.0))

        return await asyncio.gather(*(one(number) for number in range(GAMES)))

    return asyncio.run(main())


@cache
def together(kind: str) -> tuple[list[bytes], int]:
    """Play all games at once; return them and the number of positions that were evaluated."""
    evaluator = HashEvaluator()
    return games(kind, evaluator), evaluator.rows


@pytest.mark.parametrize("kind", KINDS)
def test_games_are_the_same_one_at_a_time_and_all_at_a_time(kind: str) -> None:
    """This also holds in a forest that begins with one slot, and when answers come in parts, out of order and
    twice."""
    alone = games(kind, HashEvaluator(), at_once=1, slots=1)
    assert together(kind)[0] == alone
    assert games(kind, Scattered(), slots=1) == alone
    assert games(kind, Scattered(1), at_once=37) == alone


@pytest.mark.parametrize("kind", ["puct", "gumbel"])
@pytest.mark.parametrize("cache", [16, 5000])
def test_games_are_the_same_with_a_cache_that_all_of_them_share(kind: str, cache: int) -> None:
    cached, (plain, rows) = HashEvaluator(), together(kind)
    assert games(kind, cached, cache=cache) == plain
    assert games(kind, Scattered(), cache=cache) == plain
    assert cached.rows < rows
