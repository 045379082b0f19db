"""`azclient`: keeps worker processes running against an azserver on another machine.

Imports neither torch nor Numba nor ZeroMQ, so that `--help` is quick and the supervisor stays small. A
first child joins the server, compiles its game once into the cache and leaves; then the workers start.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from client.config import ClientConfig
from client.plan import Plan, make_plan
from runtime import aio, config, logs
from runtime.exits import Exit, Fatal, guarded
from runtime.ports import Address, parse_address
from runtime.processes import Children, describe_exit, to_stderr

EXAMPLES = (
    "azclient --server gpu-box                          # this machine's GPUs if any, else the server's",
    "azclient --server gpu-box:5700 --device remote --workers 8   # search here, evaluate there",
    "azclient --server 10.0.0.7 --device cuda:1 --games 2048      # one GPU, more games in flight",
)
GRACE = 8.0
"""Seconds that workers get for a clean end; they need about three."""

log = logging.getLogger("azclient")


class Supervisor:
    """The life of azclient: prepare once, then keep the workers running until a signal."""

    def __init__(self, plan: Plan, stop: aio.Stop) -> None:
        self._plan = plan
        self._stop = stop
        self._children = Children(grace=GRACE)
        self._last_words = LastWords(to_stderr)
        self._failed: Fatal | None = None

    async def run(self) -> None:
        """Until a signal. Raises Fatal with the preparing child's words and status if it fails."""
        self._stop.waits_for = "the workers, which give up unfinished games"
        self._children.add(
            "prepare", self._plan.prepare, restart=False, on_exit=self._on_prepared, sink=self._last_words
        )
        await self._children.run(self._stop)
        if self._failed is not None:
            raise self._failed

    def _on_prepared(self, code: int) -> None:
        if self._stop.finishing.is_set():
            return
        if code != Exit.OK:
            words = self._last_words.error or f"preparing failed ({describe_exit(code)}), see above"
            self._failed = Fatal(words, Exit(code) if code in set(Exit) else Exit.INTERNAL)
            self._stop.request()
            return
        log.info("starting %d workers, evaluated by %s", len(self._plan.workers), self._plan.device_text)
        for index, argv in enumerate(self._plan.workers):
            self._children.add(f"client-{index}", argv)


class LastWords:
    """Passes a child's output on, line by line, but keeps its `command: error: ...` line to itself."""

    MARK = b": error: "

    def __init__(self, sink: Callable[[bytes], None]) -> None:
        self.error = ""
        self._sink = sink
        self._rest = b""

    def __call__(self, output: bytes) -> None:
        *lines, self._rest = (self._rest + output).split(b"\n")
        for line in lines:
            _, mark, words = line.partition(self.MARK)
            if mark:
                self.error = words.decode(errors="replace")
            else:
                self._sink(line + b"\n")


def default_spool(address: Address) -> Path:
    """Where finished games wait unless --spool says otherwise (XDG_DATA_HOME is honoured)."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "azselfplay" / "spool" / address.folder_name


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `azclient`; returns the exit status."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    settings = config.load(
        ClientConfig,
        argv,
        command="azclient",
        examples=EXAMPLES,
        description="Plays AlphaZero self-play games for an azserver and sends it the finished ones.",
    )
    address = parse_address(settings.server)
    plan = make_plan(settings, address, settings.spool or default_spool(address))
    logs.set_up("azclient")
    aio.run(lambda stop: Supervisor(plan, stop).run())
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(main())
