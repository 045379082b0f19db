"""An earlier version and this one together: azserver, azclient and trainer of that time are replaced one by
one, under load. No game is lost or counted twice, and all go on after each."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from keyed_parts import NAMES
from ledgered import LedgeredParts
from target import ROOT
from unavailable import Unavailable

EARLIER = "1524fee"
"""The first commit with keys, for want of a release before this one."""
ORDERS = (("server", "trainer", "client.main"), ("client.main", "trainer", "server"))
"""In which the parts are replaced: old players with a new server, and new players with an old one."""
PARTS = {"server": "azserver", "trainer": "the trainer", "client.main": "azclient"}


def checked_out(revision: str, folder: Path) -> Path:
    """The files of that version, in `folder`."""
    folder.mkdir()
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise Unavailable(f"no version {revision} in this repository: {packed.stderr.decode()[:200]}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder


class Mixed(LedgeredParts):
    """Parts of which some are those of `earlier`: all, at the beginning."""

    def __init__(self, folder: Path, earlier: Path) -> None:
        super().__init__(folder)
        self._earlier = earlier
        self._old = set(NAMES)

    def upgrade(self, name: str) -> None:
        """An orderly end, then the version of today."""
        assert self.end(name) == 0, f"{PARTS[name]} of the earlier version did not end in order"
        self._old.discard(name)
        self.begin(name)

    def _command(self, name: str, command: list[str]) -> list[str]:
        where = ["env", "-C", str(self._earlier)] if name in self._old else []
        return [*where, *super()._command(name, command)]


def replaced(folder: Path, earlier: Path, order: Sequence[str], say: Callable[[str], None]) -> str:
    """A run that begins with the earlier version. AssertionError when a promise was broken."""
    folder.mkdir()
    found = []
    with Mixed(folder, earlier) as parts:
        for name in order:
            parts.upgrade(name)
            first, _ = parts.advance(f"after {PARTS[name]} was replaced")
            found.append(f"{PARTS[name]}: next game stored {first:.0f} s later")
            say(found[-1])
        finished, acknowledged = parts.check()
    return f"{', then '.join(found)}; of {finished} games {acknowledged} were acknowledged"


def measure(folder: Path, revision: str, say: Callable[[str], None]) -> str:
    """The figure of the row."""
    earlier = checked_out(revision, folder / "earlier")
    runs = [
        replaced(folder / f"run-{number}", earlier, order, say)
        for number, order in enumerate(ORDERS, start=1)
    ]
    both = ". The other way round: ".join(runs)
    return f"from {revision} to this version, part by part. {both}, and these are in the store once"
