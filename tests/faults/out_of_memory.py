"""The kernel kills parts that run out of memory, one after the other: azserver's front, an evaluator, the
trainer, a worker of azclient. No acknowledged game is lost, and play continues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ledgered import LedgeredParts
from memory_limit import memory_limit

PARTS = ("an evaluator", "a worker", "the trainer", "azserver's front")


class Bounded(LedgeredParts):
    """Parts whose memory can be limited."""

    def starve(self, part: str) -> None:
        """Limit its memory until it has ended, and restart it if nothing else does."""
        pid = self._pid(part)
        name = {"azserver's front": "server", "the trainer": "trainer"}.get(part)
        with memory_limit(pid):
            self.wait(lambda: not _lives(pid), f"the end of {part}")
            if name is not None:
                self._processes.pop(name).wait()
        if name is not None:
            self.begin(name)

    def _pid(self, part: str) -> int:
        match part:
            case "an evaluator":
                return self.evaluator()
            case "a worker":
                return self.child("client.main", "client.worker")
            case "the trainer":
                return self.pid_of("trainer")
        return self.front


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def measure(folder: Path, say: Callable[[str], None]) -> str:
    """Return the figure for the row. Raises AssertionError when a promise was broken."""
    found = []
    with Bounded(folder) as parts:
        for part in PARTS:
            parts.starve(part)
            first, whole = parts.advance(f"after {part} was ended")
            found.append(
                f"{part}: first game stored {first:.0f} s later, new weights played with {whole:.0f} s"
            )
            say(found[-1])
        finished, acknowledged = parts.check()
    games = f"of {finished} games {acknowledged} were acknowledged, and these are in the store once"
    return f"ended by the kernel at a memory limit. {'; '.join(found)}; {games}"
