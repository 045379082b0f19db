"""Reading and writing the numbers of a network in jitted code: float32, or bfloat16 as its 16 bits."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor


def as_numpy(numbers: Tensor) -> npt.NDArray[Any]:
    """The same memory as an array: float32, or bfloat16 as uint16."""
    return numbers.view(torch.uint16).numpy() if numbers.dtype == torch.bfloat16 else numbers.numpy()


@intrinsic
def load_bf16(_typingctx: Any, _bits: Any) -> Any:
    """The float32 of a bfloat16 given as uint16: the same bits, followed by 16 zeros."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = builder.shl(builder.zext(args[0], ir.IntType(32)), ir.Constant(ir.IntType(32), 16))
        return builder.bitcast(wide, ir.FloatType())

    return types.float32(types.uint16), codegen


@intrinsic
def store_bf16(_typingctx: Any, _number: Any) -> Any:
    """The uint16 of the bfloat16 nearest to a finite float32, ties to even."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.bitcast(args[0], word)
        odd = builder.and_(builder.lshr(bits, ir.Constant(word, 16)), ir.Constant(word, 1))
        rounded = builder.add(builder.add(bits, ir.Constant(word, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, ir.Constant(word, 16)), ir.IntType(16))

    return types.uint16(types.float32), codegen


@intrinsic
def same_f32(_typingctx: Any, _number: Any) -> Any:
    """A float32, unchanged: `load` and `store` of a float32 network."""

    def codegen(_context: Any, _builder: Any, _signature: Any, args: Any) -> Any:
        return args[0]

    return types.float32(types.float32), codegen


def load(number: Any) -> Any:  # noqa: ARG001
    """Convert an activation to float32, in kernels; bound to `load_bf16` or `same_f32`."""
    raise _unbound()


def store(number: Any) -> Any:  # noqa: ARG001
    """Convert a float32 to an activation, in kernels; bound to `store_bf16` or `same_f32`."""
    raise _unbound()


def _unbound() -> RuntimeError:
    return RuntimeError("this is bound to a format of numbers by games.jit.bind")
