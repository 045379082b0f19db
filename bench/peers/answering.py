"""The measured side's end: it describes itself, then plays for as long as each line of its input requests.

Needs nothing but Python, because it also runs in the peers' environment. Answers are lines of JSON. The
output of the libraries that a side uses goes to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any


@dataclass(frozen=True)
class Counts:
    """What was done in a turn."""

    seconds: float
    """Seconds that the turn really took."""
    simulations: float | None
    """None: only the evaluations are known."""
    evaluations: float
    """Positions that the network answered."""


@dataclass(frozen=True)
class Options:
    """See the flags in `options`."""

    game: str
    net: str
    simulations: int
    batch: int
    variant: str
    cache: str

    @property
    def tower(self) -> tuple[int, int]:
        """Blocks and channels."""
        blocks, channels = map(int, self.net.split("x"))
        return blocks, channels


def options(argv: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser()
    parser.add_argument("--game", choices=("connect_four", "chess"), required=True)
    parser.add_argument("--net", default="", help="BLOCKSxCHANNELS; empty: one that costs nothing")
    parser.add_argument("--simulations", type=int, default=32, help="of a move")
    parser.add_argument("--batch", type=int, default=0, help="games side by side; 0: the side's own choice")
    parser.add_argument("--variant", default="", help="a way to run that the side offers")
    parser.add_argument("--cache", default="", help="folder for compiled code")
    return Options(**vars(parser.parse_args(argv)))


def versions(*packages: str) -> dict[str, str]:
    return {package: metadata.version(package) for package in packages}


def answer(about: Mapping[str, Any], measure: Callable[[float], Counts]) -> None:
    """Print `about`, then answer each line (seconds of a turn) with the Counts of `measure(seconds)`."""
    said = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    print(json.dumps(about), file=said, flush=True)
    for line in sys.stdin:
        print(json.dumps(asdict(measure(float(line)))), file=said, flush=True)


def play_for(loop: asyncio.AbstractEventLoop, playing: Sequence[asyncio.Task[None]], seconds: float) -> None:
    """Run `loop` for a turn. If a game ends, which it should not, raise its error."""
    waiting = asyncio.wait(playing, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    done, _ = loop.run_until_complete(waiting)
    for task in done:
        task.result()


def give_up(loop: asyncio.AbstractEventLoop, playing: Sequence[asyncio.Task[None]]) -> None:
    """Abandon the games."""
    for task in playing:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*playing, return_exceptions=True))
    loop.close()
