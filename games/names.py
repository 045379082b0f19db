"""Names of the games, without importing any of them (for `--help` and configuration checks)."""

import re

GAME_MODULES = {
    "tic_tac_toe": "games.tic_tac_toe",
    "connect_four": "games.connect_four",
    "chess": "games.chess",
    "dots_and_boxes": "games.dots_and_boxes",
}

GAME_NAMES = tuple(GAME_MODULES)

SIZED_GAMES = frozenset({"dots_and_boxes"})
"""Games that have other boards than the usual one: their modules have `game_of_size(rows, cols)`."""
SIZED_NAME = re.compile(r"(.+)_(\d{1,3})x(\d{1,3})")
"""Such a game, rows x columns."""

LISTED = ", ".join(GAME_NAMES) + " (3x3; dots_and_boxes_2x4 and so on are other sizes)"
"""For `--help`."""

DEFAULT_GAME = "chess"
"""Where no game is said, and none follows from a weights file."""


def is_game(name: str) -> bool:
    """Whether `games.get_game` may know it: sizes are looked at when the game is imported."""
    sized = SIZED_NAME.fullmatch(name)
    return name in GAME_MODULES or (sized is not None and sized[1] in SIZED_GAMES)
