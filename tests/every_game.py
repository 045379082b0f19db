"""The games that a test goes through which is about any game."""

from __future__ import annotations

from games import GAME_NAMES

PLAYED = {"go": "go_9x9"}
"""What is played instead of a game that takes long: boards in more than one word, and games of 162 moves."""
EVERY_GAME = tuple(PLAYED.get(name, name) for name in GAME_NAMES)
