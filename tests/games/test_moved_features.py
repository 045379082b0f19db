"""Features under a symmetry, for codes of every width, compared with the slow twin cell by cell."""

import numpy as np
import pytest
from naive_sampler import naive_symmetry
from net_shapes import SHAPES, random_words

from azselfplay.games.packed import move_features
from azselfplay.games.spec import Game, Symmetry


@pytest.mark.parametrize("game", SHAPES, ids=lambda game: game.name)
def test_bits_and_codes_go_with_their_cells_and_scalars_stay(game: Game) -> None:
    """Bit planes may change places, too. Nothing remains of what the words held before."""
    rng = np.random.default_rng(3)
    cells = np.arange(game.cells).reshape(game.rows, game.cols)[::-1, ::-1].ravel()
    planes = rng.permutation(game.planes_per_position)
    symmetry = Symmetry("turned", cells, np.arange(game.actions), planes)
    for packed in random_words(game, 2, 3, rng):
        moved = np.full_like(packed, 2**64 - 1)
        move_features(packed, cells, planes, game.code_bits, 2, moved)
        np.testing.assert_array_equal(moved, naive_symmetry(game, packed, symmetry, 2))
