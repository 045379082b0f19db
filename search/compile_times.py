"""Whether a game's rules and search are compiled on this machine, and how long compiling takes here.

`search.warm` leaves a note beside the compiled code. Like the code itself, the note holds only for exactly
these sources; the notes of older sources tell how long compiling will take next time.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from games.jit import CACHE, foreign_key
from games.spec import Game

USUAL_SECONDS = 20.0
"""Estimate of the time to compile on a machine without notes. On an idle machine it took 6 to 9 s
(docs/decisions/0002), on a busy one 30."""
LEAST_SECONDS = 4.0
"""A shorter time is that of loading code which was compiled before there were notes."""


@dataclass(frozen=True)
class Compiled:
    """The compiled code of one game with one selection (`search.selection`), and perhaps with a network that
    is part of the search."""

    game: Game
    selection: str
    cache: Path = CACHE
    """Folder of compiled code, with a subfolder for each state of the sources."""
    network: str = ""
    """Name of the network's code (`search.compiled.NetworkCode`); "": leaves are evaluated elsewhere."""

    @property
    def is_ready(self) -> bool:
        """Whether the code is compiled, so that it only needs to be loaded."""
        return self._note.exists()

    @property
    def expected_seconds(self) -> float:
        """Expected time to compile: that of the last time here, for older sources or another game."""
        same = self._times(f"*/compiled-{self._what}.*.json")
        return (same or self._times("*/compiled-*.json") or [USUAL_SECONDS])[-1]

    def took(self, seconds: float) -> None:
        """Note that the code is compiled. The first note stays, because later ones would measure loading."""
        with contextlib.suppress(OSError):
            if not self.is_ready:
                self._note.write_text(json.dumps({"seconds": round(seconds, 1), "at": time.time()}))

    def announcement(self) -> str:
        """Return a message for people who wait."""
        if self.is_ready:
            return f"loading the compiled search of {self.game.name}"
        return (
            f"compiling search kernels for {self.game.name} (first time, or after a change of the code; "
            f"about {self.expected_seconds:.0f} s, more on a busy machine)"
        )

    @property
    def _what(self) -> str:
        return "-".join(part for part in (self.game.name, self.selection, self.network) if part)

    @property
    def _note(self) -> Path:
        module = self.game.rules.end_reason.__module__
        key = foreign_key(module, getattr(sys.modules.get(module), "__file__", "") or "") or "own"
        return self.cache / f"compiled-{self._what}.{key}.json"

    def _times(self, pattern: str) -> list[float]:
        """Return the seconds in matching notes, the oldest first."""
        found = []
        for path in self.cache.parent.glob(pattern):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                note = json.loads(path.read_text())
                found.append((float(note["at"]), float(note["seconds"])))
        return [seconds for _, seconds in sorted(found) if seconds >= LEAST_SECONDS]
