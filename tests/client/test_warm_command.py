"""`python -m client.warm` compiles, or names in one sentence what it does not know."""

import pytest

from azselfplay.host.exits import Exit
from client.warm import main


def test_a_game_and_selection_are_made_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tic_tac_toe:puct"]) == 0
    assert "tic_tac_toe:puct: rules and search ready in " in capsys.readouterr().out


@pytest.mark.parametrize(("name", "near"), [("chesss", "chess"), ("tic_tac_toe:gumble", "gumbel")])
def test_what_is_not_there_names_the_nearest(name: str, near: str, capsys) -> None:
    assert main(["tic_tac_toe", name]) == Exit.CONFIG
    error = capsys.readouterr().err
    assert error.startswith("client.warm: error: ")
    assert f"the nearest is {near}" in error


def test_without_a_game_it_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == Exit.USAGE
    assert "the following arguments are required: GAME" in capsys.readouterr().err


def test_a_network_of_another_family_changes_nothing_that_is_compiled() -> None:
    assert main(["tic_tac_toe:puct:small"]) == 0
