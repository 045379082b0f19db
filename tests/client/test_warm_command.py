"""`python -m client.warm` compiles, or names in one sentence what it does not know."""

import pytest

from azselfplay.host.exits import Exit, Fatal
from client.warm import main


@pytest.mark.parametrize("net", ["", "small"])
def test_a_game_and_selection_are_made_ready(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tic_tac_toe", "puct", net]) == 0
    assert f"tic_tac_toe:puct:{net}: rules and search ready in " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("game", "selection", "near"), [("chesss", "puct", "chess"), ("tic_tac_toe", "gumble", "gumbel")]
)
def test_what_is_not_there_names_the_nearest(game: str, selection: str, near: str) -> None:
    with pytest.raises(Fatal, match=f"the nearest is {near}") as raised:
        main([game, selection, ""])
    assert raised.value.code == Exit.CONFIG
