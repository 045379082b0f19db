"""Every decoder of foreign bytes, with the exceptions it may raise, and a loop that tests it.

A decoder accepts any bytes: it returns a value or raises one of its own exceptions, in bounded time, and
allocates memory in proportion to its input.
"""

import json
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from changed_settings import self_play
from fuzz_curve import handshakes, read_handshake
from message_examples import EXAMPLES
from mutator import Mutator, changed
from raw_zmtp import GREETING, command, frame, hello, ready
from record_strategies import example_record
from ring_parts import GAME, WORDS, random_leaves

from bench.random_games import random_game
from net.create import create
from net.weights import BadWeights, from_bytes, read_meta
from protocol import messages, records
from protocol.errors import Code
from protocol.frames import check_evaluations, check_leaves
from protocol.zmtp import Broken, Incoming, Limits
from trainer.ingest import IngestTable
from trainer.verify import Rejection, Verifier

MEMORY_EVERY = 64
"""Memory is measured in one of this many executions, because that takes ten times as long."""
MEMORY_FACTOR, MEMORY_MORE = 24, 512 * 1024
"""Bytes that decoding may allocate: this many per byte of input, plus a constant."""
LONGEST = 2.0
"""Seconds of processor time that one execution may take; usually it takes microseconds."""


@dataclass
class Target:
    """A decoder: `make(rng)` returns a source of inputs, and `run(input)` decodes one. It may raise only
    exceptions in `allowed`."""

    name: str
    run: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    make: Callable[[random.Random], Callable[[], bytes]]
    factor: int = MEMORY_FACTOR


@dataclass
class Report:
    """The result of testing one decoder."""

    executions: int = 0
    refused: int = 0
    """Inputs for which the decoder raised one of its own exceptions."""
    failures: list[str] = field(default_factory=list)


def fuzz(target: Target, executions: int, seed: int, most_failures: int = 10) -> Report:
    """Run a decoder `executions` times, or until `most_failures` failures, each of which names its input."""
    report = Report()
    make = target.make(random.Random(f"{target.name} {seed}"))
    for number in range(executions):
        data = make()
        looks_at_memory = number % MEMORY_EVERY == 0
        if looks_at_memory:
            tracemalloc.start()
        before = time.process_time()
        try:
            target.run(data)
        except target.allowed:
            report.refused += 1
        except Exception as error:
            report.failures.append(f"{error!r} of {data[:2000].hex()}")
        took = time.process_time() - before
        if looks_at_memory:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > target.factor * len(data) + MEMORY_MORE:
                report.failures.append(f"{peak} bytes of memory for {len(data)}: {data[:2000].hex()}")
        if took > LONGEST:
            report.failures.append(f"{took:.1f} s for {data[:2000].hex()}")
        report.executions += 1
        if len(report.failures) >= most_failures:
            break
    return report


# ---- inputs --------------------------------------------------------------------------------------


def _packed(examples: Sequence[bytes]) -> Callable[[random.Random], Callable[[], bytes]]:
    return lambda rng: Mutator(rng, examples, packed=True).mutant


def _plain(examples: Sequence[bytes]) -> Callable[[random.Random], Callable[[], bytes]]:
    return lambda rng: Mutator(rng, examples).mutant


@cache
def _headers() -> list[bytes]:
    return [messages.encode(message) for message in EXAMPLES]


@cache
def _records() -> list[bytes]:
    rng = np.random.default_rng(5)
    games = [random_game(GAME, rng, simulations=20) for _ in range(20)]
    examples = [example_record(), *games]
    return [records.to_bytes(record) for record in examples]


def _make_games(rng: random.Random) -> Callable[[], bytes]:
    _check_game(_records()[1])  # compiles the rules, if need be for longer than an input may take
    return Mutator(rng, _records(), packed=True).mutant


@cache
def _streams() -> list[bytes]:
    """Return what peers send, from the first byte on."""
    said = [msgspec.msgpack.encode(hello(4)), *_headers()[:6]]
    one = b"".join(frame(part) for part in said)
    several = frame(said[0], 1) + frame(b"x" * 300, 1) + frame(b"") + command("PING", b"\0\0ctx")
    begin = GREETING + ready()
    return [begin, begin + one, begin + several + one, begin + command("SUBSCRIBE", b"t"), one, GREETING]


@cache
def _leaf_frames() -> list[bytes]:
    """Return for each EVALUATE the number of rows and the three frames, each after its length in four
    bytes."""
    found = []
    for rows in (1, 2, 5, 40):
        parts = [part.tobytes() for part in random_leaves(np.random.default_rng(rows), rows)]
        found.append(bytes([rows]) + b"".join(len(part).to_bytes(4, "big") + part for part in parts))
    return found


@cache
def _weights() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights"
        create(GAME.name, 1, "tiny", 0, path)
        return path.read_bytes()


def _make_weights(rng: random.Random) -> Callable[[], bytes]:
    """Make weights files that end after their header, changed byte by byte or value by value."""
    data = _weights()
    length = int.from_bytes(data[:8], "little")
    _load_weights(data[: 8 + length])  # torch imports a lot when it builds its first network
    header = json.loads(data[8 : 8 + length])
    bytewise = Mutator(rng, [data[: 8 + length]])

    def make() -> bytes:
        if rng.random() < 0.3:
            return bytewise.mutant()
        text = _json(_changed_header(rng, header))
        return len(text).to_bytes(8, "little") + text

    return make


def _changed_header(rng: random.Random, header: dict[str, Any]) -> Any:
    """Change mostly the metadata, and the description of the architecture, which is JSON in JSON."""
    about = header["__metadata__"]
    if rng.random() < 0.1:
        return changed(rng, header)
    if rng.random() < 0.5:
        inner = changed(rng, json.loads(about["architecture"]))
        return {**header, "__metadata__": {**about, "architecture": _json(inner).decode()}}
    return {**header, "__metadata__": changed(rng, about)}


def _json(value: Any) -> bytes:
    return json.dumps(value, default=lambda other: other.hex()).encode()


# ---- decoders ------------------------------------------------------------------------------------


def _read_stream(data: bytes) -> None:
    """Feed the input in pieces sized by its last byte; half of the peers have a session from READY on."""
    limits = Limits(frame=4096, message=8192, frames=8)
    incoming = Incoming(limits)
    at, step = 0, 1 + data[-1] if data else 1
    while at < len(data):
        for parts in incoming.feed(data[at : at + step]):
            assert parts
            assert sum(map(len, parts)) <= limits.message
        incoming.joined = incoming.ready and len(data) % 2 == 0
        assert incoming.held <= limits.message
        at += step


def _read_leaves(data: bytes) -> None:
    rows, rest, frames = (data[0] if data else 0), data[1:], []
    for _ in range(3):
        size = int.from_bytes(rest[:4], "big")
        frames.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    check_leaves(rows, WORDS, GAME.actions, frames, max_legal=GAME.max_legal, scalars=GAME.scalar_planes)


def _read_evaluations(data: bytes) -> None:
    rows = data[0] if data else 0
    total = int.from_bytes(data[1:3], "big")
    cut = 3 + 2 * total
    check_evaluations(rows, total, [data[3:cut], data[cut:]])


def _check_game(data: bytes) -> None:
    """Check a record under the rules, as in the trainer: whatever it contains, the check returns a
    verdict."""
    record = records.from_bytes(data)
    verdict = _verifier().check(record, 1)
    assert verdict is None or (isinstance(verdict, Rejection) and verdict.code != Code.INTERNAL)


@cache
def _verifier() -> Verifier:
    return Verifier(GAME, self_play(simulations=20))


def _make_evaluations(rng: random.Random) -> Callable[[], bytes]:
    examples = [
        bytes([rows]) + (3 * rows).to_bytes(2, "big") + bytes(6 * rows) + bytes(12 * rows)
        for rows in (1, 2, 9)
    ]
    return Mutator(rng, examples).mutant


def _load_weights(data: bytes) -> None:
    """Load the header with the tensors of a complete file."""
    whole = _weights()
    from_bytes(data + whole[8 + int.from_bytes(whole[:8], "little") :], game=GAME, history=1)


TARGETS: tuple[Target, ...] = (
    Target("messages", messages.decode, (messages.BadMessage,), _packed(_headers())),
    Target("hello", messages.decode_hello, (messages.BadMessage,), _packed(_headers()[:1])),
    Target("outline", messages.outline, (), _packed(_headers())),
    Target("tag", messages.tag_of, (), _packed(_headers())),
    Target("unreadable games", lambda data: IngestTable.on_unreadable(data, "why"), (), _packed(_headers())),
    Target("records", records.from_bytes, (records.BadRecord,), _packed(_records())),
    Target("games", _check_game, (records.BadRecord,), _make_games),
    Target("zmtp", _read_stream, (Broken,), _plain(_streams())),
    Target("curve handshake", read_handshake, (Broken,), _plain(handshakes())),
    Target("leaves", _read_leaves, (messages.BadMessage,), _plain(_leaf_frames())),
    Target("evaluations", _read_evaluations, (messages.BadMessage,), _make_evaluations),
    Target("weights", read_meta, (BadWeights,), _make_weights, factor=64),
    Target("network", _load_weights, (BadWeights,), _make_weights, factor=64),
)
