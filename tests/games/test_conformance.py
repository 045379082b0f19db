"""Every game keeps the promises that the rest of the system relies on (`games.conformance`)."""

import numpy as np
import pytest
from every_game import EVERY_GAME, SHARING

from azselfplay.games import Game, get_game
from azselfplay.games.conformance import CHECKS, Check
from azselfplay.games.playouts import playouts
from azselfplay.games.stubs import Movers


@pytest.fixture(params=[*EVERY_GAME, *SHARING])
def game(request: pytest.FixtureRequest) -> Game:
    return get_game(request.param)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_game_passes_every_check(game: Game, check: Check) -> None:
    check(game, playouts(game.name))


def test_movers_of_nonsense_are_refused(game: Game) -> None:
    with pytest.raises(ValueError, match=r"\w \w"):
        Movers(game)("nonsense", np.zeros(1, np.uint16))
