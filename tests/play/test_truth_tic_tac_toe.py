"""The tree of tic-tac-toe against plain minimax."""

import numpy as np
from naive_truth import minimax

from azselfplay.games.tic_tac_toe import GAME
from azselfplay.games.tic_tac_toe.knowledge import key_of, solve


def test_all_5478_positions_have_the_value_and_the_moves_that_plain_minimax_finds() -> None:
    tree, seen = solve(), {}
    assert (len(tree), tree[0, 0].value) == (5478, 0)
    for key, one in tree.items():
        state = np.zeros(GAME.state_words, np.uint64)
        for action in one.moves:
            state = GAME.after(state, action)
        assert key_of(state) == key
        assert one.value == minimax(GAME, state, seen)[0]
        if one.legal:
            after = {a: -minimax(GAME, GAME.after(state, a), seen)[0] for a in GAME.legal_list(state)}
            assert one.keeps == {a for a in after if after[a] == one.value}
