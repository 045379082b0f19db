"""`azplay players --check` on a timer: a share of the new positions is searched again, player by player.

The command runs as a child process of low priority, as it would if somebody had typed it. Whoever it suspects
is named in the log and counted in the metrics; what becomes of them is for people to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE

import msgspec

from runtime.child_process import ChildProcess, start
from runtime.exits import Exit
from runtime.processes import describe_exit
from trainer.config import PlayersSettings

log = logging.getLogger(__name__)

LEAST_POSITIONS = 100
"""To be searched at a time: of fewer nothing can be said. Until so many are due, the next turn comes."""
LONGEST = 3600.0
"""Seconds after which a check is given up."""
POLITE = ("nice", "-n", "19")


class Checked(msgspec.Struct):
    """What the command says of one player."""

    searched: int = 0
    """Positions."""
    excess: float | None = None
    """As in docs/players.md."""
    made_up: bool = False
    """Its visits are surely not those of a search."""
    in_quarantine: bool = False


class _Told(msgspec.Struct):
    players: dict[str, Checked]


@dataclass
class Due:
    """How much is to be looked at. Pure."""

    share: float
    """Of the positions that came in."""
    games: int
    """Stored when it was looked at last; likewise the next."""
    positions: int

    def take(self, games: int, positions: int) -> tuple[int, int] | None:
        """`(positions, games)`: so many positions of so many newest games are to be searched. None: too few
        yet. `games`, `positions`: stored by now."""
        wanted = int(self.share * (positions - self.positions))
        if wanted < LEAST_POSITIONS:
            return None
        newest, self.games, self.positions = games - self.games, games, positions
        return wanted, newest


@dataclass
class PlayerCheck:
    """The timer, and what came of it. Counts are since the start."""

    settings: PlayersSettings
    folder: Path
    """Of the run."""
    searched: int = 0
    """Positions."""
    failed: int = 0
    """Checks without a result."""
    made_up: int = 0
    """Players whose visits no search gives, in the last check, but for those in quarantine."""
    _turn: int = field(default=0)

    async def run(self, stored: Callable[[], tuple[int, int]]) -> None:
        """Until cancelled. `stored()`: games and positions in the store."""
        if not self.settings.check_share:
            return
        due = Due(self.settings.check_share, *stored())
        while True:
            await asyncio.sleep(self.settings.check_seconds)
            if (wanted := due.take(*stored())) is not None:
                await self.check(*wanted)

    async def check(self, positions: int, newest: int) -> None:
        """Search so many positions of so many newest games again, and say what came of it."""
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
        except ValueError as error:  # a DecodeError is one
            self._fail(str(error))

    def _command(self, positions: int, newest: int) -> Sequence[str]:
        elsewhere = self.settings.server_folder
        return [
            *(POLITE if shutil.which(POLITE[0]) else ()),
            *(sys.executable, "-m", "commands.azplay", "players", str(self.folder)),
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
            log.info("%d positions of %d players were searched again: nobody's are made up", total, count)


async def _heard(child: ChildProcess) -> tuple[bytes, bytes, int]:
    """What a process writes to its end on stdout and stderr, and its exit code."""
    said, complaints = await asyncio.gather(child.stdout.read(), child.stderr.read())
    return said, complaints, await child.wait()
