"""azserver, azclient and trainer in a network namespace each, with keys; the links between them are cut."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ledgered import LedgeredParts
from scraped import Metrics
from separate_networks import Networks

NAMESPACES = ("server", "trainer", "client")


class Apart(LedgeredParts):
    """The three parts, each behind a link of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.networks = Networks(NAMESPACES)
        self.host = self.networks.addresses["server"]

    def __enter__(self) -> Apart:
        self.networks.__enter__()
        super().__enter__()
        return self

    def stop(self) -> None:
        super().stop()
        self.networks.__exit__()

    def metrics(self, name: str) -> Metrics:
        return self.networks.scrape(name.removesuffix(".main"), self.metrics_ports[name])

    def _command(self, name: str, command: list[str]) -> list[str]:
        return self.networks.inside(name.removesuffix(".main"), command)

    def _server_flags(self) -> list[str]:
        return [*super()._server_flags(), "--listen", self.host]


CUTS: dict[str, Callable[[Networks], None]] = {
    "half open: nothing from azserver reaches azclient": lambda it: it.half_cut("server", "client"),
    "half open: nothing from azclient reaches azserver": lambda it: it.half_cut("client", "server"),
    "half open: nothing from azserver reaches the trainer": lambda it: it.half_cut("server", "trainer"),
    "azclient's link down": lambda it: it.cut("client"),
    "the trainer's link down": lambda it: it.cut("trainer"),
    "azserver's link down": lambda it: it.cut("server"),
}
"""The cuts that `measure` makes, one after the other."""


def measure(folder: Path, seconds: float, say: Callable[[str], None]) -> str:
    """Make every cut for so many seconds and return the figure of the row. Raises AssertionError if a promise
    was broken."""
    found = []
    with Apart(folder) as apart:
        for name, cut in CUTS.items():
            cut(apart.networks)
            time.sleep(seconds)
            apart.networks.mend()
            first, whole = apart.advance(f"after {name}")
            found.append(
                f"{name}: first game stored {first:.0f} s after it, new weights played with {whole:.0f} s"
            )
            say(found[-1])
        finished, acknowledged = apart.check()
    games = f"of {finished} games {acknowledged} were acknowledged, and these are in the store once"
    return f"cuts of {seconds:.0f} s each, with keys. {'; '.join(found)}; {games}"
