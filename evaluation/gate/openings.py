"""Where the games of a gate begin: as many different openings as there are pairs of games.

Both players choose without chance, so two games from one opening would be one game told twice. AlphaGo Zero
had its chance in the random symmetry of each evaluation, which most games have not.
"""

from __future__ import annotations

from evaluation.match.openings import RANDOM_PLIES, Opening, book_openings, random_openings
from games.spec import Game


def gate_openings(game: Game, count: int, seed: int, start: str = "") -> list[Opening]:
    """Up to `count` openings to different positions: the game's book, then random plies.

    Random lines are `RANDOM_PLIES` long, a quarter of the longest game if that is less, and a ply longer each
    time there are too few of them. Fewer come back only if the game has no more.
    """
    found: dict[bytes, Opening] = {}
    for opening in [] if start else book_openings(game):
        found.setdefault(opening.game_history(game).state.tobytes(), opening)
    plies = max(1, min(RANDOM_PLIES, game.max_plies // 4))
    while len(found) < count and plies <= max(RANDOM_PLIES, game.max_plies // 2):
        for opening in random_openings(game, count, plies, seed, start):
            found.setdefault(opening.game_history(game).state.tobytes(), opening)
        plies += 1
    return list(found.values())[:count]
