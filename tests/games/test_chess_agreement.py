"""Random games in step with python-chess; `chess_agreement.py` plays many more."""

import pytest
from chess_agreement import CHESS, CHESS960, compare_games

from azselfplay.games.spec import Game

RARE = ("checkmate", "threefold_repetition", "castling", "en_passant", "promotion")


@pytest.mark.parametrize(
    ("game", "first_seed", "games"),
    [
        *((CHESS, first_seed, 50) for first_seed in range(0, 200, 50)),
        (CHESS960, 0, 50),
        pytest.param(CHESS960, 50, 950, marks=pytest.mark.nightly),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_rules_agree_with_python_chess_at_every_ply_of_random_games(
    game: Game, first_seed: int, games: int
) -> None:
    met = compare_games(first_seed, first_seed + games, game)
    assert met["games"] == games
    for name in RARE if game is CHESS960 else (*RARE, "fifty_moves"):
        assert met[name] > 0, f"these seeds never met {name}"
