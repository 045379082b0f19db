"""Weights that the server refuses do not end a run in rounds, in which no others come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.messages import PutWeights, Refused, WeightsInfo, WeightsWanted
from trainer import weights_out
from trainer.config import TrainerConfig
from trainer.weights_out import OFFER_AGAIN, WeightsOut

TURN: Any = SimpleNamespace(step=10, version=1)


class Training:
    """Has the weights of round 1."""

    has_checkpoint, round_games, step, architecture = True, 5, 10, "tiny"

    def publish(self, _: int) -> tuple[int, int, bytes]:
        return 1, 10, b"weights"

    def held_out(self) -> None:
        """Nothing is measured."""

    probe_values = known_errors = held_out


class Background:
    """Runs everything at once."""

    async def in_training_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def save(self, _: object) -> bool:
        return True

    def wake(self) -> None:
        """Training is asked by the test."""


RUN: Any = SimpleNamespace(training=Training(), game=SimpleNamespace(name="tic_tac_toe"))
SERVERS = WeightsInfo(0, 0, bytes(32), 1, "tic_tac_toe")


class Out:
    """The weights of one trainer in rounds, and what it sends."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        connection: Any = SimpleNamespace(send=lambda message, *_: self.sent.append(message))
        figures: Any = SimpleNamespace(weights_version=0, held_out=None)
        self.weights = WeightsOut(TrainerConfig(), connection, figures, Background())

    def join(self, now: float) -> None:
        welcome: Any = SimpleNamespace(weights=SERVERS)
        self.weights.joined(welcome, now)

    def offers(self) -> int:
        """Publish if it is due, and return how often weights were offered so far."""
        asyncio.run(self.weights.publish_if_due(RUN, TURN))
        return sum(isinstance(message, PutWeights) for message in self.sent)


def test_a_server_that_lost_the_weights_of_a_round_before_they_were_in_use_is_sent_them_again() -> None:
    """It was killed between storing and loading them, and says in its welcome with what it plays."""
    out = Out()
    out.join(0.0)
    assert out.offers() == 1
    info = out.sent[0].info
    out.weights.on_message(WeightsWanted(info.sha256, info.size), 1.0)
    assert out.weights.server_version == 1
    assert out.offers() == 1
    out.weights.lost()
    out.join(2.0)
    assert out.offers() == 2


def test_refused_weights_of_a_round_are_offered_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(weights_out.time, "monotonic", lambda: clock.now)
    whole = Out()
    whole.join(clock.now)
    out, offers = whole.weights, whole.offers
    assert (offers(), offers()) == (1, 1)
    out.on_message(Refused("bad_weights", "the bytes do not have the sha256"), clock.now)
    out.on_message(SERVERS, clock.now)
    assert offers() == 1, "not at once"
    clock.now += OFFER_AGAIN
    assert offers() == 2
