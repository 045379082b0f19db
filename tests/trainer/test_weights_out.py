"""Weights that the server refuses do not end a run in rounds, in which no others come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.messages import PutWeights, Refused, WeightsInfo
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


def test_refused_weights_of_a_round_are_offered_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(weights_out.time, "monotonic", lambda: clock.now)
    sent: list[object] = []
    connection: Any = SimpleNamespace(send=lambda message, *_: sent.append(message))
    figures: Any = SimpleNamespace(weights_version=0, held_out=None)
    out = WeightsOut(TrainerConfig(), connection, figures, Background())
    run: Any = SimpleNamespace(training=Training(), game=SimpleNamespace(name="tic_tac_toe"))
    welcome: Any = SimpleNamespace(weights=None)
    out.joined(welcome, clock.now)

    def offers() -> int:
        asyncio.run(out.publish_if_due(run, TURN))
        return sum(isinstance(message, PutWeights) for message in sent)

    assert (offers(), offers()) == (1, 1)
    out.on_message(Refused("bad_weights", "the bytes do not have the sha256"), clock.now)
    out.on_message(WeightsInfo(0, 0, bytes(32), 1, "tic_tac_toe"), clock.now)
    assert offers() == 1, "not at once"
    clock.now += OFFER_AGAIN
    assert offers() == 2
