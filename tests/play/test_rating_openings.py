"""Openings in self-play: recognised by their moves, and counted per version of the weights."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from azselfplay.games import get_game
from azselfplay.games.chess.knowledge import MOST_PLAYED
from azselfplay.games.game_history import replay
from azselfplay.play.elo import wilson
from azselfplay.play.opening_counts import binned, draw_openings, opening_in, openings_of

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


def test_bins_hold_whole_versions_and_every_game() -> None:
    games = [(version, "x" if version % 2 else None) for version in range(30) for _ in range(version + 1)]
    bins = binned(games, 5)
    assert len(bins) == 5
    assert sum(one.games for one in bins) == len(games)
    assert sum(one.counts.get("x", 0) for one in bins) == sum(name == "x" for _, name in games)
    assert [later.first_version - earlier.last_version for earlier, later in pairwise(bins)] == [1] * 4
    assert max(one.games for one in bins) < 2 * min(one.games for one in bins)
    assert binned([], 5) == []


def test_wilson_covers_the_share_it_was_drawn_from() -> None:
    counts = np.random.default_rng(1).binomial(200, 0.03, size=2000)
    inside = [low <= 0.03 <= high for low, high in (wilson(int(count), 200) for count in counts)]
    assert 0.92 <= np.mean(inside) <= 0.98
    assert wilson(0, 50)[0] == 0
    assert wilson(50, 50)[1] == pytest.approx(1)


def test_openings_are_drawn_as_png_and_svg(tmp_path: Path) -> None:
    bins = binned([(version, "a" if version < 3 else "b") for version in range(9)], 4)
    files = draw_openings(tmp_path, "a run", bins, ["a", "b", "never played"])
    assert [path.suffix for path in files] == [".png", ".svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    svg = files[1].read_text()
    assert all(f"<!-- {text} -->" in svg for text in ("a run", "never played", "share of games [%]"))
