"""Runs the analysis service inside this process over pipes, as the command does."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from typing import Any

from azselfplay.host.aio import Stop
from azselfplay.play.analysis import Analyst, Service
from azselfplay.play.nets import load_net


def analysed(game: str, lines: Sequence[bytes | dict[str, Any]], *, in_flight: int = 64) -> list[Any]:
    """Return the answers of an untrained network, in the order in which they came."""
    data = b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in lines)
    return [json.loads(line) for line in answered(game, data, in_flight).splitlines()]


def answered(game: str, data: bytes, in_flight: int) -> bytes:
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    found: list[bytes] = []
    feeder = threading.Thread(target=_feed, args=(write_in, data))
    drain = threading.Thread(target=_drain, args=(read_out, found))
    feeder.start()
    drain.start()
    try:
        _serve(game, read_in, write_out, in_flight)
    finally:
        os.close(write_out)
        feeder.join()
        drain.join()
        os.close(read_in)
    return b"".join(found)


def _serve(game: str, source: int, sink: int, in_flight: int) -> None:
    net = load_net(None, game, threads=1)
    service = Service(Analyst(net.game, net.evaluator, net.history), in_flight=in_flight, simulations=8)
    try:
        asyncio.run(asyncio.wait_for(service.run(source, sink, Stop()), 240))
    finally:
        net.close()


def _feed(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _drain(descriptor: int, found: list[bytes]) -> None:
    with os.fdopen(descriptor, "rb") as file:
        found.append(file.read())
