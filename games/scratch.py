"""Working memory of jitted code on the stack: nothing is allocated, and it disappears with the function."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

WORD_BYTES = 8


@intrinsic(prefer_literal=True)
def scratch_words(_typingctx: Any, count: Any) -> Any:
    """uint64[count], where `count` is a constant of the module. Its initial content is arbitrary. Do not
    return it."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    kind, length = types.Array(types.uint64, 1, "C"), count.literal_value

    def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        memory = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), length))
        array = make_array(kind)(context, builder)
        stride = context.get_constant(types.intp, WORD_BYTES)
        populate_array(
            array,
            data=builder.bitcast(memory, ir.IntType(64).as_pointer()),
            shape=[context.get_constant(types.intp, length)],
            strides=[stride],
            itemsize=stride,
            meminfo=None,
        )
        return array._getvalue()

    return kind(count), codegen
