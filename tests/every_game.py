"""The games for tests that hold for any game."""

from __future__ import annotations

from azselfplay.games import GAME_NAMES

PLAYED = {"go": "go_9x9"}
"""What is played instead of a game that takes long: boards of more than one word, and games of 162 moves."""
SHARING = ("chess960",)
"""Games whose compiled code is another game's: tests of their own show how they differ."""
EVERY_GAME = tuple(PLAYED.get(name, name) for name in GAME_NAMES if name not in SHARING)
