"""Weights coming in from the trainer, as a pure state machine: messages in, instructions out.

    PUT_WEIGHTS -> WEIGHTS_WANTED(offset) -> CHUNK, CHUNK, ... each acknowledged by WEIGHTS_WANTED(next)
                -> hash checked, made durable by whoever owns the disk -> WEIGHTS_WANTED(size)

A chunk that is not the next one is answered with the offset that is, so a lost one costs a round trip.
One upload at a time; an offer of other weights ends the one under way.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, Refused, WeightsInfo, WeightsWanted

MAX_SIZE = 4 * 1024**3
"""Most bytes in one weights file."""
DISK_RETRY = 10.0
"""Seconds after which weights that could not be written may be offered again."""


@dataclass(frozen=True)
class Reply:
    """Answer the trainer."""

    message: WeightsWanted | Refused


@dataclass(frozen=True)
class Begin:
    """Start an empty file for these bytes."""

    sha256: bytes


@dataclass(frozen=True)
class Append:
    """Append the current chunk to that file."""

    sha256: bytes


@dataclass(frozen=True)
class Store:
    """The file is complete and its hash is right: make it durable, then call `stored` or `failed`."""

    info: WeightsInfo


@dataclass(frozen=True)
class Discard:
    """Remove the unfinished file."""

    sha256: bytes


Instruction = Reply | Begin | Append | Store | Discard


class WeightsUpload:
    """The current upload, if there is one."""

    def __init__(self, game: str) -> None:
        self._game = game
        self._info: WeightsInfo | None = None
        self._received = 0
        self._digest = hashlib.sha256()
        self._storing = False

    def offer(self, info: WeightsInfo, newest: WeightsInfo | None, *, kept: bool) -> list[Instruction]:
        """Handle PUT_WEIGHTS. `newest`: the newest weights that are stored; `kept`: the bytes are here
        already."""
        if newest is not None and (info.version, info.sha256) == (newest.version, newest.sha256):
            return [Reply(WeightsWanted(info.sha256, info.size))]
        if reason := self._objection(info, newest):
            return [_refuse(reason)]
        if self._info is not None and self._info.sha256 == info.sha256:
            return self._resume(info)
        discard: list[Instruction] = [] if self._info is None else [Discard(self._info.sha256)]
        if self._storing:
            return [Reply(Refused(Code.BUSY, "other weights are being stored", retry_after=1.0))]
        self._info, self._received, self._digest = info, 0, hashlib.sha256()
        if kept:
            self._storing = True
            return [*discard, Store(info)]
        return [*discard, Begin(info.sha256), Reply(WeightsWanted(info.sha256, 0))]

    def chunk(self, message: Chunk, data: bytes | memoryview) -> list[Instruction]:
        """Handle CHUNK with its bytes."""
        info = self._info
        if info is None or info.sha256 != message.sha256:
            return [_refuse("nobody offered these weights: send PUT_WEIGHTS first")]
        if self._storing:
            return []
        if message.offset != self._received:
            return [Reply(WeightsWanted(info.sha256, self._received))]
        if not 0 < len(data) <= min(CHUNK, info.size - self._received):
            return [
                *self._abort(),
                _refuse(f"a chunk of {len(data)} bytes at {message.offset} of {info.size}"),
            ]
        self._received += len(data)
        self._digest.update(data)
        append = Append(info.sha256)
        if self._received < info.size:
            return [append, Reply(WeightsWanted(info.sha256, self._received))]
        if self._digest.digest() != info.sha256:
            return [*self._abort(), _refuse("the bytes do not have the sha256 that was offered")]
        self._storing = True
        return [append, Store(info)]

    def stored(self) -> list[Instruction]:
        """Note that `Store` has been carried out."""
        assert self._info is not None
        done = Reply(WeightsWanted(self._info.sha256, self._info.size))
        self._info, self._storing = None, False
        return [done]

    def failed(self, reason: str) -> list[Instruction]:
        """Handle a failure of the disk: the trainer may offer the weights again later."""
        refused = Refused(Code.BUSY, f"the server cannot store weights: {reason}", retry_after=DISK_RETRY)
        return [*self._abort(), Reply(refused)]

    def refused(self, reason: str) -> list[Instruction]:
        """Handle a complete file that cannot be used."""
        return [*self._abort(), _refuse(reason)]

    def _resume(self, info: WeightsInfo) -> list[Instruction]:
        """Continue an upload when the same bytes are offered again (the version may have changed)."""
        self._info = info
        return [] if self._storing else [Reply(WeightsWanted(info.sha256, self._received))]

    def _abort(self) -> list[Instruction]:
        ended, self._info, self._storing = self._info, None, False
        return [] if ended is None else [Discard(ended.sha256)]

    def _objection(self, info: WeightsInfo, newest: WeightsInfo | None) -> str:
        """Return why these weights are not wanted, or ''."""
        if info.game != self._game:
            return f"these weights are for the game {info.game}, this run plays {self._game}"
        if not 0 < info.size <= MAX_SIZE:
            return f"{info.size} bytes of weights, expected 1 to {MAX_SIZE}"
        if newest is not None and info.version <= newest.version:
            return f"version {info.version} is not newer than the server's, which is {newest.version}"
        return ""


def _refuse(reason: str) -> Reply:
    return Reply(Refused(Code.WEIGHTS_REFUSED, reason))
