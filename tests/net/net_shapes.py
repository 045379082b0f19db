"""Games as a network sees them, and naive twins of what `net` computes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from azselfplay.games.spec import CodedCells, EndReason, Game, Notation, PackedScalars, Rules


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
    **more: Any,
) -> Game:
    """Return a game without rules."""
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
        **more,
    )


CHESS_SHAPE = shape_only("chess_shape", 8, 8, 4672, 73, 218, 14, 7)
GO_CELLS = CodedCells(2, ((), (0,), (1,), (2,)))
"""Own stone, the other's stone, and where ko forbids a stone."""
GO_SHAPE = shape_only("go_shape", 19, 19, 362, 1, 362, 0, 1, extra_actions=1, coded_cells=GO_CELLS)
FOUR_SHAPE = shape_only("four_shape", 6, 7, 7, None, 7, 2, 0)
THREE_SHAPE = shape_only("three_shape", 3, 3, 9, 1, 9, 2, 0)
HANDS_CELLS = CodedCells(5, ((), (0, 3), (1, 3), (2, 3), (0, 4), (1,), (4, 2, 0), (), (5,), (3,), (4,)))
HANDS_SHAPE = shape_only(
    "hands_shape", 5, 13, 197, 3, 150, 2, 1,
    extra_actions=2, coded_cells=HANDS_CELLS,
    scalars_per_position=PackedScalars(((16, 40_000), (16, 3), (16, 999), (15, 1), (2, 3))),
    scalars_once=PackedScalars(((10, 512),)),
)  # fmt: skip
"""A game with all kinds of blocks: bits, codes that set some planes, scalars per position and once; and extra
actions."""
ROW_SHAPE = shape_only(
    "row_shape", 1, 5, 11, 2, 11, 1, 0, extra_actions=1, scalars_per_position=PackedScalars(((5, 18),))
)
ONE_SHAPE = shape_only(
    "one_shape", 1, 1, 2, 1, 2, 0, 0, extra_actions=1, coded_cells=CodedCells(8, ((), (0,), (0, 1)))
)
LARGE_SHAPE = shape_only("large_shape", 19, 19, 65_535, 181, 600, 1, 0, extra_actions=194)
"""A game with as many actions as can be numbered."""
SHAPES = (CHESS_SHAPE, GO_SHAPE, FOUR_SHAPE, THREE_SHAPE, HANDS_SHAPE, ROW_SHAPE, ONE_SHAPE)


def random_words(
    game: Game, history: int, rows: int, rng: np.random.Generator, density: float = 0.1
) -> npt.NDArray[np.uint64]:
    """Return packed positions with random bits, sometimes a whole plane, any codes, and scalars in [0, 1]."""
    planes = rng.random((rows, game.bit_planes(history), game.cells)) < density
    planes |= rng.random((rows, game.bit_planes(history), 1)) < 0.05
    padded = np.zeros((rows, game.bit_planes(history), game.words_per_plane * 64), dtype=np.uint8)
    padded[:, :, : game.cells] = planes
    words = np.packbits(padded, axis=2, bitorder="little").view(np.uint64).reshape(rows, -1)
    scalars = rng.random((rows, game.scalar_planes), dtype=np.float32).view(np.uint32).astype(np.uint64)
    # Codes and packed scalars get any bits: also unused codes, and counts above their divisors.
    between = game.feature_words(history) - words.shape[1] - game.scalar_planes
    packed = rng.integers(0, 2**64, (rows, between), np.uint64)
    return np.ascontiguousarray(np.concatenate([words, packed, scalars], axis=1))


def naive_planes(words: npt.NDArray[np.uint64], game: Game, history: int) -> npt.NDArray[np.float32]:
    """Return planes `[n, planes, rows, cols]`, computed with Python integers, position by position and block
    by block."""
    found = [_naive_position(row.tolist(), game, history) for row in words]
    return np.array(found, np.float32).reshape(len(words), -1, game.rows, game.cols)


def _naive_position(words: list[int], game: Game, history: int) -> list[list[float]]:
    """Return the planes [planes][cells] of one position; its words are removed from the list."""
    cells, coded = range(game.cells), game.coded_cells
    planes: list[list[float]] = []
    for _ in range(game.bit_planes(history)):
        plane = _joined(words, game.words_per_plane)
        planes.append([plane >> cell & 1 for cell in cells])
    for _ in range(history if coded else 0):
        assert coded is not None
        codes = [words.pop(0) for _ in range(coded.words(game.cells))]
        own = [
            _bits(codes[i // (64 // coded.bits)], i % (64 // coded.bits) * coded.bits, coded.bits)
            for i in cells
        ]
        sets = [set(coded.planes_of[code]) if code < len(coded.planes_of) else set() for code in own]
        planes += [[float(plane in one) for one in sets] for plane in range(coded.planes)]
    for block in [game.scalars_per_position] * history + [game.scalars_once]:
        planes += [[share] * game.cells for share in _shares(words, block)]
    for word in words:
        planes.append([float(np.uint32(word & 0xFFFFFFFF).view(np.float32))] * game.cells)
    return planes


def _bits(word: int, lowest: int, width: int) -> int:
    return word >> lowest & 2**width - 1


def _shares(words: list[int], block: PackedScalars) -> list[float]:
    """Return the packed numbers of one block; its words are removed from the list."""
    found, used = [], 64
    for bits, divisor in block.fields:
        if used + bits > 64:
            word, used = words.pop(0), 0
        found.append(min(1.0, _bits(word, used, bits) / divisor))
        used += bits
    return found


def _joined(words: list[int], count: int) -> int:
    """Return the first words as one number; they are removed from the list."""
    parts = [words.pop(0) for _ in range(count)]
    return sum(part << 64 * at for at, part in enumerate(parts))


def random_legal(
    game: Game, rows: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Return counts and actions of positions with 1 to `max_legal` legal actions."""
    counts = rng.integers(1, game.max_legal + 1, rows).astype(np.uint16)
    counts[:1] = game.max_legal
    lists = [np.sort(rng.permutation(game.actions)[:count]) for count in counts]
    return counts, np.concatenate(lists).astype(np.uint16)
