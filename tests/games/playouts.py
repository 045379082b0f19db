"""Random games through the jitted rules, played once and shared by the tests."""

from __future__ import annotations

import functools
import random
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games import Game, get_game
from azselfplay.games.packed import move_features
from azselfplay.games.spec import NO_ROOT, PackedScalars, Symmetry

GAMES_EACH = 12


class Playout(NamedTuple):
    """One random game."""

    positions: npt.NDArray[np.uint64]
    """[plies + 1, words]"""
    actions: list[int]
    reason: int
    """0 if it reached the cap on plies."""


def legal(game: Game, positions: npt.NDArray[np.uint64], n: int) -> list[int]:
    """Return the legal actions of `positions[n - 1]`."""
    actions = np.zeros(game.max_legal, dtype=np.uint16)
    return actions[: game.rules.legal_actions(positions, n, actions)].tolist()


def child_of(game: Game, state: npt.NDArray[np.uint64], action: int) -> npt.NDArray[np.uint64]:
    child = np.zeros(game.state_words, dtype=np.uint64)
    game.rules.play(state, action, child)
    return child


def replay(game: Game, actions: list[int]) -> npt.NDArray[np.uint64]:
    """Return the positions after each of `actions`, from the usual start on."""
    positions = np.zeros((len(actions) + 1, game.state_words), dtype=np.uint64)
    game.rules.start(positions[0])
    for ply, action in enumerate(actions):
        game.rules.play(positions[ply], action, positions[ply + 1])
    return positions


def features(
    game: Game, positions: npt.NDArray[np.uint64], n: int, history: int, fill: int = 0
) -> npt.NDArray[np.uint64]:
    """Return packed features, written over words that held `fill`."""
    packed_features = np.full(game.feature_words(history), fill, dtype=np.uint64)
    game.rules.encode(positions, n, history, packed_features)
    return packed_features


def bits(game: Game, packed_features: npt.NDArray[np.uint64], history: int) -> npt.NDArray[np.uint8]:
    """Return [planes, cells] of the bit planes, after checking that they are empty beyond the board."""
    planes = packed_features[: game.bit_planes(history) * game.words_per_plane].astype("<u8").view(np.uint8)
    unpacked = np.unpackbits(planes, bitorder="little").reshape(
        game.bit_planes(history), 64 * game.words_per_plane
    )
    assert not unpacked[:, game.cells :].any()
    return unpacked[:, : game.cells]


def codes(game: Game, packed_features: npt.NDArray[np.uint64], history: int) -> npt.NDArray[np.int64]:
    """Return [history, cells], after checking that all codes exist and that none lies beyond the board."""
    coded, begin = game.coded_cells, game.bit_planes(history) * game.words_per_plane
    if coded is None:
        return np.zeros((history, 0), np.int64)
    block = packed_features[begin : begin + history * coded.words(game.cells)]
    found = np.array([unpacked(word, (coded.bits,) * coded.cells_a_word) for word in block.tolist()])
    found = found.reshape(history, -1)
    assert not found[:, game.cells :].any()
    assert found.max() < len(coded.planes_of)
    return found[:, : game.cells]


def unpacked(word: int, widths: tuple[int, ...]) -> list[int]:
    """Return the numbers of so many bits each in a word, after checking that nothing is behind them."""
    found = []
    for bits in widths:
        found.append(word & (1 << bits) - 1)
        word >>= bits
    assert word == 0
    return found


def scalars(game: Game, packed_features: npt.NDArray[np.uint64], history: int) -> npt.NDArray[np.float32]:
    """Return [scalars of all positions, then of now], after checking their bounds and that nothing is behind
    them."""
    end = game.feature_words(history) - game.scalar_planes
    tail, packed = packed_features[end:], packed_features[:end].tolist()
    assert not (tail >> np.uint64(32)).any()
    found: list[float] = []
    for block in [game.scalars_once] + [game.scalars_per_position] * history:  # from the last one on
        words = [packed.pop() for _ in range(block.words)][::-1]
        found[:0] = packed_shares(block, words)
    return np.array([*found, *tail.astype(np.uint32).view(np.float32)], np.float32)


def packed_shares(block: PackedScalars, words: list[int]) -> list[float]:
    """Return counts divided by their divisors, after checking that none is above 1."""
    shares = []
    for at, word in enumerate(words):
        mine = [field for field, place in zip(block.fields, block.places(), strict=True) if place[0] == at]
        counts = unpacked(word, tuple(bits for bits, _ in mine))
        assert all(count <= divisor for count, (_, divisor) in zip(counts, mine, strict=True))
        shares += [count / divisor for count, (_, divisor) in zip(counts, mine, strict=True)]
    return shares


Described = tuple[list[int], list[list[int]]]
"""The active features of a position, and the rows of each of its actions."""
UNTOUCHED = -7


def described(
    game: Game, packed_features: npt.NDArray[np.uint64], history: int, actions: list[int]
) -> Described:
    """Return what the game's sparse features say, after checking that nothing is written behind it, that
    everything is in range, and that no feature is there twice."""
    sparse = game.sparse
    assert sparse is not None
    active = np.full(sparse.most_active + 8, UNTOUCHED, np.int32)
    rows = np.full(game.max_legal * sparse.tables + 8, UNTOUCHED, np.int32)
    given = packed_features.copy()
    end = len(actions) * sparse.tables
    found = sparse.describe(given, history, np.array(actions, np.uint16), len(actions), active, rows)
    assert (given == packed_features).all()
    assert 0 <= found <= sparse.most_active
    assert (active[found:] == UNTOUCHED).all()
    assert (rows[end:] == UNTOUCHED).all()
    assert ((active[:found] >= 0) & (active[:found] < sparse.features)).all()
    assert len(set(active[:found].tolist())) == found
    limit = sparse.action_rows + 1  # the one for no row
    assert ((rows[:end] >= 0) & (rows[:end] < limit)).all()
    return active[:found].tolist(), rows[:end].reshape(-1, sparse.tables).tolist()


def moved(
    game: Game, symmetry: Symmetry, packed_features: npt.NDArray[np.uint64], history: int
) -> npt.NDArray[np.uint64]:
    """Return packed features after a symmetry of the board."""
    found = np.zeros_like(packed_features)
    planes = game.plane_map(symmetry, 1)
    move_features(packed_features, symmetry.cells, planes, game.code_bits, history, found)
    return found


@functools.cache
def playouts(name: str) -> tuple[Playout, ...]:
    """Return the same random games each time, also for a game of tests whose name has a hash of its file."""
    game, rng = get_game(name), random.Random("playouts of " + re.sub("_[0-9a-f]{8}$", "", name))
    return tuple(_playout(game, rng) for _ in range(GAMES_EACH))


def _playout(game: Game, rng: random.Random) -> Playout:
    positions = np.zeros((game.max_plies + 1, game.state_words), dtype=np.uint64)
    game.rules.start(positions[0])
    actions: list[int] = []
    while len(actions) < game.max_plies:
        choices = legal(game, positions, len(actions) + 1)
        reason = game.rules.end_reason(positions, len(actions) + 1, len(choices), NO_ROOT)
        if reason:
            return Playout(positions[: len(actions) + 1].copy(), actions, reason)
        actions.append(rng.choice(choices))
        game.rules.play(positions[len(actions) - 1], actions[-1], positions[len(actions)])
    n = len(actions) + 1
    return Playout(
        positions, actions, game.rules.end_reason(positions, n, len(legal(game, positions, n)), NO_ROOT)
    )
