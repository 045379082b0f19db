"""Working memory of jitted code on the stack: nothing is allocated, and it disappears with the function.

The content is arbitrary at first. Do not return such an array. `count` must be a constant of the module.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array


def _on_the_stack(element: Any, plain: Any, item_bytes: int) -> Any:
    """An intrinsic that returns `element[count]`; `plain` is the LLVM type of one of them."""
    kind = types.Array(element, 1, "C")

    @intrinsic(prefer_literal=True)
    def scratch(_typingctx: Any, count: Any) -> Any:
        if not isinstance(count, types.IntegerLiteral):
            return None
        length = count.literal_value

        def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            memory = cgutils.alloca_once(builder, ir.ArrayType(plain, length))
            array = make_array(kind)(context, builder)
            stride = context.get_constant(types.intp, item_bytes)
            populate_array(
                array,
                data=builder.bitcast(memory, plain.as_pointer()),
                shape=[context.get_constant(types.intp, length)],
                strides=[stride],
                itemsize=stride,
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
