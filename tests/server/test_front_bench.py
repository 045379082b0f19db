"""The test bench itself: a test that fails must not hang."""

from __future__ import annotations

import pytest
import zmq
from front_bench import Bench, Play

from runtime.sockets import Socket


def test_a_scenario_that_fails_with_a_socket_open_ends(play: Play) -> None:
    """A traceback keeps the socket alive, and ZeroMQ's `term` would wait for it without end."""
    left: list[Socket] = []

    async def scenario(bench: Bench) -> None:
        left.append(bench.context.socket(zmq.DEALER))
        raise ArithmeticError

    with pytest.raises(ExceptionGroup):
        play(scenario)
    assert left[0].closed
