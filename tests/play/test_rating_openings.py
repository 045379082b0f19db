"""Openings in self-play: recognised by their moves, and counted per version of the weights."""

from __future__ import annotations

from itertools import pairwise

import pytest

from azselfplay.games import get_game
from azselfplay.games.chess.knowledge import MOST_PLAYED
from azselfplay.games.game_history import replay
from azselfplay.play.opening_counts import opening_in, openings_of

CHESS_GAME = get_game("chess")


@pytest.mark.parametrize(
    ("moves", "name"),
    [
        ("c2c4 e7e5", "A10 English Opening"),
        ("d2d4 d7d5 c2c4 e7e6", "D06 Queen's Gambit"),
        ("e2e4 c7c5 g1f3 d7d6 d2d4", "B50 Sicilian Defence"),
        ("e2e4 e7e5 g1f3 b8c6 f1b5 a7a6", "C60 Ruy Lopez"),
        ("e2e4 e7e5 g1f3 b8c6 f1c4", None),
        ("e2e4", None),
    ],
)
def test_an_opening_is_known_by_its_moves(moves: str, name: str | None) -> None:
    actions = replay(CHESS_GAME, "", moves.split()).actions
    assert opening_in(actions, openings_of(CHESS_GAME)) == name


def test_the_twelve_openings_exclude_each_other() -> None:
    """No opening's moves are the beginning of another's, so the shares add up to at most one."""
    lines = sorted(openings_of(CHESS_GAME).values())
    assert len(lines) == len(MOST_PLAYED) == 12
    assert all(later[: len(earlier)] != earlier for earlier, later in pairwise(lines))


def test_other_games_count_their_first_moves() -> None:
    assert list(openings_of(get_game("connect_four"))) == [f"first move {column}" for column in range(1, 8)]
