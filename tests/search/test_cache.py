"""The cache of evaluations: its answers are right, and it does not change games."""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leaf_by_leaf import HashEvaluator, Leaf, placed

from azselfplay.games import get_game
from azselfplay.search import cache_kernel
from azselfplay.search.cache_kernel import WAYS
from azselfplay.search.forest import Forest, cached_in
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from azselfplay.search.tree import NetView, SearchTree
from protocol.settings import SelfPlaySettings

WORD = (1 << 64) - 1
START, TIMES = int(cache_kernel.START_1), int(cache_kernel.TIMES_1)

Key = tuple[bytes, bytes]


@dataclass
class Entry:
    place: int
    """Number of priors that were written to the ring before these."""
    answer: Any


class NaiveCache:
    """Holds at most WAYS positions per bucket, and no more priors than the ring holds."""

    def __init__(self, positions: int, mean_legal: float, max_legal: int) -> None:
        self.buckets = -(-positions // WAYS)
        self.room = max(int(positions * mean_legal), max_legal)
        self.written = 0
        self.entries: dict[Key, Entry] = {}

    def find(self, leaf: Leaf) -> Any:
        """Return the answer to a leaf, or None."""
        entry = self.entries.get(key_of(leaf))
        return entry.answer if entry is not None and self.written - entry.place <= self.room else None

    def keep(self, leaf: Leaf, answer: Any) -> None:
        if self.find(leaf) is not None:
            return
        key, mates = key_of(leaf), self.mates_of(leaf)
        if key not in mates and len(mates) == WAYS:
            del self.entries[min(mates, key=lambda mate: self.entries[mate].place)]
        at = self.written % self.room
        if at + len(leaf.actions) > self.room:  # the priors of a position are not split
            self.written += self.room - at
        self.entries[key] = Entry(self.written, answer)
        self.written += len(leaf.actions)

    def forget(self) -> None:
        self.entries.clear()

    def mates_of(self, leaf: Leaf) -> list[Key]:
        """Return the contents of the bucket of a leaf."""
        bucket = hash_of(key_of(leaf)) % self.buckets
        return [key for key in self.entries if hash_of(key) % self.buckets == bucket]


def key_of(leaf: Leaf) -> Key:
    return leaf.features.tobytes(), leaf.actions.astype("<u8").tobytes()


def hash_of(key: Key) -> int:
    """Return the hash that determines the bucket."""
    data, found = b"".join(key), START
    for at in range(0, len(data), 8):
        found = (found ^ int.from_bytes(data[at : at + 8], "little")) * TIMES & WORD
        found ^= found >> 32
    return found


TIC, FOUR = get_game("tic_tac_toe"), get_game("connect_four")


def tree_of(name: str, cache: int = 0, **settings: object) -> SearchTree:
    """Return a tree at the start position, in a forest of its own."""
    game = get_game(name)
    resolved = resolve(SelfPlaySettings(**settings), game)  # type: ignore[arg-type]
    return placed(SearchTree(Forest(game, resolved, cache=cache), np.random.default_rng(0)))


async def expanded(pool: SearchPool, tree: SearchTree, *positions: str) -> list[NetView]:
    """Return what the tree holds as the network's answer for some positions."""
    views = []
    for moves in positions:
        placed(tree, moves)
        await pool.expand(tree)
        views.append(tree.view_of_net())
    return views


@pytest.mark.parametrize(
    ("name", "positions"), [("tic_tac_toe", ("1 5", "5 1")), ("chess", ("e2e4", "d2d4"))]
)
def test_a_position_is_asked_for_once_and_others_are_told_apart(
    name: str, positions: tuple[str, str]
) -> None:
    net, tree = HashEvaluator(), tree_of(name, cache=100)
    one, two = positions
    first, other, again = asyncio.run(expanded(SearchPool(tree.forest, net), tree, one, two, one))
    assert (net.rows, tree.forest.cache_hits) == (2, 1)
    assert again.value == first.value != other.value
    assert np.array_equal(again.priors, first.priors)


def random_positions(count: int) -> list[list[int]]:
    """Return actions that lead to unfinished positions of random games, with all numbers of legal actions."""
    rng, found = np.random.default_rng(2), []
    tree = tree_of("tic_tac_toe")
    while len(found) < count:
        placed(tree)
        actions: list[int] = []
        while tree.end_reason() is None:
            found.append(actions.copy())
            actions.append(int(rng.choice(tree.legal_actions())))
            tree.advance(actions[-1])
    return found[:count]


POSITIONS = random_positions(60)
OTHER_WEIGHTS = -1


@given(
    st.sampled_from([1, 4, 6, 11, 24]),
    st.lists(st.integers(0, 59) | st.integers(0, 5) | st.just(OTHER_WEIGHTS), min_size=20, max_size=90),
)
def test_it_answers_and_forgets_as_its_slow_twin_does(positions: int, steps: list[int]) -> None:
    net, tree = HashEvaluator(), tree_of("tic_tac_toe", cache=positions)
    twin, twins_version = NaiveCache(positions, TIC.mean_legal, TIC.max_legal), net.version

    async def main() -> None:
        nonlocal twins_version
        pool = SearchPool(tree.forest, net)
        for step in steps:
            if step == OTHER_WEIGHTS:
                net.version += 1
                continue
            placed(tree)
            for action in POSITIONS[step]:
                tree.advance(action)
            leaf, asked, known = tree.root_leaf(), net.rows, None
            known = twin.find(leaf)
            await pool.expand(tree)
            assert (net.rows > asked) == (known is None)
            if known is None:
                known = net.answer(leaf)
                if net.version != twins_version:
                    twins_version = net.version
                    twin.forget()
                twin.keep(leaf, known)
            view = tree.view_of_net()
            assert view.priors.tolist() == known[0].tolist()
            assert view.value == known[1]

    asyncio.run(main())


@pytest.mark.parametrize("name", ["connect_four", "chess", "go"])
def test_a_cache_of_so_many_mebibytes_takes_that_much_memory(name: str) -> None:
    """This holds for any number of legal moves; games with few have room for more positions."""
    game = get_game(name)
    arrays = Forest(game, resolve(SelfPlaySettings(), game), cache=cached_in(4, game)).arrays
    assert arrays.cache_entries.nbytes + arrays.cached_priors.nbytes == pytest.approx(4 * 2**20, rel=0.01)


def test_positions_that_look_alike_but_have_other_moves_do_not_share_an_answer() -> None:
    """With one position of history, two orders of moves give the same features; after one of them a pawn may
    be taken en passant."""
    orders = "b2b3 d7d5 e2e3 d5d4 c1b2 g8f6 e3e4", "b2b3 d7d5 c1a3 d5d4 a3b2 g8f6 e2e4"
    net, tree = HashEvaluator(), tree_of("chess", cache=100, history=1)
    leaves = []
    for moves in orders:
        placed(tree, moves)
        leaves.append(tree.root_leaf())
    assert np.array_equal(leaves[0].features, leaves[1].features)
    views = asyncio.run(expanded(SearchPool(tree.forest, net), tree, *orders, *orders))
    assert [len(view.priors) for view in views] == [32, 33, 32, 33]
    assert [view.priors.sum() for view in views] == pytest.approx([1.0] * 4)
    assert (net.rows, tree.forest.cache_hits) == (2, 2)
