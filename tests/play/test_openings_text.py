"""A ladder takes each opening once; an opening as long as a game is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from azselfplay.games import get_game
from azselfplay.host.exits import Fatal
from azselfplay.play.openings import check_lengths, openings_for
from azselfplay.play.tournament import all_openings


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
