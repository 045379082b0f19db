"""The games for tests that hold for any game."""

from azselfplay.games import GAME_NAMES

PLAYED = {"go": "go_9x9"}
"""Games that replace those that take long; these still have boards of more than one word, and 162 moves."""
SHARING = ("chess960",)
"""Games that share another game's compiled code; tests of their own show how they differ."""
EVERY_GAME = tuple(PLAYED.get(name, name) for name in GAME_NAMES if name not in SHARING)
