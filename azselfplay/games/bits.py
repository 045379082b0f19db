"""Low-level helpers for jitted code: bit operations as single instructions, and working memory on the stack.

Mixing int64 and uint64 silently gives float64 in Numba: keep bitboards uint64 throughout. A `scratch_...`
array costs nothing: it lives on the stack and disappears with the function. Its content is undefined at
first, a function must not return it, and `count` must be a constant of the module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from azselfplay.games.jit import kernel

# These have names because a plain 0 or 1 is an int64, and Numba would convert both operands to float64.
ZERO = np.uint64(0)
ONE = np.uint64(1)


def _of_a_word(emit: Any) -> Any:
    """Return a function from uint64 to uint64 that compiles to the one instruction that `emit(builder, word)`
    emits."""

    @intrinsic
    def instruction(_typingctx: Any, bits: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return emit(builder, args[0])

        return types.uint64(types.uint64), codegen

    return instruction


# The result for 0 is undefined; a defined one would cost some processors a second instruction.
_UNDEFINED = ir.Constant(ir.IntType(1), 1)
count_trailing_zeros = _of_a_word(lambda builder, bits: builder.cttz(bits, _UNDEFINED))
"""Index of the lowest set bit; `bits` must not be 0."""
count_leading_zeros = _of_a_word(lambda builder, bits: builder.ctlz(bits, _UNDEFINED))
"""63 minus the index of the highest set bit; `bits` must not be 0."""
count_ones = _of_a_word(lambda builder, bits: builder.ctpop(bits))
"""Number of set bits."""
reverse_bytes = _of_a_word(lambda builder, bits: builder.bswap(bits))
"""The bytes in the opposite order: an 8x8 board turned upside down (cell ^ 56)."""
reverse_bits = _of_a_word(lambda builder, bits: builder.bitreverse(bits))
"""The 64 bits in the opposite order: bit i becomes bit 63 - i."""


@intrinsic
def float_as_word(_typingctx: Any, number: Any) -> Any:
    """Return the bits of a float32 in the low half of a word: the packed form of a scalar plane."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(32)), ir.IntType(64))

    return types.uint64(types.float32), codegen


# ---- Bits in several words -------------------------------------------------------------------------
# These are kernels, not intrinsics: `games.jit.bind` compiles them together with the rules that call them.


@kernel
def has(words: Any, first_word: int, bit: int) -> bool:
    """Return whether a bit is set; bit 0 is the lowest bit of word `first_word`."""
    return (words[first_word + (bit >> 6)] >> np.uint64(bit & 63)) & ONE != ZERO


@kernel
def put(words: Any, first_word: int, bit: int) -> None:
    """Set a bit."""
    words[first_word + (bit >> 6)] |= ONE << np.uint64(bit & 63)


@kernel
def clear(words: Any, first_word: int, bit: int) -> None:
    """Clear a bit."""
    words[first_word + (bit >> 6)] &= ~(ONE << np.uint64(bit & 63))


# ---- Working memory ------------------------------------------------------------------------------


def _on_the_stack(element: Any, plain: Any, item_bytes: int) -> Any:
    """Return an intrinsic that returns an array `element[count]`; `plain` is the LLVM type of an element."""
    kind = types.Array(element, 1, "C")

    @intrinsic(prefer_literal=True)
    def scratch(_typingctx: Any, count: Any) -> Any:
        # The size of a stack array must be known when it is compiled.
        if not isinstance(count, types.IntegerLiteral):
            return None
        length = count.literal_value

        def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            # Reserve it at the function's entry: inside a loop the stack would grow with each iteration.
            memory = cgutils.alloca_once(builder, ir.ArrayType(plain, length))
            array = make_array(kind)(context, builder)
            stride = context.get_constant(types.intp, item_bytes)
            populate_array(
                array,
                data=builder.bitcast(memory, plain.as_pointer()),
                shape=[context.get_constant(types.intp, length)],
                strides=[stride],
                itemsize=stride,
                # No reference counting: the memory disappears with the function.
                meminfo=None,
            )
            return array._getvalue()

        return kind(count), codegen

    return scratch


scratch_words = _on_the_stack(types.uint64, ir.IntType(64), 8)
"""uint64[count]"""
scratch_int32 = _on_the_stack(types.int32, ir.IntType(32), 4)
"""int32[count]"""
scratch_float32 = _on_the_stack(types.float32, ir.FloatType(), 4)
"""float32[count]"""
