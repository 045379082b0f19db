"""Almost valid bytes, as input of a fuzzer for decoders. All come from one random generator."""

import random
import struct
from collections.abc import Sequence
from typing import Any

import msgspec

EVIL_BYTES = (
    b"\xdd\xff\xff\xff\xff",  # an array with 4 billion elements
    b"\xdf\xff\xff\xff\xff",  # a map with as many
    b"\xc6\xff\xff\xff\xff",  # bytes
    b"\xdb\xff\xff\xff\xff",  # text
    b"\x91" * 40,  # nested lists
    b"\x02\xff\xff\xff\xff\xff\xff\xff\xff",  # a ZMTP frame of 2^64 - 1 bytes
    b"\x00" * 16,
    b"\xff" * 16,
    b"\xc1",  # never used by MessagePack
    b"[" * 40,
    b"\xed\xa0\x80",  # half a surrogate pair
)
EVIL_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 255, 256, 65535, 65536, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, -0.0, 1e308,
    float("inf"), float("-inf"), float("nan"), 5e-324, "", "\0", "é" * 40, "x" * 5000,
    b"", b"\0" * 16, b"\0" * 32,
    [], {}, [[[]]], {"type": "hello"}, [None] * 100, {str(i): i for i in range(40)},
)  # fmt: skip


class Mutator:
    """`mutant()` returns one of the examples, usually changed in one to six places."""

    def __init__(self, rng: random.Random, examples: Sequence[bytes], *, packed: bool = False) -> None:
        """`packed`: the examples are MessagePack, and may be changed value by value as well."""
        self._rng = rng
        self._examples = list(examples)
        self._packed = packed

    def mutant(self) -> bytes:
        rng = self._rng
        data = bytearray(rng.choice(self._examples))
        if self._packed and rng.random() < 0.5:
            data = bytearray(self._with_other_values(bytes(data)))
        if rng.random() < 0.8:
            for _ in range(rng.randint(1, 6)):
                self._change(data)
        return bytes(data)

    def _change(self, data: bytearray) -> None:
        rng = self._rng
        at = rng.randint(0, len(data))
        match rng.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.randrange(256)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + rng.randint(1, 16)]
            case 4:
                data[at:at] = rng.choice(EVIL_BYTES)
            case 5:
                data[at : at + 8] = struct.pack(
                    rng.choice("<>") + "Q", rng.choice((0, 1, 255, 2**31, 2**63, 2**64 - 1))
                )
            case 6:
                data[at:at] = data[at : at + rng.randint(1, 64)]
            case 7:
                other = rng.choice(self._examples)
                data[at:] = other[rng.randint(0, len(other)) :]

    def _with_other_values(self, data: bytes) -> bytes:
        try:
            value = changed(self._rng, msgspec.msgpack.decode(data))
            return msgspec.msgpack.encode(value)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return data


def changed(rng: random.Random, value: Any) -> Any:
    """Return the value with one place changed: an evil value, nothing, or a copy of a neighbour."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        keys = list(value)
        key = rng.choice(keys)
        match rng.randrange(6):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return {**value, rng.choice(("", "type", "x" * 300, "rows")): rng.choice(EVIL_VALUES)}
            case 2:
                return {**value, key: value[rng.choice(keys)]}
            case _:
                return {**value, key: changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], changed(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, bytes) and value and rng.random() < 0.6:
        at = rng.randrange(len(value))
        return value[:at] + rng.randbytes(rng.choice((0, 1, 1, 1, 2, 4))) + value[at + 1 :]
    return rng.choice(EVIL_VALUES)
