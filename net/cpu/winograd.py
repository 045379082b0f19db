"""Winograd's convolutions as jitted loops. `net.cpu.convolutions` explains the method and holds the weights.

`convolve` takes a few boards at a time: `to_tiles` cuts each board into overlapping tiles and transforms
them, `multiply` multiplies all tiles by the weights, `from_tiles` transforms the products back, and applies
bias and ReLU while they are in registers. All arrays are flat float32; `at`, `to` and steps count numbers.

The trick: Numba's compiler finds vector instructions by itself only in simple loops, so the three inner
operations (`combination`, `multiply_block`, `finish`) are written in LLVM IR, for several channels at once.
LLVM turns vectors that are wider than the processor's registers into several instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from azselfplay.games.jit import jit

F32 = npt.NDArray[np.float32]
VECTOR = 8
"""Channels at once in `combination`: one register of AVX2."""
TILES, OUTPUTS = 6, 16
"""Rows and columns of a product that `multiply_block` keeps in registers: twelve of AVX2's sixteen."""
UNROLLED = 4
"""Terms of a product's sum per turn of the loop; the number of terms is a multiple of this."""
_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_BYTES = 4
"""Bytes of a number. A vector may begin at any number, so this is its alignment."""
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


class Sizes(NamedTuple):
    """Sizes of the boards and of the tiles of results."""

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
    """Memory to compute in. Its contents do not matter, except that `board` is 0 outside the board."""

    board: F32
    """A board with its border, up to the end of the last tile."""
    lines: F32
    """A tile, for VECTOR channels."""
    results: F32
    """The same."""
    tiles: F32
    """A matrix [tiles of a group, rounded up to a multiple of TILES, channels] for each number of a tile."""
    products: F32
    """The same."""


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


@jit
def to_tiles(x: F32, first: int, sizes: Sizes, scratch: Scratch, place: int) -> None:
    """Cut the board that begins at `x[first]` into overlapping tiles and transform them, from row `place` of
    the matrices on."""
    channels, tall, wide = sizes.channels, sizes.tall, sizes.wide
    down, across = tiles_of(sizes)
    pitch, line = pitch_of(sizes), (across * wide + 2) * channels
    board, lines, tiles = scratch.board, scratch.lines, scratch.tiles
    # Copy to a board with a border of zeros, so that tiles at the edges need no tests. The border stays 0,
    # because nothing is ever written there.
    for row in range(sizes.rows):
        begin, source = (row + 1) * line + channels, first + row * sizes.cols * channels
        for i in range(sizes.cols * channels):  # unsigned: Numba would test each index for a sign
            board[np.uint64(begin + i)] = x[np.uint64(source + i)]
    for row in range(down):
        for col in range(across):
            for channel in range(0, channels, VECTOR):
                corner = row * tall * line + col * wide * channels + channel
                # A tile is transformed line by line: first down its columns, then along its rows. In between,
                # VECTOR channels of the tile fit into the L1 cache.
                for j in range(wide + 2):
                    spread(board, corner + j * channels, line, lines, j * VECTOR, (wide + 2) * VECTOR, tall)
                to = place * channels + channel
                for i in range(tall + 2):
                    at = i * (wide + 2)
                    spread(lines, at * VECTOR, VECTOR, tiles, at * pitch + to, pitch, wide)
            place += 1


@jit
def multiply(weight: F32, sizes: Sizes, scratch: Scratch, count: int) -> None:
    """Multiply the first `count` tiles, rounded up to a multiple of TILES, by `weight [numbers, channels,
    channels]`."""
    channels, pitch = sizes.channels, pitch_of(sizes)
    # A matrix of weights is used for all tiles of the group before the next one is read.
    for number in range((sizes.tall + 2) * (sizes.wide + 2)):
        for tile in range(0, count, TILES):  # tiles beyond `count` hold old numbers that nobody reads
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
            for channel in range(0, channels, VECTOR):
                begin = place * channels + channel
                # Transformed back line by line: first along the rows, then down the columns.
                for i in range(tall + 2):
                    at = i * (wide + 2) * pitch + begin
                    collect(scratch.products, at, pitch, lines, i * wide * VECTOR, VECTOR, wide)
                for j in range(wide):
                    collect(lines, j * VECTOR, wide * VECTOR, results, j * VECTOR, wide * VECTOR, tall)
                for i in range(min(tall, sizes.rows - row)):  # the last tile may reach beyond the board
                    for j in range(min(wide, sizes.cols - col)):
                        cell = (row + i) * sizes.cols + col + j
                        to = first + cell * channels + channel
                        finish(results, (i * wide + j) * VECTOR, bias, channel, rule, out, to)
            place += 1


@jit
def tiles_of(sizes: Sizes) -> tuple[int, int]:
    """Return the number of tiles of a board, down and across."""
    return -(-sizes.rows // sizes.tall), -(-sizes.cols // sizes.wide)


@jit
def pitch_of(sizes: Sizes) -> int:
    """Return how many numbers a matrix of tiles has."""
    down, across = tiles_of(sizes)
    return -(-sizes.group * down * across // TILES) * TILES * sizes.channels


# ---- Several channels at once ----------------------------------------------------------------------


def combination(matrix: Sequence[Sequence[float]]) -> Callable[..., None]:
    """Return `combine(source, at, step, out, to, out_step)` for jitted code.

    For VECTOR channels, row i of `matrix` times the numbers at `at`, `at + step`, ... in `source` goes to `to
    + i * out_step` in `out`. Everything is read before anything is written.
    """

    @intrinsic
    def combine(_context: Any, source: Any, at: Any, step: Any, out: Any, to: Any, out_step: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            read = _data(context, builder, kinds[0], args[0])
            written = _data(context, builder, kinds[3], args[3])
            # Read before anything is written: LLVM cannot know that the arrays do not overlap.
            numbers = [
                builder.load(_place(builder, read, args[1], args[2], number, VECTOR), align=_BYTES)
                for number in range(len(matrix[0]))
            ]
            results = [_sum(builder, row, numbers) for row in matrix]
            for number, result in enumerate(results):
                place = _place(builder, written, args[4], args[5], number, VECTOR)
                builder.store(result, place, align=_BYTES)
            return context.get_dummy_value()

        index = types.int64
        return types.void(source, index, index, out, index, index), codegen

    return combine


def _sum(builder: Any, row: Sequence[float], numbers: Sequence[Any]) -> Any:
    """Return the sum of the numbers times a row's factors."""
    total = None
    for factor, number in zip(row, numbers, strict=True):
        if factor == 0:
            continue
        # Most factors are 0, 1 or -1, and need no product.
        term = number
        if abs(factor) != 1:
            constant = ir.Constant(number.type, [abs(factor)] * number.type.count)
            term = builder.fmul(number, constant)
        if total is None:
            total = term if factor > 0 else builder.fneg(term)
        else:
            total = builder.fadd(total, term) if factor > 0 else builder.fsub(total, term)
    return total


@intrinsic
def finish(
    _context: Any, results: Any, at: Any, bias: Any, channel: Any, rule: Any, out: Any, to: Any
) -> Any:
    """Write to VECTOR numbers of `out`, from `to` on, the `results` from `at` on plus the `bias` from
    `channel` on.

    rule: whether to add what `out` holds, and whether negative sums become 0.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        zero = ir.Constant(_INDEX, 0)
        result, shift, written = (
            _place(builder, _data(context, builder, kinds[i], args[i]), args[i + 1], zero, 0, VECTOR)
            for i in (0, 2, 5)
        )
        total = builder.fadd(builder.load(result, align=_BYTES), builder.load(shift, align=_BYTES))
        added = builder.fadd(total, builder.load(written, align=_BYTES))
        add, rectify = (builder.extract_value(args[4], number) for number in range(2))
        # Compute both sums and select one, so that there is no branch.
        total = builder.select(add, added, total)
        nothing = ir.Constant(total.type, None)
        # NaN stays NaN.
        positive = builder.select(builder.fcmp_ordered("<", total, nothing), nothing, total)
        builder.store(builder.select(rectify, positive, total), written, align=_BYTES)
        return context.get_dummy_value()

    index = types.int64
    return types.void(results, index, bias, index, rule, out, index), codegen


@intrinsic
def multiply_block(
    _context: Any, rows: Any, at: Any, depth: Any, weight: Any, weight_at: Any, width: Any, out: Any
) -> Any:
    """Write TILES rows of `rows`, of `depth` numbers each, times OUTPUTS columns of a matrix `[depth, width]`
    to the same rows and columns of `out`.

    The rows begin at `at`, also in `out`, which has the same width as the matrix. The matrix is a part of
    `weight` that begins at a multiple of `width`; `weight_at` is the place in `weight` of the first of the
    columns, in the matrix's first row.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        left, right, result = (_data(context, builder, kinds[i], args[i]) for i in (0, 3, 6))
        _, at, depth, _, weight_at, width, _ = args
        vector = ir.VectorType(_FLOAT, OUTPUTS)
        undefined = ir.Constant(vector, ir.Undefined)
        to_all = ir.Constant(ir.VectorType(ir.IntType(32), OUTPUTS), None)
        # Local variables that nothing else refers to: LLVM keeps them in registers through the whole loop.
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(TILES)]
        kind_of_add = ir.FunctionType(vector, [vector] * 3)
        add = cgutils.get_or_insert_function(builder.module, kind_of_add, f"llvm.fmuladd.v{OUTPUTS}f32")
        unrolled = ir.Constant(_INDEX, UNROLLED)
        with cgutils.for_range(builder, builder.sdiv(depth, unrolled)) as loop:
            # Unrolled, so that the loop's own instructions take little of the time.
            for turn in range(UNROLLED):
                index = builder.add(builder.mul(loop.index, unrolled), ir.Constant(_INDEX, turn))
                row = builder.add(weight_at, builder.mul(index, width))
                column = builder.load(_place(builder, right, row, width, 0, OUTPUTS), align=_BYTES)
                for number, total in enumerate(sums):
                    place = _place(builder, left, builder.add(at, index), depth, number, 1)
                    first = builder.insert_element(undefined, builder.load(place), ir.IntType(32)(0))
                    one = builder.shuffle_vector(first, undefined, to_all)  # the same number in every lane
                    builder.store(builder.call(add, [one, column, builder.load(total)]), total)
        # The result begins at the same row as `at`, and at the same column as the weights.
        column_at = builder.add(at, builder.srem(weight_at, width))
        for number, total in enumerate(sums):
            place = _place(builder, result, column_at, width, number, OUTPUTS)
            builder.store(builder.load(total), place, align=_BYTES)
        return context.get_dummy_value()

    index = types.int64
    return types.void(rows, index, index, weight, index, index, out), codegen


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the address of an array's first number."""
    return context.make_array(kind)(context, builder, array).data


def _place(builder: Any, data: Any, at: Any, step: Any, number: int, lanes: int) -> Any:
    """Return the address of `lanes` numbers that begin `number` steps after `at`."""
    index = builder.add(at, builder.mul(step, ir.Constant(_INDEX, number)))
    place = builder.gep(data, [index])
    return place if lanes == 1 else builder.bitcast(place, ir.VectorType(_FLOAT, lanes).as_pointer())


_spread_3, _spread_4 = combination(INPUTS[3]), combination(INPUTS[4])
_collect_3, _collect_4 = combination(RESULTS[3]), combination(RESULTS[4])


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
