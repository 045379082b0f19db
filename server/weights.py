"""The weights files of a run on disk: by version and hash, never half written; `current.json` names one.

weights/000045-1a2b3c4d.safetensors    the newest `KEPT` files, and `PAST` older ones spread over the run
weights/current.json                   version, step, sha256, size, game, architecture of the one in use
weights/newest                         a link to that one (`runtime.weights_files`)
weights/*.partial                      a file that is being written, or whose writer was killed
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from protocol.messages import CHUNK, WeightsInfo
from runtime.crash_points import reach
from runtime.exits import Exit, Fatal
from runtime.logs import Repeated
from runtime.reading import read_struct
from runtime.runs import write_atomically
from runtime.weights_files import find_weights, point_newest, version_in, weights_path

log = logging.getLogger(__name__)

KEPT = 8
"""Newest files kept; a client that requests one that is gone asks for the current one instead."""
SAVE_AGAIN = 5.0
"""Seconds between two attempts to write `current.json` to a full disk."""
PAST = 56
"""Older files kept, always including the first, about evenly spread in time: what `azplay ladder` rates
later. A file is 0.2 MB (tiny) to 90 MB (alphazero: 6 GB in all). AlphaZero's Figure 1 needs no more
points."""


def surplus(times: Sequence[int], room: int) -> list[int]:
    """Return the indices to drop so that `room` of the ascending `times` stay: the first, and an even spread.

    Repeatedly drops the time whose removal leaves the narrowest gap. So when times arrive one by one, the
    gaps differ by about a factor of two, however long it goes on.
    """
    left = list(range(len(times)))
    while len(left) > room:
        gaps = [times[left[i + 1]] - times[left[i - 1]] for i in range(1, len(left) - 1)]
        left.pop(1 + gaps.index(min(gaps)) if gaps and room else -1)
    return sorted(set(range(len(times))) - set(left))


class WeightsStore:
    """One folder. Only this process writes to it."""

    def __init__(self, folder: Path, game: str, kept: int = KEPT, past: int = PAST) -> None:
        self.current: WeightsInfo | None = None
        """The weights that players are told of; set by `open` and `adopt`."""
        self._is_saved = True
        """Whether `current.json` names `current`."""
        self._save_at = 0.0
        self._repeated = Repeated(log)
        self._folder = folder
        self._game = game
        self._kept = kept
        self._past = past
        self.about = folder / "current.json"
        self.needed: frozenset[bytes] = frozenset()
        """Hashes of files that are kept besides the current one: those of a gate."""

    def path(self, info: WeightsInfo) -> Path:
        return weights_path(self._folder, info)

    def has(self, info: WeightsInfo) -> bool:
        return self.path(info).exists()

    def open(self) -> WeightsInfo | None:
        """Read the current weights and use them. Returns None in a new run. Raises what `read` raises."""
        for part in self._folder.glob("*.partial"):
            part.unlink()
        self.current = self.read()
        if self.current is not None:
            point_newest(self.path(self.current))
        return self.current

    def read(self) -> WeightsInfo | None:
        """Return the current weights on the disk, after checking the file's hash. None in a new run.

        Raises Fatal(BAD_DATA) when the folder does not hold what `current.json` says, Fatal(DISK) when that
        file cannot be read now.
        """
        try:
            info = read_struct(self.about, WeightsInfo)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Fatal(f"{self.about} cannot be read: {error.strerror}", Exit.DISK) from error
        except ValueError as error:
            raise self._damaged(f"{self.about} cannot be read ({error})") from error
        if info.game != self._game:
            raise self._damaged(f"{self.about} is for the game {info.game}, this run plays {self._game}")
        self._check_file(info)
        return info

    def put(self, info: WeightsInfo, data: bytes | bytearray) -> None:
        """Store a file that may become current later, so that it survives a power loss. This may take a
        while. Raises OSError if the disk does not take it."""
        write_atomically(self.path(info), data)

    def add(self, data: bytes, version: int, step: int, architecture: str) -> WeightsInfo:
        """Store a file that was made here (an untrained network) and make it the current one."""
        sha256 = hashlib.sha256(data).digest()
        info = WeightsInfo(version, step, sha256, len(data), self._game, architecture)
        self.put(info, data)
        self.adopt(info)
        return info

    def adopt(self, info: WeightsInfo) -> None:
        """Make a file that is stored here the current one from now on.

        If the disk cannot be written, `current.json` names the previous one until `save` succeeds; after a
        restart that one would be current again.
        """
        self.current = info
        self._is_saved, self._save_at = False, 0.0
        self.save(time.monotonic())

    def save(self, now: float) -> None:
        """Write `current.json` if that failed before. To be called every second or so."""
        if self._is_saved or self.current is None or now < self._save_at:
            return
        try:
            write_atomically(self.about, msgspec.json.encode(self.current))
            point_newest(self.path(self.current))
        except OSError as error:
            self._save_at = now + SAVE_AGAIN
            text = f"{self.about} cannot be written ({error.strerror}), trying again in {SAVE_AGAIN:g} s"
            self._repeated.warning("save", text, now)
            return
        self._is_saved = True
        reach("weights.adopted")
        self.tidy()

    def tidy(self) -> None:
        """Remove older files, except those spread over the run and those that are needed."""
        if not self._is_saved:
            return  # a crash would need the file that current.json names
        current = frozenset({self.current.sha256} if self.current else ())
        needed = {find_weights(self._folder, sha256) for sha256 in self.needed | current}
        # By version, because a clock may have been set back; the others by time, to be spread over it.
        files = sorted(self._folder.glob("*.safetensors"), key=version_in)
        older = sorted(files[: -self._kept], key=lambda path: path.stat().st_mtime_ns)
        for index in surplus([path.stat().st_mtime_ns for path in older], self._past):
            if older[index] not in needed:
                older[index].unlink()

    def forget(self, info: WeightsInfo) -> None:
        """Remove a file that no evaluator accepts."""
        if self.current is None or self.current.sha256 != info.sha256:
            self.path(info).unlink(missing_ok=True)

    def chunk(self, sha256: bytes, offset: int) -> bytes | None:
        """Return at most `CHUNK` bytes of a file, none at its end; None if it is not stored (any more)."""
        current = self.current
        if current is not None and current.sha256 == sha256:
            path: Path | None = self.path(current)  # without searching the folder
        else:
            path = find_weights(self._folder, sha256)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(CHUNK)
        except FileNotFoundError:
            return None

    def _check_file(self, info: WeightsInfo) -> None:
        path = self.path(info)
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            raise self._damaged(f"{path} cannot be read ({error.strerror})") from error
        if digest != info.sha256:
            raise self._damaged(f"{path} is damaged: its sha256 is {digest.hex()}")

    def _damaged(self, what: str) -> Fatal:
        return Fatal(
            f"{what}; restore {self._folder} from a backup, or delete current.json in it to begin with an "
            "untrained network again (the games stay)",
            Exit.BAD_DATA,
        )
