"""`azplay players --check` on a timer: a share of the new positions is searched again, player by player.

The command runs as a child process of low priority, as if somebody had typed it. Suspected players are named
in the log and counted in the metrics; people decide what to do about them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE

import msgspec

from runtime.child_process import ChildProcess, start
from runtime.exits import Exit
from runtime.processes import describe_exit, python_module
from trainer.config import PlayersSettings

log = logging.getLogger(__name__)

LEAST_POSITIONS = 100
"""Least number of positions to search at a time, because fewer prove nothing. Until then the check waits."""
LONGEST = 3600.0
"""Seconds after which a check is given up."""
POLITE = ("nice", "-n", "19")


class Checked(msgspec.Struct):
    """The command's result for one player."""

    searched: int = 0
    """Number of positions searched."""
    excess: float | None = None
    """The excess, as in docs/operate.md."""
    made_up: bool = False
    """Whether its visits are certainly not those of a search."""
    in_quarantine: bool = False


class _Told(msgspec.Struct):
    players: dict[str, Checked]


@dataclass
class Due:
    """Decides how much is to be searched. Pure."""

    share: float
    """Share of the positions that arrived."""
    games: int
    """Games stored at the last check; the next field holds the positions."""
    positions: int

    def take(self, games: int, positions: int) -> tuple[int, int] | None:
        """Return `(positions, games)`: search this many positions of this many newest games. None: too few
        yet. `games`, `positions`: stored so far."""
        wanted = int(self.share * (positions - self.positions))
        if wanted < LEAST_POSITIONS:
            return None
        newest, self.games, self.positions = games - self.games, games, positions
        return wanted, newest


@dataclass
class PlayerCheck:
    """The timer, and the results. Counts are since the start."""

    settings: PlayersSettings
    folder: Path
    """The run's folder."""
    searched: int = 0
    """Number of positions searched."""
    failed: int = 0
    """Checks without a result."""
    made_up: int = 0
    """Players found with made-up visits in the last check, except those in quarantine."""
    _turn: int = field(default=0)

    async def run(self, stored: Callable[[], tuple[int, int]]) -> None:
        """Run until cancelled. `stored()` returns the numbers of games and positions in the store."""
        if not self.settings.check_share:
            return
        due = Due(self.settings.check_share, *stored())
        while True:
            await asyncio.sleep(self.settings.check_seconds)
            if (wanted := due.take(*stored())) is not None:
                await self.check(*wanted)

    async def check(self, positions: int, newest: int) -> None:
        """Search `positions` positions of the `newest` newest games again, and log the result."""
        self._turn += 1
        argv = self._command(positions, newest)
        try:
            async with asyncio.timeout(LONGEST), contextlib.aclosing(await start(argv, stderr=PIPE)) as child:
                said, complaints, code = await _heard(child)
        except (OSError, TimeoutError) as error:
            self._fail(str(error) or f"it took longer than {LONGEST:.0f} s")
            return
        try:
            if code not in (Exit.OK, Exit.FOUND):
                raise ValueError(complaints.decode(errors="replace").strip()[-500:] or describe_exit(code))
            self._on_result(msgspec.json.decode(said, type=_Told).players)
        except ValueError as error:  # includes DecodeError
            self._fail(str(error))

    def _command(self, positions: int, newest: int) -> Sequence[str]:
        elsewhere = self.settings.server_folder
        return [
            *(POLITE if shutil.which(POLITE[0]) else ()),
            *python_module("commands.azplay", "players", str(self.folder)),
            *("--check", str(positions), "--newest", str(newest), "--seed", str(self._turn), "--json"),
            *(() if elsewhere is None else ("--server-folder", str(elsewhere))),
        ]

    def _fail(self, why: str) -> None:
        self.failed += 1
        log.warning("the players' positions could not be searched again: %s", why)

    def _on_result(self, players: Mapping[str, Checked]) -> None:
        self.searched += sum(one.searched for one in players.values())
        found = {name: one for name, one in players.items() if one.made_up and not one.in_quarantine}
        self.made_up = len(found)
        for name, one in found.items():
            log.warning(
                "%s has visits that no search gives (excess %.2f in %d positions): look at its games, then "
                "`azplay players %s --quarantine %s`",
                *(name, one.excess, one.searched, self.folder.name, name),
            )
        if not found:
            count = sum(one.searched > 0 for one in players.values())
            total = sum(one.searched for one in players.values())
            log.info("%d positions of %d players were searched again: no visits are made up", total, count)


async def _heard(child: ChildProcess) -> tuple[bytes, bytes, int]:
    """Return what a process writes to stdout and stderr until its end, and its exit code."""
    said, complaints = await asyncio.gather(child.stdout.read(), child.stderr.read())
    return said, complaints, await child.wait()
