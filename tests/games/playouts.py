"""Random games through the jitted rules, made once and shared by the tests."""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games import Game, get_game

GAMES_EACH = 12


class Playout(NamedTuple):
    """One random game."""

    positions: npt.NDArray[np.uint64]
    """[plies + 1, words]"""
    actions: list[int]
    reason: int
    """0: it reached the cap on plies."""


def legal(game: Game, positions: npt.NDArray[np.uint64], n: int) -> list[int]:
    """Legal actions of `positions[n - 1]`."""
    actions = np.zeros(game.max_legal, dtype=np.uint16)
    return actions[: game.rules.legal_actions(positions, n, actions)].tolist()


def child_of(game: Game, state: npt.NDArray[np.uint64], action: int) -> npt.NDArray[np.uint64]:
    child = np.zeros(game.state_words, dtype=np.uint64)
    game.rules.play(state, action, child)
    return child


def replay(game: Game, actions: list[int]) -> npt.NDArray[np.uint64]:
    """The positions that `actions` make from the usual start."""
    positions = np.zeros((len(actions) + 1, game.state_words), dtype=np.uint64)
    game.rules.start(positions[0])
    for ply, action in enumerate(actions):
        game.rules.play(positions[ply], action, positions[ply + 1])
    return positions


def features(
    game: Game, positions: npt.NDArray[np.uint64], n: int, history: int, fill: int = 0
) -> npt.NDArray[np.uint64]:
    """Packed features, written over words that held `fill`."""
    packed_features = np.full(game.feature_words(history), fill, dtype=np.uint64)
    game.rules.encode(positions, n, history, packed_features)
    return packed_features


def bits(game: Game, packed_features: npt.NDArray[np.uint64], history: int) -> npt.NDArray[np.uint8]:
    """[planes, cells] of the bit planes, checked to be empty beyond the board."""
    planes = packed_features[: game.bit_planes(history) * game.words_per_plane].astype("<u8").view(np.uint8)
    unpacked = np.unpackbits(planes, bitorder="little").reshape(game.bit_planes(history), -1)
    assert not unpacked[:, game.cells :].any()
    return unpacked[:, : game.cells]


def codes(game: Game, packed_features: npt.NDArray[np.uint64], history: int) -> npt.NDArray[np.int64]:
    """[history, cells], checked to be codes that there are, and none beyond the board."""
    coded, begin = game.coded_cells, game.bit_planes(history) * game.words_per_plane
    if coded is None:
        return np.zeros((history, 0), np.int64)
    block = packed_features[begin : game.feature_words(history) - game.scalars(history)]
    found = []
    for words in block.reshape(history, -1).tolist():
        joined = sum(word << 64 * at for at, word in enumerate(words))
        found.append([joined >> coded.bits * cell & (1 << coded.bits) - 1 for cell in range(game.cells)])
        assert joined >> coded.bits * game.cells == 0
        assert max(found[-1]) < len(coded.planes_of)
    return np.array(found)


def scalars(game: Game, packed_features: npt.NDArray[np.uint64], history: int) -> npt.NDArray[np.float32]:
    """[scalars of all positions, then of now], checked to leave the upper half of each word empty."""
    tail = packed_features[game.feature_words(history) - game.scalars(history) :]
    assert not (tail >> np.uint64(32)).any()
    return tail.astype(np.uint32).view(np.float32)


@functools.cache
def playouts(name: str) -> tuple[Playout, ...]:
    """The same random games each time."""
    game, rng = get_game(name), random.Random(f"playouts of {name}")
    return tuple(_playout(game, rng) for _ in range(GAMES_EACH))


def _playout(game: Game, rng: random.Random) -> Playout:
    positions = np.zeros((game.max_plies + 1, game.state_words), dtype=np.uint64)
    game.rules.start(positions[0])
    actions: list[int] = []
    while len(actions) < game.max_plies:
        choices = legal(game, positions, len(actions) + 1)
        reason = game.rules.end_reason(positions, len(actions) + 1, len(choices), False)
        if reason:
            return Playout(positions[: len(actions) + 1].copy(), actions, reason)
        actions.append(rng.choice(choices))
        game.rules.play(positions[len(actions) - 1], actions[-1], positions[len(actions)])
    n = len(actions) + 1
    return Playout(
        positions, actions, game.rules.end_reason(positions, n, len(legal(game, positions, n)), False)
    )
