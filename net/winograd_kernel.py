"""Winograd's convolutions as jitted loops (see `net.winograd`). All arrays are flat float32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from games.jit import jit
from net.lanes import LANES, OUTPUTS, TILES, combination, finish, multiply_block

F32 = npt.NDArray[np.float32]

INPUTS = {
    3: ((2, -1, -2, 1, 0), (0, -2, -1, 1, 0), (0, 2, -3, 1, 0), (0, -1, 0, 1, 0), (0, 2, -1, -2, 1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
"""The matrix B^T for 3 and for 4 results in a line."""
RESULTS = {
    3: ((1, 1, 1, 1, 0), (0, 1, -1, 2, 0), (0, 1, 1, 4, 1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
"""The matrix A^T."""

_spread_3, _spread_4 = combination(INPUTS[3]), combination(INPUTS[4])
_collect_3, _collect_4 = combination(RESULTS[3]), combination(RESULTS[4])


class Sizes(NamedTuple):
    """Of the boards and of the tiles of results."""

    rows: int
    cols: int
    channels: int
    """A multiple of OUTPUTS."""
    tall: int
    wide: int
    """Rows and columns of a tile of results, each 3 or 4."""
    group: int
    """Boards whose tiles are multiplied together."""


class Scratch(NamedTuple):
    """Memory to compute in; what it holds does not matter, except that `board` is 0 outside the board."""

    board: F32
    """A board with its border, up to the end of the last tile."""
    lines: F32
    """A tile, for LANES channels."""
    results: F32
    """The same."""
    tiles: F32
    """A matrix [tiles of a group, rounded up to a multiple of TILES, channels] for each number of a tile."""
    products: F32
    """The same."""


@jit
def spread(source: F32, at: int, step: int, out: F32, to: int, out_step: int, size: int) -> None:
    """Transform a line of inputs for `size` results."""
    if size == 4:
        _spread_4(source, at, step, out, to, out_step)
    else:
        _spread_3(source, at, step, out, to, out_step)


@jit
def collect(source: F32, at: int, step: int, out: F32, to: int, out_step: int, size: int) -> None:
    """Transform a line of products back to `size` results."""
    if size == 4:
        _collect_4(source, at, step, out, to, out_step)
    else:
        _collect_3(source, at, step, out, to, out_step)


@jit
def tiles_of(sizes: Sizes) -> tuple[int, int]:
    """Tiles of a board down and across."""
    return -(-sizes.rows // sizes.tall), -(-sizes.cols // sizes.wide)


@jit
def pitch_of(sizes: Sizes) -> int:
    """Numbers in a matrix of tiles."""
    down, across = tiles_of(sizes)
    return -(-sizes.group * down * across // TILES) * TILES * sizes.channels


@jit
def to_tiles(x: F32, first: int, sizes: Sizes, scratch: Scratch, place: int) -> None:
    """Cut the board that begins at `x[first]` into overlapping tiles and transform them, from row `place` of
    the matrices on."""
    channels, tall, wide = sizes.channels, sizes.tall, sizes.wide
    down, across = tiles_of(sizes)
    pitch, line = pitch_of(sizes), (across * wide + 2) * channels
    board, lines, tiles = scratch.board, scratch.lines, scratch.tiles
    for row in range(sizes.rows):
        begin, source = (row + 1) * line + channels, first + row * sizes.cols * channels
        for i in range(sizes.cols * channels):
            board[np.uint64(begin + i)] = x[np.uint64(source + i)]
    for row in range(down):
        for col in range(across):
            for channel in range(0, channels, LANES):
                corner = row * tall * line + col * wide * channels + channel
                for j in range(wide + 2):
                    spread(board, corner + j * channels, line, lines, j * LANES, (wide + 2) * LANES, tall)
                to = place * channels + channel
                for i in range(tall + 2):
                    at = i * (wide + 2)
                    spread(lines, at * LANES, LANES, tiles, at * pitch + to, pitch, wide)
            place += 1


@jit
def multiply(weight: F32, sizes: Sizes, scratch: Scratch, count: int) -> None:
    """Multiply the first `count` tiles, rounded up to a multiple of TILES, by `weight [numbers, channels,
    channels]`."""
    channels, pitch = sizes.channels, pitch_of(sizes)
    for number in range((sizes.tall + 2) * (sizes.wide + 2)):
        for tile in range(0, count, TILES):
            at = number * pitch + tile * channels
            for output in range(0, channels, OUTPUTS):
                begin = number * channels * channels + output
                multiply_block(scratch.tiles, at, channels, weight, begin, channels, scratch.products)


@jit
def from_tiles(
    place: int, sizes: Sizes, scratch: Scratch, bias: F32, rule: tuple[bool, bool], out: F32, first: int
) -> None:
    """Transform the products from row `place` of the matrices on back to the board that begins at
    `out[first]`. rule: see `convolve`."""
    channels, tall, wide = sizes.channels, sizes.tall, sizes.wide
    pitch = pitch_of(sizes)
    lines, results = scratch.lines, scratch.results
    for row in range(0, sizes.rows, tall):
        for col in range(0, sizes.cols, wide):
            for channel in range(0, channels, LANES):
                begin = place * channels + channel
                for i in range(tall + 2):
                    at = i * (wide + 2) * pitch + begin
                    collect(scratch.products, at, pitch, lines, i * wide * LANES, LANES, wide)
                for j in range(wide):
                    collect(lines, j * LANES, wide * LANES, results, j * LANES, wide * LANES, tall)
                for i in range(min(tall, sizes.rows - row)):
                    for j in range(min(wide, sizes.cols - col)):
                        cell = (row + i) * sizes.cols + col + j
                        to = first + cell * channels + channel
                        finish(results, (i * wide + j) * LANES, bias, channel, rule, out, to)
            place += 1


@jit
def convolve(
    x: F32, weight: F32, bias: F32, rule: tuple[bool, bool], out: F32, sizes: Sizes, scratch: Scratch
) -> None:
    """Write the convolution of `x [boards, rows, cols, channels]` to `out`, of the same shape.

    weight  [numbers of a tile, channels, channels]; bias  [channels]
    rule    whether to add what `out` holds, and whether to apply ReLU
    """
    size = sizes.rows * sizes.cols * sizes.channels
    down, across = tiles_of(sizes)
    boards = len(x) // size
    for first in range(0, boards, sizes.group):
        count = min(sizes.group, boards - first)
        for number in range(count):
            to_tiles(x, (first + number) * size, sizes, scratch, number * down * across)
        multiply(weight, sizes, scratch, count * down * across)
        for number in range(count):
            place = number * down * across
            from_tiles(place, sizes, scratch, bias, rule, out, (first + number) * size)
