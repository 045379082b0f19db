"""A finished game as it is sent and stored: moves and search targets, never features.

`docs/records.md` describes the format with its sizes and reasons. In memory the columns are arrays. On
the wire a record is one MessagePack map whose columns are little-endian bytes.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from protocol.errors import Code
from protocol.messages import MAX_RECORD, MAX_START, Name, RunId, Uid

FORMAT = 5
"""The only format that is read; the error for a record of another format names that format."""
POLICY_TARGET = 1
"""Flag of a ply whose visits are a policy target: one with a search."""
IMPROVED_POLICY = 2
"""Flag set together with POLICY_TARGET: the visits of this ply are not counts, but shares of the improved
policy that add up to SHARES (`search.selection = gumbel`)."""
PRUNED_TARGET = 4
"""Flag set together with POLICY_TARGET: visits of moves proven to be worse were removed, so the sum is
smaller (`search.solver`; earlier versions also removed visits that only the noise caused)."""
SEARCH_DIFFERS = 8
"""Flag of a ply whose most visited action (ties go to the lowest index) did not have the largest prior:
search and raw network prefer different moves."""
PLAYED_ON = 32
"""Flag set at all plies of a game that had to be played to its end without resigning; at no ply of other
games. Such games show how often resigning would be a mistake."""
SHARES = 10_000
"""Sum of the shares of an improved policy."""
MOST_VISITS = 0xFFFF
"""Largest visit count that a record can hold (uint16)."""
_OF_ANY_PLY = SEARCH_DIFFERS | PLAYED_ON
"""Flags that may be set at any ply."""
_KINDS_OF_TARGET = (0, POLICY_TARGET, POLICY_TARGET | IMPROVED_POLICY, POLICY_TARGET | PRUNED_TARGET)
"""Allowed combinations of the other flags, which describe a policy target."""
_VALID_FLAGS = np.isin(np.arange(256) & ~_OF_ANY_PLY, _KINDS_OF_TARGET)
"""bool[256]: whether a byte is a ply's valid flags. A table, because `isin` takes 25 us a game."""
_PLAIN = ("uid", "game", "start", "max_plies", "simulations", "outcome", "reason", "seed", "source", "run")
UNKNOWN: dict[str, float] = {
    "prior_kl": np.nan, "prior_values": np.nan, "mean_depths": np.nan, "max_depths": 0,
}  # fmt: skip
"""The columns that may be unknown, each with the value that stands for "not known"."""
PRIOR_FLOOR = 1e-8
"""Smaller priors (float16 rounds them to 0) are raised to this, so that every KL is finite."""
MOST_KL = 20.0
"""Largest prior_kl, nats; -log(PRIOR_FLOOR) is 18.4."""
_LIMITS = (("prior_kl", 0.0, MOST_KL), ("prior_values", -1.0, 1.0), ("mean_depths", 0.0, 65504.0))
_NAN = 0x7E00
"""Bits of the only NaN that is accepted, so that the encoding of a record is unique."""


def not_known(dtype: type[np.generic]) -> Any:
    """Return a column's default: empty. `GameRecord` replaces it in the columns of UNKNOWN."""
    return field(default_factory=lambda: np.zeros(0, dtype))


@dataclass(frozen=True, eq=False)
class GameRecord:
    """One finished game. `plies` actions; column `i` belongs to the position before action `i`."""

    uid: bytes
    """16 random bytes drawn when the game began; they identify a resent game, so that it counts once."""
    game: str
    start: str
    """Start position in the game's notation, empty for the usual one."""
    max_plies: int
    simulations: int
    """New simulations per move that the settings asked for."""
    actions: npt.NDArray[np.uint16]
    """[plies] the actions played."""
    visited: npt.NDArray[np.uint16]
    """[plies] number of root actions with at least one visit."""
    visit_actions: npt.NDArray[np.uint16]
    """[sum of visited] the visited actions, ply after ply, ascending within a ply."""
    visits: npt.NDArray[np.uint16]
    """[sum of visited] their visit counts, or their shares of an improved policy; never 0."""
    root_values: npt.NDArray[np.float32]
    """[plies] value of the root after search, for the side to move, in [-1, 1]."""
    flags: npt.NDArray[np.uint8]
    """[plies] POLICY_TARGET, IMPROVED_POLICY, PRUNED_TARGET, SEARCH_DIFFERS, PLAYED_ON."""
    versions: npt.NDArray[np.uint32]
    """[plies] weights version that answered the last evaluation of that move's search."""
    outcome: int
    """+1, 0 or -1 for the first player."""
    reason: str
    """Name of the end reason (`games.spec`), `ply_cap` or `resignation`."""
    seed: int = 0
    """The seed that the worker's games draw from: the run's, or one drawn at the worker's start."""
    source: str = ""
    """The player's host and process, for people to read."""
    seconds: float = 0.0
    """Wall-clock time the game took."""
    prior_kl: npt.NDArray[np.float16] = not_known(np.float16)
    """[plies] KL(pi || P) in nats: how far the visits (pi) are from the network's policy before the search,
    without noise (P); NaN where unknown. This and the next three columns may be left out."""
    prior_values: npt.NDArray[np.float16] = not_known(np.float16)
    """[plies] the network's own value of the root, for the side to move, in [-1, 1]; or NaN."""
    mean_depths: npt.NDArray[np.float16] = not_known(np.float16)
    """[plies] mean depth of a simulation below the root, in plies; or NaN."""
    max_depths: npt.NDArray[np.uint8] = not_known(np.uint8)
    """[plies] depth of the deepest simulation, in plies; 255 for more, 0 where unknown."""
    run: bytes = b""
    """Identity of the run that the game was played for, 16 bytes; empty where unknown."""

    def __post_init__(self) -> None:
        for name in UNKNOWN:
            if not len(getattr(self, name)):
                # The dataclass is frozen.
                object.__setattr__(self, name, np.full(self.plies, UNKNOWN[name], _COLUMNS[name]))

    @property
    def plies(self) -> int:
        return len(self.actions)

    @property
    def is_imported(self) -> bool:
        """Whether the game has no search at all. Only `azplay games RUN import` stores such games; a trainer
        refuses them from players, whose games have searches."""
        return not self.visited.any()

    @property
    def targets(self) -> int:
        """Number of plies that are policy targets: those with a search. Only these are trained on."""
        return int(np.count_nonzero(self.flags & POLICY_TARGET))


class BadRecord(ValueError):
    """The bytes are not a record, or the record cannot be written as bytes; the text says where."""

    def __init__(self, reason: str, code: Code = Code.BAD_RECORD) -> None:
        super().__init__(reason)
        self.code = code


_Column = Annotated[bytes, Meta(max_length=MAX_RECORD)]
_PlyCount = Annotated[int, Meta(ge=1, le=65535)]


class _Wire(Struct, frozen=True, forbid_unknown_fields=True):
    """The map of a record; columns are little-endian. Unknown fields are forbidden, so that only what was
    understood is stored."""

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    uid: Uid
    game: Name
    start: Annotated[str, Meta(max_length=MAX_START)]
    max_plies: _PlyCount
    simulations: _PlyCount
    outcome: Annotated[int, Meta(ge=-1, le=1)]
    reason: Name
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    source: Name
    seconds: Annotated[float, Meta(ge=0, le=1e9)]
    actions: _Column
    visited: _Column
    visit_actions: _Column
    visits: _Column
    root_values: _Column
    flags: _Column
    versions: _Column
    prior_kl: _Column
    prior_values: _Column
    mean_depths: _Column
    max_depths: _Column
    run: RunId


class _OfAnyFormat(Struct, frozen=True):
    """Reads only the format of a record, for records of another format."""

    format: int


_COLUMNS: dict[str, np.dtype[Any]] = {
    "actions": np.dtype("<u2"),
    "visited": np.dtype("<u2"),
    "visit_actions": np.dtype("<u2"),
    "visits": np.dtype("<u2"),
    "root_values": np.dtype("<f4"),
    "flags": np.dtype("u1"),
    "versions": np.dtype("<u4"),
    "prior_kl": np.dtype("<f2"),
    "prior_values": np.dtype("<f2"),
    "mean_depths": np.dtype("<f2"),
    "max_depths": np.dtype("u1"),
}
OF_VISITS = ("visit_actions", "visits")
"""Columns with one entry per visited action."""
PER_PLY = tuple(name for name in _COLUMNS if name not in OF_VISITS)
"""Columns with one entry per ply."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Wire)
_any_format = msgspec.msgpack.Decoder(_OfAnyFormat)


def to_bytes(record: GameRecord) -> bytes:
    """Return the only valid encoding of this record. Raises BadRecord, so that a faulty record is noticed
    where it was made."""
    _check(record)
    fields: dict[str, Any] = {name: getattr(record, name) for name in _PLAIN}
    for name, dtype in _COLUMNS.items():
        column = np.asarray(getattr(record, name))
        if column.dtype != dtype:
            raise BadRecord(f"column {name} is {column.dtype}, expected {dtype}")
        fields[name] = column.tobytes()
    try:
        data = _encoder.encode(_Wire(format=FORMAT, seconds=float(record.seconds), **fields))
        # Only the decoder checks the limits of the wire format (lengths, ranges).
        _decoder.decode(data)
    except (msgspec.MsgspecError, TypeError, OverflowError) as error:
        raise BadRecord(str(error)) from error
    _check_size(data)
    return data


def from_bytes(data: bytes | memoryview) -> GameRecord:
    """Return the record in `data`; its columns are read-only and do not keep `data` alive.

    Raises BadRecord unless `data` is exactly what `to_bytes` makes of that record. The rules of the game are
    not checked here; the trainer verifies them.
    """
    _check_size(data)
    try:
        wire = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            if (found := _any_format.decode(data).format) != FORMAT:
                text = f"a record of format {found}; this version reads format {FORMAT} only"
                raise BadRecord(text) from error
        raise BadRecord(str(error)) from error
    fields: dict[str, Any] = {name: getattr(wire, name) for name in _PLAIN}
    for name, dtype in _COLUMNS.items():
        size = len(getattr(wire, name))
        if size % dtype.itemsize:
            raise BadRecord(f"column {name} has {size} bytes, no multiple of {dtype.itemsize}")
        fields[name] = np.frombuffer(getattr(wire, name), dtype)
    # `GameRecord` would fill in an empty column, and write another record.
    if not all(len(fields[name]) for name in UNKNOWN):
        raise BadRecord("not in canonical form: an empty column")
    record = GameRecord(seconds=wire.seconds, **fields)
    _check(record)
    # Two encodings of one game would have two hashes, which the store would report as a conflict.
    if _encoder.encode(wire) != data:
        raise BadRecord("not in canonical form")
    return record


def check_bounds(record: GameRecord, actions: int, max_legal: int) -> None:
    """Check that jitted code of a game may use the columns as counts and indices; takes some microseconds.

    Raises BadRecord if a column's length differs from what `visited` says, if an action is not below
    `actions`, if a ply has more than `max_legal` actions, or if the outcome is invalid.
    """
    _check_lengths(record)
    # The columns are unsigned, so only numbers that are too large can be wrong.
    for name in ("actions", "visit_actions"):
        largest = int(getattr(record, name).max(initial=0))
        if largest >= actions:
            raise BadRecord(f"{name}: action {largest} is not below {actions}")
    most = int(record.visited.max(initial=0))
    if most > max_legal:
        raise BadRecord(f"{most} actions with visits at one ply, no position has more than {max_legal}")
    if record.outcome not in (-1, 0, 1):
        raise BadRecord(f"outcome {record.outcome} is none of +1, 0, -1")


def sha256(data: bytes | memoryview) -> bytes:
    """Return the hash that identifies these bytes in PUT_GAME and in the store."""
    return hashlib.sha256(data).digest()


def _check_size(data: bytes | memoryview) -> None:
    if len(data) > MAX_RECORD:
        raise BadRecord(f"{len(data)} bytes, a record has at most {MAX_RECORD}", Code.TOO_LONG)


def _check(record: GameRecord) -> None:
    """Check what holds for a record of any game. Raises BadRecord."""
    plies = record.plies
    if plies < 1:
        raise BadRecord("no plies")
    if len(record.run) not in (0, 16):
        raise BadRecord(f"the run's identity has {len(record.run)} bytes, expected 16, or none")
    if plies > record.max_plies:
        raise BadRecord(f"{plies} plies, the cap is {record.max_plies}", Code.TOO_LONG)
    _check_lengths(record)
    flags = record.flags
    if not _VALID_FLAGS[flags].all():
        raise BadRecord("an unknown flag is set")
    # This flag is about the game, not about a ply.
    played_on = flags & np.uint8(PLAYED_ON)
    if not (played_on == played_on[0]).all():
        raise BadRecord("the flag of a game that is played on is set at some plies and not at others")
    if not ((record.root_values >= -1) & (record.root_values <= 1)).all():
        raise BadRecord("a root value is not in [-1, 1]", Code.BAD_VALUES)
    for name, low, high in _LIMITS:
        column = getattr(record, name)
        unknown = np.isnan(column)
        if not (unknown | ((column >= low) & (column <= high))).all():
            raise BadRecord(f"{name} has an entry that is not in [{low:g}, {high:g}]", Code.BAD_VALUES)
        if (column[unknown].view(np.uint16) != _NAN).any():
            raise BadRecord(f"{name} has a NaN with other bits than 0x{_NAN:04x}", Code.BAD_VALUES)
    # Check that visits are never 0 and their actions ascend within a ply, so that the encoding is unique.
    if ((record.visited == 0) & (record.flags & POLICY_TARGET != 0)).any():
        raise BadRecord("a policy target without visits", Code.BAD_VISITS)
    if ((record.visited == 0) & (record.flags & SEARCH_DIFFERS != 0)).any():
        raise BadRecord("a ply without visits is said to differ from the network", Code.BAD_VISITS)
    if (record.visits == 0).any():
        raise BadRecord("an action with 0 visits is listed", Code.BAD_VISITS)
    ascending = record.visit_actions[1:] > record.visit_actions[:-1]
    first_of_ply = np.cumsum(record.visited, dtype=np.int64) - 1
    ascending[first_of_ply[(first_of_ply >= 0) & (first_of_ply < len(ascending))]] = True
    if not ascending.all():
        raise BadRecord("visited actions do not ascend within a ply", Code.BAD_VISITS)


def _check_lengths(record: GameRecord) -> None:
    """Raise BadRecord if a column does not have one entry for each ply, or for each visited action."""
    total = int(record.visited.sum(dtype=np.int64))
    for name in _COLUMNS:
        length, expected = len(getattr(record, name)), total if name in OF_VISITS else record.plies
        if length != expected:
            raise BadRecord(f"column {name} has {length} entries, expected {expected}")
