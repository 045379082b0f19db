"""Decoders with a planted fault each, which the fuzzer must find."""

from __future__ import annotations

import time

import msgspec
from fuzz import LONGEST, TARGETS, Target

_messages = next(target for target in TARGETS if target.name == "messages")


def _raises(data: bytes) -> object:
    """Lets an exception of its library escape."""
    return msgspec.msgpack.decode(data)


def _believes_lengths(data: bytes) -> object:
    """Allocates as many bytes as the input claims to have."""
    return bytearray(int.from_bytes(data[-3:], "big"))


def _goes_through_all(data: bytes) -> object:
    """Takes seconds if the input contains a certain byte."""
    begun = time.process_time()
    while 0xDD in data and time.process_time() < begun + 1.1 * LONGEST:
        pass
    return None


BAD = {
    work.__name__: Target(work.__name__, work, _messages.allowed, _messages.make)
    for work in (_raises, _believes_lengths, _goes_through_all)
}
