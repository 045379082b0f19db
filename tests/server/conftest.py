"""Fixtures of the server's tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from front_bench import Play, play_beside_front


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Return a function that runs a scenario beside a front with real sockets."""
    return lambda scenario: asyncio.run(play_beside_front(tmp_path, scenario))
