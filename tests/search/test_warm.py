"""`python -m search.warm` compiles, or names in one sentence what it does not know."""

from __future__ import annotations

import pytest

from search.warm import WRONG_NAME, main


def test_a_game_and_selection_are_made_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tic_tac_toe:puct"]) == 0
    assert "tic_tac_toe:puct: rules and search ready in " in capsys.readouterr().out


@pytest.mark.parametrize(("name", "near"), [("chesss", "chess"), ("tic_tac_toe:gumble", "gumbel")])
def test_what_is_not_there_names_the_nearest(
    name: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tic_tac_toe", name]) == WRONG_NAME
    error = capsys.readouterr().err
    assert error.startswith("search.warm: error: ")
    assert f"the nearest is {near}" in error
