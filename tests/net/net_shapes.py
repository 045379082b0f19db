"""Games as far as a network sees them, and naive twins of what `net` computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from games.spec import EndReason, Game, Notation, Rules
from net.batches import Batch


def _unused(*_: Any) -> Any:
    raise AssertionError("a network never asks for rules")


def shape_only(
    name: str,
    rows: int,
    cols: int,
    actions: int,
    policy_planes: int | None,
    max_legal: int,
    planes_per_position: int,
    scalar_planes: int,
) -> Game:
    """A game without rules."""
    return Game(
        name=name,
        rows=rows,
        cols=cols,
        actions=actions,
        policy_planes=policy_planes,
        state_words=1,
        max_legal=max_legal,
        mean_legal=min(35.0, actions / 2),
        dirichlet_alpha=0.3,
        max_plies=512,
        planes_per_position=planes_per_position,
        scalar_planes=scalar_planes,
        history=8,
        end_reasons=(EndReason("ongoing", 0),),
        rules=Rules(*[_unused] * 6),
        notation=Notation(*[_unused] * 5),
    )


CHESS_SHAPE = shape_only("chess_shape", 8, 8, 4672, 73, 218, 14, 7)
GO_SHAPE = shape_only("go_shape", 19, 19, 362, None, 362, 2, 1)
FOUR_SHAPE = shape_only("four_shape", 6, 7, 7, None, 7, 2, 0)
THREE_SHAPE = shape_only("three_shape", 3, 3, 9, 1, 9, 2, 0)
SHAPES = (CHESS_SHAPE, GO_SHAPE, FOUR_SHAPE, THREE_SHAPE)


def random_words(
    game: Game, history: int, rows: int, rng: np.random.Generator, density: float = 0.1
) -> npt.NDArray[np.uint64]:
    """Packed positions with random bits, now and then a whole plane, and scalars in [0, 1]."""
    planes = rng.random((rows, game.bit_planes(history), game.cells)) < density
    planes |= rng.random((rows, game.bit_planes(history), 1)) < 0.05
    padded = np.zeros((rows, game.bit_planes(history), game.words_per_plane * 64), dtype=np.uint8)
    padded[:, :, : game.cells] = planes
    words = np.packbits(padded, axis=2, bitorder="little").view(np.uint64).reshape(rows, -1)
    scalars = rng.random((rows, game.scalar_planes), dtype=np.float32).view(np.uint32).astype(np.uint64)
    return np.ascontiguousarray(np.concatenate([words, scalars], axis=1))


def naive_planes(words: npt.NDArray[np.uint64], game: Game, history: int) -> npt.NDArray[np.float32]:
    """Planes `[n, planes, rows, cols]` bit by bit with numpy.unpackbits."""
    n, bit_words = len(words), game.bit_planes(history) * game.words_per_plane
    bits = np.unpackbits(np.ascontiguousarray(words[:, :bit_words]).view(np.uint8), axis=1, bitorder="little")
    planes = bits.reshape(n, game.bit_planes(history), -1)[:, :, : game.cells].astype(np.float32)
    numbers = np.ascontiguousarray(words[:, bit_words:] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    scalars = np.repeat(numbers.view(np.float32)[:, :, None], game.cells, axis=2)
    return np.concatenate([planes, scalars], axis=1).reshape(n, -1, game.rows, game.cols)


def random_legal(
    game: Game, rows: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Counts and actions of positions with 1 to `max_legal` legal actions."""
    counts = rng.integers(1, game.max_legal + 1, rows).astype(np.uint16)
    counts[:1] = game.max_legal
    lists = [np.sort(rng.permutation(game.actions)[:count]) for count in counts]
    return counts, np.concatenate(lists).astype(np.uint16)


def random_play(game: Game, rows: int, seed: int = 0) -> Batch:
    """Positions of random games with their legal actions."""
    rng = np.random.default_rng(seed)
    features = np.zeros((rows, game.feature_words(game.history)), dtype=np.uint64)
    positions = np.zeros((rows + 1, game.state_words), dtype=np.uint64)
    lists: list[npt.NDArray[np.uint16]] = []
    n = 0
    while len(lists) < rows:
        legal = np.zeros(game.max_legal, dtype=np.uint16)
        if n == 0:
            game.rules.start(positions[0])
            n = 1
        legal = legal[: game.rules.legal_actions(positions, n, legal)]
        if game.rules.end_reason(positions, n, len(legal), False):
            n = 0
            continue
        game.rules.encode(positions, n, game.history, features[len(lists)])
        lists.append(legal)
        game.rules.play(positions[n - 1], int(rng.choice(legal)), positions[n])
        n += 1
    return Batch(features, np.array([len(legal) for legal in lists], np.uint16), np.concatenate(lists))
