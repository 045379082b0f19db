"""Names of the games, without importing any of them (for `--help` and configuration checks)."""

GAME_MODULES = {
    "tic_tac_toe": "games.tic_tac_toe",
    "connect_four": "games.connect_four",
    "chess": "games.chess",
}

GAME_NAMES = tuple(GAME_MODULES)

LISTED = ", ".join(GAME_NAMES)
"""For `--help`."""

DEFAULT_GAME = "chess"
"""Where no game is said, and none follows from a weights file."""


def is_game(name: str) -> bool:
    """Whether `games.get_game` may know it."""
    return name in GAME_MODULES
