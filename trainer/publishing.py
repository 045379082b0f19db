"""Getting weights to the server, as a pure state machine: events in, instructions out.

    offer -> PUT_WEIGHTS -> WEIGHTS_WANTED(offset) -> chunks, a few ahead of the acknowledgements
          -> WEIGHTS_WANTED(size): stored

Whatever is lost on the way (a message, the connection, the server), the same weights are offered again;
the server says how much of them it has. Newer weights wait until those under way are through, and only
the newest wait. A refusal is looked into: with a version that is taken the weights are renumbered,
otherwise they are given up, and the next ones are offered as usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from protocol.messages import (
    CHUNK,
    Chunk,
    GetWeights,
    Message,
    PutWeights,
    Refused,
    WeightsInfo,
    WeightsWanted,
)

CHUNKS_AHEAD = 8
"""Chunks sent before the first of them is acknowledged: 4 MiB."""
PATIENCE = 10.0
"""Seconds without an answer after which the weights are offered again."""


@dataclass(frozen=True)
class Send:
    """A message to send, with the frame after it if there is one."""

    message: Message
    frame: bytes | memoryview | None = None


@dataclass(frozen=True)
class Published:
    """The server has stored these weights."""

    info: WeightsInfo


@dataclass(frozen=True)
class Renumber:
    """The server already has `version`: offer the newest weights again with the next number."""

    version: int


@dataclass(frozen=True)
class GivenUp:
    """The server rejects these weights, for `reason`."""

    info: WeightsInfo
    reason: str


Instruction = Send | Published | Renumber | GivenUp


@dataclass(frozen=True)
class Upload:
    """Weights to publish; `data` is the whole file."""

    info: WeightsInfo
    data: bytes


class _State(Enum):
    IDLE = "idle"
    WAITING = "waiting"
    """Not connected, or the server asked to try again later."""
    OFFERED = "offered"
    SENDING = "sending"
    REFUSED = "refused"
    """Refused; asked for the current version, to learn why."""


class Publisher:
    """The newest weights on their way to the server. Times are seconds on any one clock."""

    def __init__(self) -> None:
        self._state = _State.IDLE
        self._joined = False
        self._current: Upload | None = None
        self._next: Upload | None = None
        self._refusal = ""
        self._acknowledged = 0
        self._sent = 0
        self._deadline = 0.0

    @property
    def busy(self) -> bool:
        """Return whether weights are still being uploaded."""
        return self._current is not None

    def offer(self, upload: Upload, now: float) -> list[Instruction]:
        """Offer new weights."""
        if self._current is not None:
            self._next = upload
            return []
        self._current = upload
        return self._put(now)

    def on_joined(self, now: float) -> list[Instruction]:
        """Handle a new session."""
        self._joined = True
        return self._put(now)

    def on_lost(self) -> list[Instruction]:
        """Handle the end of the session: everything in progress is offered again at the next `on_joined`."""
        self._joined = False
        if self._current is not None:
            self._state = _State.WAITING
        return []

    def on_wanted(self, message: WeightsWanted, now: float) -> list[Instruction]:
        """Handle a request for the bytes from `offset` on, which acknowledges those before it."""
        upload = self._current
        if upload is None or message.sha256 != upload.info.sha256:
            return []
        if self._state not in (_State.OFFERED, _State.SENDING) or message.offset > upload.info.size:
            return []
        if message.offset == upload.info.size:
            return [Published(upload.info), *self._forward(now)]
        if self._state is _State.OFFERED:
            self._sent = self._acknowledged = message.offset
        self._state = _State.SENDING
        self._acknowledged = max(self._acknowledged, message.offset)
        self._deadline = now + PATIENCE
        return self._chunks(upload)

    def on_refused(self, message: Refused, now: float) -> list[Instruction]:
        """Handle a refusal of what we sent."""
        if self._current is None or self._state in (_State.WAITING, _State.REFUSED):
            return []
        if message.retry_after > 0:
            self._state = _State.WAITING
            self._deadline = now + message.retry_after
            return []
        self._state = _State.REFUSED
        self._refusal = f"{message.code}: {message.reason}"
        self._deadline = now + PATIENCE
        return [Send(GetWeights())]

    def on_info(self, info: WeightsInfo, now: float) -> list[Instruction]:
        """Handle the version that the server has, which shows whether a taken number was the reason of a
        refusal."""
        upload = self._current
        if upload is None or self._state is not _State.REFUSED:
            return []
        if info.sha256 == upload.info.sha256:
            return [Published(upload.info), *self._forward(now)]
        if info.version >= upload.info.version:
            self._current = self._next = None
            self._state = _State.IDLE
            return [Renumber(info.version)]
        return [GivenUp(upload.info, self._refusal), *self._forward(now)]

    def tick(self, now: float) -> list[Instruction]:
        """Handle timeouts. To be called every second or so."""
        if self._current is None or not self._joined or now < self._deadline:
            return []
        if self._state is _State.REFUSED:
            return [GivenUp(self._current.info, self._refusal), *self._forward(now)]
        return self._put(now)

    def _put(self, now: float) -> list[Instruction]:
        if self._current is None:
            return []
        if not self._joined:
            self._state = _State.WAITING
            return []
        self._state = _State.OFFERED
        self._deadline = now + PATIENCE
        return [Send(PutWeights(self._current.info))]

    def _forward(self, now: float) -> list[Instruction]:
        """Go on from the current weights to those that wait, if any."""
        self._current, self._next = self._next, None
        self._state = _State.IDLE
        return self._put(now)

    def _chunks(self, upload: Upload) -> list[Instruction]:
        sends: list[Instruction] = []
        limit = min(self._acknowledged + CHUNKS_AHEAD * CHUNK, upload.info.size)
        self._sent = max(self._sent, self._acknowledged)
        while self._sent < limit:
            piece = memoryview(upload.data)[self._sent : self._sent + CHUNK]
            sends.append(Send(Chunk(upload.info.sha256, self._sent), piece))
            self._sent += len(piece)
        return sends
