"""The networks of a run: their files, when each was made, and which of them to rate."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runtime.exits import Exit, Fatal
from runtime.reading import open_regular
from runtime.runs import RunFolder
from runtime.weights_files import hash_in_name
from store.reader import StoreReader


@dataclass(frozen=True)
class Point:
    """A weights file of a run."""

    path: Path
    version: int
    step: int
    games_before: int | None
    """Self-play games that only older weights took part in."""
    hours: float
    """Hours from the creation of the run to the file's last change."""
    sha256: str
    """Hash of the file, hexadecimal: at least the digits in its name (`runtime.weights_files`)."""


def points_of(run: RunFolder) -> list[Point]:
    """All complete weights files of a run, oldest version first. A file removed meanwhile is left out.

    Raises Fatal(BAD_DATA) when there is none.
    """
    from net.weights import BadWeights, read_meta

    about = run.describe()
    created = datetime.fromisoformat(str(about["created"])).timestamp()
    games = _games_by_version(run.games)
    found = []
    for path in run.weights.glob("*.safetensors"):
        try:
            meta = read_meta(head(path))
            changed = path.stat().st_mtime
        except (BadWeights, OSError):
            continue
        if meta.game != about["game"]:
            continue
        before = None if games is None else sum(n for version, n in games.items() if version < meta.version)
        hours = max(0.0, (changed - created) / 3600)
        found.append(Point(path, meta.version, meta.step, before, hours, hash_in_name(path)))
    if not found:
        raise Fatal(
            f"there are no weights in {run.weights}; wait until azserver has begun the run", Exit.BAD_DATA
        )
    return sorted(found, key=lambda point: (point.version, point.step))


def _games_by_version(path: Path) -> dict[int, int] | None:
    """Games by the newest weights version in them; None where there are no games yet."""
    if not path.exists():
        return None
    rows = StoreReader(path).query("SELECT version_max, count(*) FROM games GROUP BY version_max")
    return {int(version): int(games) for version, games in rows}


def head(path: Path) -> bytes:
    """The part of a weights file that holds its metadata."""
    with open_regular(path) as file:
        length = file.read(8)
        if len(length) < 8:
            return length
        return length + file.read(min(struct.unpack("<Q", length)[0], 8 << 20))


def thinned(points: Sequence[Point], room: int, rated: Collection[str] = ()) -> list[Point]:
    """At most `room` (at least 2) points: the first, the newest, and an even spread of steps in between.

    `rated`: hashes of networks that already have games. They are preferred unless another one improves the
    spread by half, so that a longer ladder extends the shorter one.
    """
    left = list(points)

    def gap(index: int) -> tuple[float, int]:
        width = left[index + 1].step - left[index - 1].step
        return width * (2.0 if left[index].sha256 in rated else 1.0), index

    while len(left) > max(room, 2):
        left.pop(min(gap(index) for index in range(1, len(left) - 1))[1])
    return left
