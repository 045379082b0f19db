"""Operations on several channels at once for jitted code, as vector instructions.

Numba's compiler finds such instructions by itself only in simple loops. Arrays are flat
float32; `at`, `to` and steps count numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Channels at once in `combination`: one register of AVX2."""
TILES, OUTPUTS = 6, 16
"""Rows and columns of a product that `multiply_block` keeps in registers: twelve of AVX2's sixteen."""
UNROLLED = 4
"""Steps of a product's sum at a time; it has a multiple of so many."""

_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_BYTES = 4
"""Numbers may lie at any multiple of this."""


def combination(matrix: Sequence[Sequence[float]]) -> Callable[..., None]:
    """Return `combine(source, at, step, out, to, out_step)` for jitted code.

    For LANES channels, row i of `matrix` times the numbers at `at`, `at + step`, ... in `source` goes to
    `to + i * out_step` in `out`. All is read before anything is written.
    """

    @intrinsic
    def combine(_context: Any, source: Any, at: Any, step: Any, out: Any, to: Any, out_step: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            read = _data(context, builder, kinds[0], args[0])
            written = _data(context, builder, kinds[3], args[3])
            numbers = [
                builder.load(_place(builder, read, args[1], args[2], number, LANES), align=_BYTES)
                for number in range(len(matrix[0]))
            ]
            results = [_sum(builder, row, numbers) for row in matrix]
            for number, result in enumerate(results):
                place = _place(builder, written, args[4], args[5], number, LANES)
                builder.store(result, place, align=_BYTES)
            return context.get_dummy_value()

        index = types.int64
        return types.void(source, index, index, out, index, index), codegen

    return combine


@intrinsic
def finish(
    _context: Any, results: Any, at: Any, bias: Any, channel: Any, rule: Any, out: Any, to: Any
) -> Any:
    """Write LANES `results` from `at` on plus `bias` from `channel` on to `out` from `to` on.

    rule: whether to add what `out` holds, and whether negative sums become 0.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        zero = ir.Constant(_INDEX, 0)
        result, shift, written = (
            _place(builder, _data(context, builder, kinds[i], args[i]), args[i + 1], zero, 0, LANES)
            for i in (0, 2, 5)
        )
        total = builder.fadd(builder.load(result, align=_BYTES), builder.load(shift, align=_BYTES))
        added = builder.fadd(total, builder.load(written, align=_BYTES))
        add, rectify = (builder.extract_value(args[4], number) for number in range(2))
        total = builder.select(add, added, total)
        nothing = ir.Constant(total.type, None)
        # What is no number stays so.
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

    The rows begin at `at`, in `out` too, which has the same width as the matrix. `weight_at` is the first
    number of the columns in the first row of the matrix, in `weight`, which begins at a multiple of `width`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        left, right, result = (_data(context, builder, kinds[i], args[i]) for i in (0, 3, 6))
        _, at, depth, _, weight_at, width, _ = args
        vector = ir.VectorType(_FLOAT, OUTPUTS)
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(TILES)]
        kind_of_add = ir.FunctionType(vector, [vector] * 3)
        add = cgutils.get_or_insert_function(builder.module, kind_of_add, f"llvm.fmuladd.v{OUTPUTS}f32")
        unrolled = ir.Constant(_INDEX, UNROLLED)
        with cgutils.for_range(builder, builder.sdiv(depth, unrolled)) as loop:
            for turn in range(UNROLLED):
                index = builder.add(builder.mul(loop.index, unrolled), ir.Constant(_INDEX, turn))
                row = builder.add(weight_at, builder.mul(index, width))
                column = builder.load(_place(builder, right, row, width, 0, OUTPUTS), align=_BYTES)
                for number, total in enumerate(sums):
                    place = _place(builder, left, builder.add(at, index), depth, number, 1)
                    one = _filled(builder, builder.load(place), OUTPUTS)
                    builder.store(builder.call(add, [one, column, builder.load(total)]), total)
        column_at = builder.add(at, builder.srem(weight_at, width))
        for number, total in enumerate(sums):
            place = _place(builder, result, column_at, width, number, OUTPUTS)
            builder.store(builder.load(total), place, align=_BYTES)
        return context.get_dummy_value()

    index = types.int64
    return types.void(rows, index, index, weight, index, index, out), codegen


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of an array's first number."""
    return context.make_array(kind)(context, builder, array).data


def _place(builder: Any, data: Any, at: Any, step: Any, number: int, lanes: int) -> Any:
    """The address of `lanes` numbers, `number` steps from `at` on."""
    index = builder.add(at, builder.mul(step, ir.Constant(_INDEX, number)))
    place = builder.gep(data, [index])
    return place if lanes == 1 else builder.bitcast(place, ir.VectorType(_FLOAT, lanes).as_pointer())


def _filled(builder: Any, number: Any, lanes: int) -> Any:
    """A vector of equal numbers."""
    vector = ir.VectorType(_FLOAT, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    nowhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), nowhere)


def _sum(builder: Any, row: Sequence[float], numbers: Sequence[Any]) -> Any:
    """The numbers times a row's factors, added up."""
    total = None
    for factor, number in zip(row, numbers, strict=True):
        if factor == 0:
            continue
        term = number
        if abs(factor) != 1:
            constant = ir.Constant(number.type, [abs(factor)] * number.type.count)
            term = builder.fmul(number, constant)
        if total is None:
            total = term if factor > 0 else builder.fneg(term)
        else:
            total = builder.fadd(total, term) if factor > 0 else builder.fsub(total, term)
    return total
