"""Bit operations as single machine instructions, for jitted code on uint64.

Mixing int64 and uint64 silently gives float64 in Numba: keep bitboards uint64 throughout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def count_trailing_zeros(_typingctx: Any, bits: Any) -> Any:
    """Index of the lowest set bit; `bits` must not be 0."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def count_leading_zeros(_typingctx: Any, bits: Any) -> Any:
    """63 minus the index of the highest set bit; `bits` must not be 0."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def count_ones(_typingctx: Any, bits: Any) -> Any:
    """Number of set bits."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def reverse_bytes(_typingctx: Any, bits: Any) -> Any:
    """The bytes in the opposite order: an 8x8 board turned upside down (cell ^ 56)."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def reverse_bits(_typingctx: Any, bits: Any) -> Any:
    """The 64 bits in the opposite order: bit i becomes bit 63 - i."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitreverse(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def float_as_word(_typingctx: Any, number: Any) -> Any:
    """The bits of a float32 in the low half of a word: the packed form of a scalar plane."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(32)), ir.IntType(64))

    return types.uint64(types.float32), codegen


ZERO = np.uint64(0)
ONE = np.uint64(1)
