"""A consistent copy of a run that goes on meanwhile, as if all of it had been copied at one moment.

Nothing is stopped or locked. The order in which the parts are read makes the copy consistent: if one part
refers to another, the other is copied later:

1. Spools before games.db. A worker deletes a game from its spool after the trainer has stored it. A game that
   is stored between the two copies is in both, and counts once by its uid. In the other order it could be in
   neither.
2. Checkpoints before games.db. A checkpoint says up to which game of the store it has counted the training
   steps that games allow. A younger store has all these games; later games are counted once, after the
   restore. An older store would lack games that were already counted.
3. games.db before weights. A stored game names the version of the weights that played it. azserver makes a
   version current on its disk before anybody can play with it, so the younger weights/current.json has no
   lower version than any stored game, and no number is given out twice after the restore. This holds on one
   machine. If azserver's part is on another machine and copied first, games may name versions that neither
   restored part knows; such a number may then be given out again.
4. Within weights/: current.json and gate.json are read first, then the files they name, then both once more.
   If one has changed, the files that it named before may be gone, so the part is read again.
5. Curves and ratings (figures.jsonl, ratings.json) inform people only, and nothing refers to them.

These are not copied: logs, TensorBoard's files (figures.jsonl has the same curves), locks, incomplete
uploads.

A backup is restored only if it proves to be intact: every file is checked by its hash while it is copied, and
every game is replayed under the rules. The run folder appears in its place only when all of this is done.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from azselfplay.host.config import version
from azselfplay.host.exits import Exit, Fatal
from azselfplay.host.folders import (
    SUMS,
    copy_file,
    filled,
    hash_file,
    is_unfinished,
    read_sums,
    write_file,
    write_sums,
)
from azselfplay.host.reading import read_json, read_struct
from azselfplay.host.runs import RunFolder
from azselfplay.lab.report.settings import NOTES
from azselfplay.lab.report.stored_games import verified
from azselfplay.link.finding import find_run
from azselfplay.link.weights_files import SUFFIX, find_weights
from azselfplay.store.copying import check_file, copy_games
from azselfplay.store.reader import Range, StoreReader
from client.spool import REJECTED
from protocol.messages import WeightsInfo

Identity = Literal["auto", "keep", "new"]
"""Identity of a restored run: see `azplay restore --help`."""

FILE = "backup.json"

FORMAT = 1

SPOOL_PASSES = 3
"""How often the spools are read. A game may be moved from one folder to another (kept, taken over by another
worker) exactly while the folders are listed, but not three times in a row."""

ATTEMPTS = 10
"""Attempts to copy a part that changes meanwhile: weights and checkpoints change at most every few
seconds."""

NAMED = 20
"""Most bad games that are named one by one."""


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which run a backup is a copy of, and when it was made."""

    format: int
    software: str
    """Version of azselfplay that made it."""
    made: str
    """UTC, ISO 8601."""
    run: str
    """Name of the run."""
    run_id: str
    """The run's identity, 32 hex digits, or empty."""
    game: str
    games: int | None
    """Number of stored games; None if the run folder has no games.db (a server whose trainer is
    elsewhere)."""
    step: int | None
    """Step of the newest checkpoint; None without one."""
    weights: int | None
    """Version of the weights that play; None if the folder has none (a trainer on its own machine)."""

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
    # All its files may be intact, but some may be missing.
    if is_unfinished(backup):
        raise Fatal(
            f"{backup} is an incomplete backup, which was interrupted or is still being made: use another",
            Exit.BAD_DATA,
        )
    try:
        about = read_struct(backup / FILE, About)
    # This is the usual mistake, so it gets a better message than the system's.
    except (FileNotFoundError, NotADirectoryError) as error:
        why = f"it has no {FILE}" if backup.is_dir() else "there is no such folder"
        text = f"{backup} is not a backup of a run: {why}; name a folder that `azplay backup` has made"
        raise Fatal(text, Exit.BAD_DATA) from error
    except OSError as error:
        raise Fatal(f"{backup / FILE} cannot be read: {error.strerror}", Exit.BAD_DATA) from error
    except ValueError as error:
        raise Fatal(f"{backup} is not a backup of a run ({FILE}: {error})", Exit.BAD_DATA) from error
    # The identity is converted to bytes and becomes part of a folder's name, so check its form.
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


# ---- Making one ---------------------------------------------------------------------------------


def make_backup(run: RunFolder, target: Path, say: Callable[[str], None]) -> About:
    """Copy `run` to the new folder `target`. `say` is told what is being copied.

    Raises Fatal if `target` exists, the run cannot be read, or the disk is full.
    """
    about = run.describe()
    with filled(target) as folder:
        # The module's docstring explains this order.
        copy = _Copy(run, folder)
        copy.settings()
        waiting = copy.spools()
        say(f"copied {waiting:,} finished game{'' if waiting == 1 else 's'} that wait in spools")
        step = copy.checkpoints()
        games = copy.games()
        weights = copy.weights()
        copy.curves()
        # The time is taken after all parts, which are as old as this moment or a little older.
        made = datetime.now(UTC).isoformat(timespec="seconds")
        identity = run.run_id.hex()
        described = About(FORMAT, version(), made, run.name, identity, about["game"], games, step, weights)
        copy.sums[FILE] = write_file(folder / FILE, msgspec.json.format(msgspec.json.encode(described)))
        # This comes last, because it has the hash of every other file.
        write_sums(folder, copy.sums)
    return described


class _Copy:
    """The parts of a run, each copied to `folder`, and their hashes."""

    def __init__(self, run: RunFolder, folder: Path) -> None:
        self._run = run
        self._folder = folder
        self.sums: dict[str, str] = {}
        """Hashes by path below the folder."""

    def _take(self, path: Path) -> bool:
        """Copy a file of the run. Returns False if it is gone."""
        relative = str(path.relative_to(self._run.path))
        try:
            self.sums[relative] = copy_file(path, self._folder / relative)
        except FileNotFoundError:
            (self._folder / relative).unlink(missing_ok=True)
            return False
        return True

    def settings(self) -> None:
        """Copy run.json and the settings. Each is replaced as a whole, and never refers to another part."""
        for path in (self._run.about, self._run.config, self._run.trainer_config):
            self._take(path)

    def spools(self) -> int:
        """Copy games that wait on this machine, and those kept or set aside with the reason. Returns the
        number of those that are not set aside for good."""
        copied: set[str] = set()
        rejected = 0
        for _ in range(SPOOL_PASSES):
            for path in sorted(self._run.spool.rglob("*.game")):
                # A later pass copies only games that were moved during an earlier pass.
                if path.stem in copied or not self._take(path):
                    continue
                copied.add(path.stem)
                rejected += path.parent.name == REJECTED
                self._take(path.with_suffix(".reason"))  # only games that were set aside have one
        return len(copied) - rejected

    def checkpoints(self) -> int | None:
        """Copy all complete checkpoints. Returns the step of the newest, None without any."""
        # A server whose trainer is elsewhere has no checkpoints, and must not need torch to find that out.
        if not any(self._run.checkpoints.glob("step-*.state")):
            return None
        # Imports torch, which only a trainer's machine has.
        from trainer.checkpoint import BadCheckpoint, progress_at

        for _ in range(ATTEMPTS):
            steps = []
            for state in sorted(self._run.checkpoints.glob("step-*.state"), reverse=True):
                pair = (state, state.with_suffix(".safetensors"))
                if all(self._take(path) for path in pair):
                    with contextlib.suppress(BadCheckpoint):
                        steps.append(progress_at(self._folder / state.relative_to(self._run.path)).step)
                        continue
                # The two files are gone, or do not belong together, because the trainer writes the checkpoint
                # of a step again when it ends. Neither file stays in the copy.
                for path in pair:
                    relative = str(path.relative_to(self._run.path))
                    self.sums.pop(relative, None)
                    (self._folder / relative).unlink(missing_ok=True)
            if steps:
                return max(steps)
        raise Fatal(
            f"no checkpoint in {self._run.checkpoints} is complete: `python -m trainer` could not go on from "
            "them either; its log says why",
            Exit.BAD_DATA,
        )

    def games(self) -> int | None:
        """Copy the store as of one moment. Returns its number of games."""
        if not self._run.games.exists():
            return None
        target = self._folder / self._run.games.name
        # SQLite copies a snapshot of the database, even while the trainer writes.
        copy_games(self._run.games, target)
        with closing(StoreReader(target)) as reader:
            count = _count(reader)
        self.sums[target.name] = hash_file(target, sync=True)
        return count

    def weights(self) -> int | None:
        """Copy the networks. Returns the version of the network that plays, None if there is no network."""
        named = [self._run.weights / name for name in ("current.json", "gate.json")]
        for _ in range(ATTEMPTS):
            # See point 4 of the module's docstring.
            before = [_content(path) for path in named]
            if before[0] is None:
                return None
            for path in (*named, *sorted(self._run.weights.glob(f"*{SUFFIX}"))):
                if str(path.relative_to(self._run.path)) not in self.sums or path in named:
                    self._take(path)
            # A new version has come meanwhile, and the old version's file may be gone.
            if before != [_content(path) for path in named]:
                continue
            # The file that the copied current.json names must have been copied too, and be intact.
            folder = self._folder / self._run.weights.name
            with contextlib.suppress(ValueError):
                info = read_struct(folder / "current.json", WeightsInfo)
                if find_weights(folder, info.sha256) and info.sha256.hex() in self.sums.values():
                    return info.version
        raise Fatal(
            f"{named[0]} names no complete file in {named[0].parent}, or a different one at each reading",
            Exit.BAD_DATA,
        )

    def curves(self) -> None:
        """Copy files for people. The last line of a file that is being written may be incomplete, as after a
        kill."""
        curves = self._run.figures_log, self._run.path / NOTES
        for path in (*sorted(self._run.path.glob("*.json")), *curves):
            if path != self._run.about:
                self._take(path)


def _count(games: StoreReader) -> int:
    """Return the number of games, with or without their records."""
    ((count,),) = games.query("SELECT count(*) FROM games")
    return int(count)


def _content(path: Path) -> bytes | None:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return None


# ---- Restoring one ------------------------------------------------------------------------------


def restore(
    backup: Path, run: RunFolder, identity: Identity, *, verify_games: bool, say: Callable[[str], None]
) -> About:
    """Make the run folder `run`, which must not exist, from `backup`.

    Every file is compared with its hash while it is copied. Then, with `verify_games`, every game is replayed
    under the rules, as `azplay games verify` does. `identity`: see `azplay restore --help`. Raises
    Fatal(BAD_DATA) for an incomplete or damaged backup, Fatal(CONFIG) if the run exists, or if one with the
    same identity is in the same folder; then nothing is left behind.
    """
    about = read_about(backup)
    # Refuse also a dangling link, because writing through it would be a surprise.
    if run.path.exists() or run.path.is_symlink():
        aside = run.path.with_name(f"{run.path.name}-old")
        raise Fatal(
            f"{run.path} exists already and is not overwritten: choose another name, or, if you no longer "
            f"need that run, move it away first ({shlex.join(['mv', str(run.path), str(aside)])})",
            Exit.CONFIG,
        )
    sums = read_sums(backup)
    if identity == "auto":
        # If two runs had the same identity, both would be sent the games that wait for one of them.
        for path in sorted(run.path.parent.glob("*/run.json")):
            try:
                beside = find_run(path.parent)
                is_same = beside is not None and bool(about.run_id) and beside.run_id.hex() == about.run_id
            except Fatal:
                continue  # it cannot be read, so no azserver serves it
            if is_same:
                raise Fatal(
                    f"{path.parent} is the run that this is a backup of. If it goes on, restore with "
                    "--identity new: the copy is a run of its own then. If it is given up, restore with "
                    "--identity keep: games that wait for it go to the copy",
                    Exit.CONFIG,
                )
    with filled(run.path) as folder:
        for name, digest in sums.items():
            # Files that are not restored are checked, too, so that a damaged backup is noticed.
            # Waiting games belong to the run for which they were played: one with a new identity gets none.
            copied = name != FILE and (identity != "new" or name.split("/")[0] != run.spool.name)
            found = copy_file(backup / name, folder / name) if copied else hash_file(backup / name)
            if found != digest:
                raise Fatal(
                    f"{backup / name} is damaged: it has another hash than {SUMS} says", Exit.BAD_DATA
                )
        if identity == "new":
            # azserver draws a new identity at its first start; a trainer elsewhere adopts the server's
            # identity.
            described = read_json(folder / run.about.name)
            described.pop("id", None)
            write_file(folder / run.about.name, json.dumps(described, indent=1).encode())
        games = folder / run.games.name
        if games.exists():
            check_file(games)
            if verify_games:
                _verify(games, about, say)
    return about


def _verify(path: Path, about: About, say: Callable[[str], None]) -> None:
    """Raise Fatal(BAD_DATA) unless all games are there, and those that keep their records are intact and
    follow the rules."""
    with closing(StoreReader(path)) as games:
        # Hashes only show that the file was copied correctly, not that it contains all games.
        if (count := _count(games)) != about.games:
            raise Fatal(f"{path.name} has {count} games, {FILE} says {about.games}", Exit.BAD_DATA)
        # Millions of bad games would flood the terminal.
        checked, bad = verified(games, Range(), say, say, most=NAMED)
    say(f"{checked:,} games checked, {bad:,} bad")
    if bad:
        raise Fatal(
            f"{bad} games were damaged before the backup was made (its hashes are right); "
            "--hashes-only restores it as it is, and the trainer leaves such games out",
            Exit.BAD_DATA,
        )
