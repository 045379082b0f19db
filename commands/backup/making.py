"""A copy of a run that goes on, as if all of it had been copied at one moment.

Nothing is stopped or locked. What makes the copy consistent is the order in which its parts are read. What
may be copied later than something else is what the other refers to:

1. Spools before games.db. A worker deletes a game from its spool after the trainer has stored it. A game that
   is stored between the two copies is in both, and counts once by its uid. In the other order it could be in
   neither.
2. Checkpoints before games.db. A checkpoint says up to which game of the store it has counted what training
   may use. A younger store has all these games, and those behind are counted after the restore, once. An
   older store would lack games that were paid for.
3. games.db before weights. A stored game names the version of the weights that played it. azserver makes a
   version current on its disk before anybody can play with it, so the younger weights/current.json has no
   lower version than any stored game, and no number is given out twice after the restore. That holds on one
   machine. With azserver's part copied first, on another machine, games may name versions that neither
   restored part knows; then such a number may be given out again.
4. Within weights/: current.json and gate.json are read first, then the files they name, then both once more.
   If one has changed, the files that it named before may be gone, so the part is read again.
5. Curves and ratings (figures.jsonl, ratings.json) inform people only, and nothing refers to them.

Not copied: logs, TensorBoard's files (figures.jsonl has the same curves), locks, incomplete uploads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from commands.backup.about import FILE, FORMAT, About
from protocol.messages import WeightsInfo
from runtime.exits import Exit, Fatal
from runtime.reading import read_struct
from runtime.runs import RunFolder
from runtime.version import version
from runtime.weights_files import SUFFIX, find_weights
from runtime.whole_folders import copy_file, filled, hash_file, write_file, write_sums
from store.copying import copy_games
from store.reader import StoreReader

SPOOL_PASSES = 3
"""How often the spools are read. A game may be moved from one folder to another (kept, taken over by another
worker) exactly when these are listed; it is not moved three times in a row."""
ATTEMPTS = 10
"""Attempts at a part that changes while it is copied: weights and checkpoints change every few seconds at
most."""
_CURVES = "figures.jsonl"


def make_backup(run: RunFolder, target: Path, say: Callable[[str], None]) -> About:
    """Copy `run` to the new folder `target`. `say` is told what is being copied.

    Raises Fatal if `target` exists, the run cannot be read, or the disk is full.
    """
    about = run.describe()
    with filled(target) as folder:
        copy = _Copy(run, folder)
        copy.settings()
        waiting = copy.spools()
        say(f"copied {waiting:,} finished game{'' if waiting == 1 else 's'} that wait in spools")
        step = copy.checkpoints()
        games = copy.games()
        weights = copy.weights()
        copy.curves()
        made = datetime.now(UTC).isoformat(timespec="seconds")
        identity = run.run_id.hex()
        described = About(FORMAT, version(), made, run.name, identity, about["game"], games, step, weights)
        copy.sums[FILE] = write_file(folder / FILE, msgspec.json.format(msgspec.json.encode(described)))
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

    def _drop(self, path: Path) -> None:
        """Remove the copy of a file of the run."""
        relative = str(path.relative_to(self._run.path))
        self.sums.pop(relative, None)
        (self._folder / relative).unlink(missing_ok=True)

    def settings(self) -> None:
        """Copy run.json and the settings. Each is replaced as a whole, and never refers to another part."""
        for path in (self._run.about, self._run.config, self._run.trainer_config):
            if path.exists():
                self._take(path)

    def spools(self) -> int:
        """Copy games that wait on this machine, and those kept or set aside with the reason. Returns their
        number."""
        copied: set[str] = set()
        for _ in range(SPOOL_PASSES):
            for path in sorted(self._run.spool.rglob("*.game")):
                if path.stem in copied or not self._take(path):
                    continue
                copied.add(path.stem)
                reason = path.with_suffix(".reason")
                if reason.exists():
                    self._take(reason)
        return len(copied)

    def checkpoints(self) -> int | None:
        """Copy all complete checkpoints. Returns the step of the newest, None without any."""
        if not any(self._run.checkpoints.glob("step-*.state")):
            return None
        for _ in range(ATTEMPTS):
            steps = [step for path in self._states() if (step := self._checkpoint(path)) is not None]
            if steps:
                return max(steps)
        raise Fatal(
            f"no checkpoint in {self._run.checkpoints} is complete: `python -m trainer` could not go on from "
            "them either; its log says why",
            Exit.BAD_DATA,
        )

    def _states(self) -> list[Path]:
        return sorted(self._run.checkpoints.glob("step-*.state"), reverse=True)

    def _checkpoint(self, state: Path) -> int | None:
        """Copy a checkpoint and return its step. Returns None, and copies nothing, if its two files are gone
        or do not belong together: the trainer writes a checkpoint of the same step again when it ends."""
        from trainer.checkpoint import Damaged, check  # imports torch, which only a trainer's machine has

        pair = (state, state.with_suffix(".safetensors"))
        if all(self._take(path) for path in pair):
            with contextlib.suppress(Damaged):
                return check(self._folder / state.relative_to(self._run.path)).step
        for path in pair:
            self._drop(path)
        return None

    def games(self) -> int | None:
        """Copy the store as of one moment. Returns its number of games."""
        if not self._run.games.exists():
            return None
        target = self._folder / self._run.games.name
        copy_games(self._run.games, target)
        with contextlib.closing(StoreReader(target)) as reader:
            ((count,),) = reader.query("SELECT count(*) FROM games")
        self.sums[target.name] = hash_file(target, sync=True)
        return int(count)

    def weights(self) -> int | None:
        """Copy the networks. Returns the version of the one that plays, None where there are none."""
        named = [self._run.weights / name for name in ("current.json", "gate.json")]
        for _ in range(ATTEMPTS):
            before = [_content(path) for path in named]
            if before[0] is None:
                return None
            for path in (*named, *sorted(self._run.weights.glob(f"*{SUFFIX}"))):
                if str(path.relative_to(self._run.path)) not in self.sums or path in named:
                    self._take(path)
            if before == [_content(path) for path in named] and (info := self._current()) is not None:
                return info.version
        raise Fatal(
            f"{named[0]} names no complete file in {named[0].parent}, or a different one at each reading",
            Exit.BAD_DATA,
        )

    def _current(self) -> WeightsInfo | None:
        """The weights named by the copied current.json, if the copy has them, intact."""
        folder = self._folder / self._run.weights.name
        try:
            info = read_struct(folder / "current.json", WeightsInfo)
        except ValueError:
            return None
        file = find_weights(folder, info.sha256)
        return info if file is not None and info.sha256.hex() in self.sums.values() else None

    def curves(self) -> None:
        """Copy files for people. The last line of a file that is being written may be incomplete."""
        for path in sorted(self._run.path.glob("*.json")):
            if path != self._run.about:
                self._take(path)
        lines = _content(self._run.path / _CURVES)
        if lines:
            whole = lines[: lines.rfind(b"\n") + 1]
            self.sums[_CURVES] = write_file(self._folder / _CURVES, whole)


def _content(path: Path) -> bytes | None:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return None
