"""Weights are announced until the server has them, or says why it does not want them."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.errors import Code
from protocol.messages import CHUNK, Chunk, GetChunk, Refused, WeightsInfo
from trainer import weights as weights_out
from trainer.config import TrainerConfig
from trainer.figures import Figures
from trainer.weights import PATIENCE, WeightsOut

TURN: Any = SimpleNamespace(step=10)


class Training:
    """A training loop whose version rises by one with each publication."""

    has_checkpoint, step, architecture = True, 10, "tiny"

    def __init__(self, size: int) -> None:
        self._size = size
        self._version = 0

    def export_weights(self, server_version: int) -> tuple[int, int, bytes]:
        self._version = max(self._version, server_version) + 1
        return self._version, 10, bytes([self._version]) * self._size

    def measured(self) -> None:
        """Measure nothing."""


class Background:
    """Runs everything at once."""

    async def in_training_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def save(self, _: object) -> bool:
        return True

    def wake(self) -> None:
        """Do nothing, because the test itself publishes."""


SERVERS = WeightsInfo(0, 0, bytes(32), 1, "tic_tac_toe")


class Out:
    """The weights of one trainer, and what it sends."""

    def __init__(self, size: int = 7) -> None:
        self.sent: list[Any] = []
        self._connection: Any = SimpleNamespace(send=self._send, welcome=None)
        self.weights = WeightsOut(TrainerConfig(), self._connection, Figures(0.0), Background())
        self.committer = SimpleNamespace(newest_version=0)
        game = SimpleNamespace(name="tic_tac_toe")
        self._run: Any = SimpleNamespace(training=Training(size), game=game, committer=self.committer)

    def _send(self, message: Any, *frames: Any) -> bool:
        self.sent.append((message, *frames) if frames else message)
        return True

    def join(self, now: float) -> None:
        self._connection.welcome = SimpleNamespace(weights=SERVERS)
        self.weights.joined(self._connection.welcome, now)

    def lose(self) -> None:
        self._connection.welcome = None
        self.weights.lost()

    def publish(self) -> None:
        asyncio.run(self.weights._publish(self._run))

    def announced(self) -> list[int]:
        """Publish if it is due, and return the versions that were announced so far."""
        asyncio.run(self.weights.publish_if_due(self._run, TURN))
        return [message.version for message in self.sent if isinstance(message, WeightsInfo)]

    def newest(self) -> WeightsInfo:
        """Return the last announcement."""
        return [message for message in self.sent if isinstance(message, WeightsInfo)][-1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(weights_out.time, "monotonic", lambda: clock.now)
    return clock


def published(count: int = 1, size: int = 7) -> Out:
    out = Out(size=size)
    out.join(100.0)
    for _ in range(count):
        out.publish()
    return out


def test_announced_weights_are_handed_out_in_chunks(clock: Any) -> None:
    out = published(size=CHUNK + 5)
    info = out.newest()
    for offset, size in ((CHUNK, 5), (0, CHUNK), (CHUNK + 5, 0)):
        out.weights.on_message(GetChunk(info.sha256, offset), clock.now)
        assert out.sent[-1] == (Chunk(info.sha256, offset), bytes([1]) * size)
    out.weights.on_message(info, clock.now)
    assert out.weights.server_version == 1
    out.weights.on_message(GetChunk(info.sha256, 0), clock.now)
    assert out.sent[-1].code == Code.UNKNOWN_WEIGHTS


def test_silence_leads_to_a_new_announcement(clock: Any) -> None:
    out = published()
    info = out.newest()
    out.weights.tick(clock.now + PATIENCE - 1)
    out.weights.on_message(GetChunk(info.sha256, 0), clock.now + 5)
    out.weights.tick(clock.now + PATIENCE + 4)
    assert out.sent.count(info) == 1
    out.weights.tick(clock.now + PATIENCE + 5)
    assert out.sent.count(info) == 2


def test_weights_are_announced_again_in_a_new_session() -> None:
    out = published()
    info = out.newest()
    out.lose()
    out.weights.tick(1000.0)
    assert out.sent.count(info) == 1
    out.join(1001.0)
    assert out.sent.count(info) == 2


def test_only_the_newest_waits(clock: Any) -> None:
    out = published(3)
    first = out.newest()
    assert first.version == 1
    out.weights.on_message(first, clock.now)
    assert out.newest().version == 3


def test_weights_whose_number_is_taken_are_numbered_anew(clock: Any) -> None:
    """Neither weights that wait nor an older version of the server change that."""
    out = published(2)
    out.weights.on_message(SERVERS, clock.now)
    out.weights.on_message(WeightsInfo(9, 5, b"9" * 32, 1, "tic_tac_toe"), clock.now)
    assert out.announced() == [1, 10]


def test_a_server_that_lost_its_weights_gets_them_without_a_new_step(clock: Any) -> None:
    """It gets them once in a session, with a version above those of all stored games."""
    out = Out()
    out.weights.begin(TURN.step, clock.now)
    out.committer.newest_version = 200
    out.join(clock.now)
    assert out.announced() == out.announced() == [201]
    out.weights.on_message(Refused(Code.WEIGHTS_REFUSED, "not finite", 201), clock.now)
    assert out.announced() == [201]


def test_at_a_stop_weights_whose_number_was_taken_are_published_too(monkeypatch) -> None:
    monkeypatch.setattr(weights_out, "LAST_WEIGHTS", 0.1)
    out = published()
    out.weights.on_message(WeightsInfo(9, 5, b"9" * 32, 1, "tic_tac_toe"), 100.0)
    asyncio.run(out.weights.publish_last(out._run))
    assert out.newest().version == 10


def test_a_disk_without_room_for_the_first_checkpoint_is_tried_again_later(clock: Any, caplog) -> None:
    """Until then nothing is published, and a trainer that stops does not wait for it."""
    out, turn = Out(), SimpleNamespace(step=10**6)
    out.join(clock.now)
    out._run.training.has_checkpoint = False
    tried = list[float]()

    async def save(_: object) -> bool:
        tried.append(clock.now)
        return False

    out.weights._background.save = save  # type: ignore[method-assign]
    for clock.now in (100.0, 100.5, 129.5, 130.0):
        asyncio.run(out.weights.publish_if_due(out._run, turn))
    assert tried == [100.0, 130.0]
    asyncio.run(out.weights.publish_last(out._run))
    assert (out.sent, caplog.text) == ([], "")


def test_refused_weights_are_given_up_and_the_next_follow(clock: Any, caplog) -> None:
    out = published(2)
    out.weights.on_message(Refused(Code.WEIGHTS_REFUSED, "not finite", 7), clock.now)
    out.weights.on_message(Refused(Code.BAD_MESSAGE, "this acknowledgement came damaged"), clock.now)
    assert out.newest().version == 1
    assert "refused a message: bad_message: this acknowledgement came damaged" in caplog.text
    out.weights.on_message(Refused(Code.WEIGHTS_REFUSED, "not finite", 1), clock.now)
    assert out.newest().version == 2
    assert "the server refused weights version 1: weights_refused: not finite" in caplog.text


def test_a_busy_server_is_told_later(clock: Any) -> None:
    out = published()
    out.weights.on_message(Refused(Code.INTERNAL, "", retry_after=3.0), clock.now)
    out.weights.tick(clock.now + 2.0)
    assert len(out.sent) == 1
    out.weights.tick(clock.now + 3.0)
    assert out.sent == [out.newest()] * 2
