"""Names of the games, without importing any of them (for `--help` and configuration checks)."""

GAME_MODULES = {
    "tic_tac_toe": "games.tic_tac_toe",
    "connect_four": "games.connect_four",
    "chess": "games.chess",
}

GAME_NAMES = tuple(GAME_MODULES)
