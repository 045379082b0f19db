"""The description of a backup, `backup.json`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from runtime.exits import Exit, Fatal
from runtime.reading import read_struct
from runtime.whole_folders import is_unfinished

Identity = Literal["auto", "keep", "new"]
"""Identity of a restored run: see `azplay restore --help`."""
FILE = "backup.json"
FORMAT = 1


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which run it is a copy of, and when it was made."""

    format: int
    software: str
    """Version of azselfplay that made it."""
    made: str
    """UTC, ISO 8601."""
    run: str
    """Name of the run."""
    run_id: str
    """Its identity, 32 hex digits, or empty."""
    game: str
    games: int | None
    """Stored games; None where the run folder has no games.db (a server whose trainer is elsewhere)."""
    step: int | None
    """Step of the newest checkpoint; None without one."""
    weights: int | None
    """Version of the weights that play; None where the folder has none (a trainer on its own machine)."""

    def __str__(self) -> str:
        parts = [f"run {self.run} ({self.game}) as of {self.made}"]
        if self.games is not None:
            parts.append(f"{self.games} games")
        if self.step is not None:
            parts.append(f"checkpoint of step {self.step}")
        if self.weights is not None:
            parts.append(f"weights {self.weights}")
        return ", ".join(parts)


def read_about(backup: Path) -> About:
    """Read the description. Raises Fatal(BAD_DATA) if `backup` is not a complete backup that this version can
    read."""
    if is_unfinished(backup):
        raise Fatal(
            f"{backup} is an incomplete backup, which was interrupted or is still being made: use another",
            Exit.BAD_DATA,
        )
    try:
        about = read_struct(backup / FILE, About)
    except (FileNotFoundError, NotADirectoryError) as error:
        why = f"it has no {FILE}" if backup.is_dir() else "there is no such folder"
        text = f"{backup} is not a backup of a run: {why}; name a folder that `azplay backup` has made"
        raise Fatal(text, Exit.BAD_DATA) from error
    except OSError as error:
        raise Fatal(f"{backup / FILE} cannot be read: {error.strerror}", Exit.BAD_DATA) from error
    except ValueError as error:
        raise Fatal(f"{backup} is not a backup of a run ({FILE}: {error})", Exit.BAD_DATA) from error
    if not re.fullmatch("(?:[0-9a-f]{32})?", about.run_id):
        raise Fatal(
            f"{backup / FILE} is damaged: {about.run_id[:50]!r} is not the identity of a run", Exit.BAD_DATA
        )
    if about.format != FORMAT:
        raise Fatal(
            f"{backup} was made by azselfplay {about.software} in format {about.format}; this version reads "
            f"format {FORMAT}",
            Exit.BAD_DATA,
        )
    return about
