"""The tree of tic-tac-toe against plain minimax."""

from collections import Counter

import numpy as np
from naive_truth import legal_of, minimax

from azselfplay.games.tic_tac_toe import GAME
from azselfplay.games.tic_tac_toe.knowledge import key_of, solve


def test_there_are_as_many_positions_as_is_known_and_perfect_play_draws() -> None:
    tree = solve()
    over = Counter(one.value for one in tree.values() if not one.legal)
    assert len(tree) == 5478
    assert over == {-1: 626 + 316, 0: 16}  # x has three in a row in 626 of them, o in 316
    assert tree[0, 0].value == 0


def test_every_position_has_the_value_and_the_moves_that_plain_minimax_finds() -> None:
    tree, seen = solve(), {}
    for key, one in tree.items():
        state = np.zeros(GAME.state_words, np.uint64)
        for action in one.moves:
            state = GAME.after(state, action)
        assert key_of(state) == key
        assert one.value == minimax(GAME, state, seen)[0]
        if one.legal:
            after = {a: -minimax(GAME, GAME.after(state, a), seen)[0] for a in legal_of(GAME, state)}
            assert one.keeps == {a for a in after if after[a] == one.value}
