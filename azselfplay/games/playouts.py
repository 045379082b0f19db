"""Random games, and simple, slow readers of packed features: what `games.conformance` and tests are built on.

Each function raises `Nonconforming` if it meets a broken promise of the game.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from azselfplay.games import get_game
from azselfplay.games.packed import move_features
from azselfplay.games.spec import NO_ROOT, Game, PackedScalars, Positions, Symmetry

GAMES_EACH = 12
"""Random playouts for each game."""
SPARE = 4096
"""Extra entries behind an array, so that a game that writes too much spoils no memory, and the check can
tell."""
Words = npt.NDArray[np.uint64]


class Nonconforming(AssertionError):
    """A game breaks a promise; the text says where, and what was found."""


def must(is_so: bool | np.bool_, text: str, *values: object) -> None:
    """Raise Nonconforming with `text`, in which {} stands for each of `values`, unless `is_so`."""
    if not is_so:
        raise Nonconforming(text.format(*values))


# ---- Random games --------------------------------------------------------------------------------


class Playout(NamedTuple):
    """One random game."""

    positions: Positions
    """[plies + 1, words]"""
    actions: list[int]
    reason: int
    """0 if it reached the cap on plies."""


def legal(game: Game, positions: Positions, n: int) -> list[int]:
    """Return the legal actions of `positions[n - 1]`."""
    actions = np.zeros(game.max_legal + SPARE, dtype=np.uint16)
    count = int(game.rules.legal_actions(positions, n, actions))
    must(0 <= count <= game.max_legal, "{} legal actions, and max_legal is {}", count, game.max_legal)
    found: list[int] = actions[:count].tolist()
    return found


def ended(game: Game, positions: Positions, n: int, root: int = NO_ROOT) -> int:
    """Return the end reason of `positions[n - 1]`, 0 if the game goes on."""
    return int(game.rules.end_reason(positions, n, len(legal(game, positions, n)), root))


def replay(game: Game, actions: Sequence[int]) -> Positions:
    """Return the usual start and the position after each of `actions`."""
    positions = np.zeros((len(actions) + 1, game.state_words), dtype=np.uint64)
    game.rules.start(positions[0])
    for ply, action in enumerate(actions):
        game.rules.play(positions[ply], action, positions[ply + 1])
    return positions


@functools.cache
def playouts(name: str) -> tuple[Playout, ...]:
    """Return the same random games each time. (A hash at the end of the name, as tests use it, does not
    matter.)"""
    return tuple(random_games(get_game(name)))


def random_games(game: Game, count: int = GAMES_EACH) -> Iterator[Playout]:
    rng = random.Random("playouts of " + re.sub("_[0-9a-f]{8}$", "", game.name))
    for _ in range(count):
        positions = np.zeros((game.max_plies + 1, game.state_words), dtype=np.uint64)
        game.rules.start(positions[0])
        actions: list[int] = []
        while not (reason := ended(game, positions, n := len(actions) + 1)) and n <= game.max_plies:
            choices = legal(game, positions, n)
            must(bool(choices), "ply {}: the game goes on, and no action is legal", n - 1)
            actions.append(rng.choice(choices))
            game.rules.play(positions[n - 1], actions[-1], positions[n])
        yield Playout(positions[:n].copy(), actions, reason)


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `count`, evenly spread, with the first and the last one."""
    return sorted({round(one) for one in np.linspace(0, count - 1, min(count, most))})


# ---- Simple, slow readers of packed features -----------------------------------------------------


def features(game: Game, positions: Positions, n: int, history: int, fill: int = 0) -> Words:
    """Return packed features, written over words that held `fill`."""
    packed_features = np.full(game.feature_words(history), fill, dtype=np.uint64)
    game.rules.encode(positions, n, history, packed_features)
    return packed_features


def bits(game: Game, packed_features: Words, history: int) -> npt.NDArray[np.uint8]:
    """Return [planes, cells] the bit planes, after checking that they are empty beyond the board."""
    planes = packed_features[: game.bit_planes(history) * game.words_per_plane].astype("<u8").view(np.uint8)
    all_bits = np.unpackbits(planes, bitorder="little").reshape(-1, 64 * game.words_per_plane)
    must(not all_bits[:, game.cells :].any(), "a bit plane has bits beyond its {} cells", game.cells)
    return all_bits[:, : game.cells]


def codes(game: Game, packed_features: Words, history: int) -> npt.NDArray[np.int64]:
    """Return [history, cells] the codes, after checking that all codes exist and that none lies beyond the
    board."""
    coded, begin = game.coded_cells, game.bit_planes(history) * game.words_per_plane
    if coded is None:
        return np.zeros((history, 0), np.int64)
    block = packed_features[begin : begin + history * coded.words(game.cells)]
    found = np.array([unpacked(word, (coded.bits,) * coded.cells_a_word) for word in block.tolist()])
    found = found.reshape(history, -1)
    must(not found[:, game.cells :].any(), "there are codes beyond the {} cells", game.cells)
    must(found.max() < len(coded.planes_of), "the code {} is none of {}", found.max(), len(coded.planes_of))
    return found[:, : game.cells]


def unpacked(word: int, widths: tuple[int, ...]) -> list[int]:
    """Return the numbers in the fields of a word, which have these `widths` in bits, after checking that all
    bits behind them are 0."""
    found = []
    for width in widths:
        found.append(word & (1 << width) - 1)
        word >>= width
    must(word == 0, "there is something behind the fields of a word")
    return found


def scalars(game: Game, packed_features: Words, history: int) -> npt.NDArray[np.float32]:
    """Return [the scalars of all positions, then those that occur once], after checking their bounds and that
    unused bits are 0."""
    end = game.feature_words(history) - game.scalar_planes
    tail, packed = packed_features[end:], packed_features[:end].tolist()
    must(not (tail >> np.uint64(32)).any(), "there is something in the high half of a scalar's word")
    found: list[float] = []
    for block in [game.scalars_once] + [game.scalars_per_position] * history:  # from the last one on
        words = [packed.pop() for _ in range(block.words)][::-1]
        found[:0] = packed_shares(block, words)
    return np.array([*found, *tail.astype(np.uint32).view(np.float32)], np.float32)


def packed_shares(block: PackedScalars, words: list[int]) -> list[float]:
    """Return the counts divided by their divisors, after checking that no share is above 1."""
    shares = []
    for at, word in enumerate(words):
        mine = [field for field, place in zip(block.fields, block.places(), strict=True) if place[0] == at]
        for count, (_, divisor) in zip(unpacked(word, tuple(width for width, _ in mine)), mine, strict=True):
            must(count <= divisor, "a packed scalar is {}, and its divisor {}", count, divisor)
            shares.append(count / divisor)
    return shares


def moved(game: Game, symmetry: Symmetry, packed_features: Words, history: int) -> Words:
    """Return packed features after a symmetry of the board."""
    found = np.zeros_like(packed_features)
    planes = game.plane_map(symmetry, 1)
    move_features(packed_features, symmetry.cells, planes, game.code_bits, history, found)
    return found


Described = tuple[list[int], list[list[int]]]
"""(the active features of a position, the rows of each of its actions)"""
UNTOUCHED = -7


def described(game: Game, packed_features: Words, history: int, actions: list[int]) -> Described:
    """Return the output of the game's `SparseFeatures.describe`, after checking that nothing is written
    behind it, that everything is in range, and that no feature occurs twice."""
    sparse = game.sparse
    assert sparse is not None
    active = np.full(sparse.most_active + SPARE, UNTOUCHED, np.int32)
    rows = np.full(game.max_legal * sparse.tables + 8, UNTOUCHED, np.int32)
    given = packed_features.copy()
    end = len(actions) * sparse.tables
    found = sparse.describe(given, history, np.array(actions, np.uint16), len(actions), active, rows)
    must((given == packed_features).all(), "describe() has changed the features")
    must(0 <= found <= sparse.most_active, "{} active features of {} at most", found, sparse.most_active)
    must((active[found:] == UNTOUCHED).all(), "describe() writes behind the active features")
    must((rows[end:] == UNTOUCHED).all(), "describe() writes behind the rows of the actions")
    seen = active[:found].tolist()
    must(all(0 <= one < sparse.features for one in seen), "an active feature is out of range: {}", seen)
    must(len(set(seen)) == found, "a feature is active twice: {}", sorted(seen))
    of_actions = rows[:end]
    # `action_rows` itself stands for "no row".
    in_range = ((of_actions >= 0) & (of_actions <= sparse.action_rows)).all()
    must(in_range, "the row of an action is out of range: {}", of_actions.tolist())
    return seen, of_actions.reshape(-1, sparse.tables).tolist()
