"""What a match and a ladder say of their openings, and which they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from azselfplay.games import get_game
from azselfplay.host.exits import Fatal
from azselfplay.play.openings import Opening, check_lengths, describe, openings_for
from azselfplay.play.tournament import all_openings


def test_a_match_says_how_its_games_begin() -> None:
    game = get_game("tic_tac_toe")
    assert describe(ids(openings_for(game, "start", 5, 0))) == "the usual start of the game"
    text = "3 random, each played once by either side"
    assert describe(ids(openings_for(game, "random:1", 3, 0))) == text
    text = "9 random, each played up to 3 times by either side"
    assert describe(ids(openings_for(game, "random:1", 20, 0))) == text
    assert describe([]) == "none was played from both sides"


def ids(openings: Sequence[Opening]) -> list[str]:
    return [opening.id for opening in openings]


def test_a_file_that_names_an_opening_twice_gives_all_the_others(tmp_path: Path) -> None:
    game, file = get_game("connect_four"), tmp_path / "openings"
    lines = [f"{first} {second} {third}" for first in "1234" for second in "1234" for third in "1234"]
    file.write_text("\n".join(["1 1 1", *lines]))
    assert len(all_openings(game, str(file), 0)) == len(lines)


def test_an_opening_as_long_as_a_game_may_be_is_refused() -> None:
    openings = openings_for(get_game("chess"), "random:4", 3, 0)
    check_lengths(openings, 0)
    check_lengths(openings, 5)
    with pytest.raises(Fatal, match="an opening has 4 plies"):
        check_lengths(openings, 4)
