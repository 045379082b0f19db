"""What a match says of its openings."""

from __future__ import annotations

from evaluation.match.openings import describe, openings_for
from games import get_game


def test_a_match_says_how_its_games_begin() -> None:
    game = get_game("tic_tac_toe")
    assert describe(openings_for(game, "start", 5, 0)) == "the usual start of the game"
    text = "3 random, each played once by either side"
    assert describe(openings_for(game, "random:1", 3, 0)) == text
