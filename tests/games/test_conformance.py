"""Every game keeps the promises that the rest of the system relies on (`games.conformance`); games that have
a slow twin agree with it."""

import numpy as np
import pytest
from every_game import EVERY_GAME, SHARING
from naive_games import NAIVE_NAMES

from azselfplay.games import Game, get_game
from azselfplay.games.conformance import CHECKS, Check, bits, features, legal, playouts
from azselfplay.games.stubs import Movers


@pytest.fixture(params=[*EVERY_GAME, *SHARING])
def game(request: pytest.FixtureRequest) -> Game:
    return get_game(request.param)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_game_passes_every_check(game: Game, check: Check) -> None:
    check(game, playouts(game.name))


@pytest.mark.parametrize("name", ["chess", "shogi", "go_9x9"])
def test_most_moves_are_ruled_out_as_wins(name: str) -> None:
    game, moves, possible = get_game(name), 0, 0
    for playout in playouts(name):
        for n in range(1, len(playout.positions), 3):
            positions = playout.positions[: n + 1].copy()  # the last one is scratch
            found = np.array(legal(game, positions, n), np.uint16)
            moves += len(found)
            possible += game.rules.maybe_wins(positions, n, found, found)
    assert possible <= 0.1 * moves


@pytest.mark.parametrize("name", NAIVE_NAMES)
def test_a_line_may_begin_in_the_middle_of_a_game(name: str) -> None:
    """The first position of a line is in the features, and earlier ones are not."""
    game = get_game(name)
    planes = game.planes_per_position
    for playout in playouts(name):
        whole = features(game, playout.positions, len(playout.positions), 2)
        assert np.array_equal(features(game, playout.positions[-2:], 2, 2), whole)
        late = features(game, playout.positions[-1:], 1, 2)
        assert np.array_equal(bits(game, late, 2)[:planes], bits(game, whole, 2)[:planes])
        assert not bits(game, late, 2)[planes:].any()


def test_movers_of_nonsense_are_refused(game: Game) -> None:
    with pytest.raises(ValueError, match=r"\w \w"):
        Movers(game)("nonsense", np.zeros(1, np.uint16))
