"""Tic-tac-toe counted to the end; Connect Four compared with known counts and a twin in plain Python."""

from collections import Counter

import numpy as np
import pytest
from naive_games import NAIVE_NAMES, assert_goes_as_in_the_twin, naive_game
from perft import perft

from azselfplay.games import connect_four, get_game, tic_tac_toe
from azselfplay.games.conformance import HISTORIES
from azselfplay.games.playouts import legal, playouts
from azselfplay.games.spec import NO_ROOT, outcome_for_first_player


def test_tic_tac_toe_has_5478_positions_and_255168_games() -> None:
    game, tree = tic_tac_toe.GAME, dict[bytes, Counter[int]]()

    def outcomes(state: np.ndarray) -> Counter[int]:
        """Return how many games from a position have each outcome."""
        if state.tobytes() not in tree:
            positions = state.reshape(1, -1)
            actions = legal(game, positions, 1)
            reason = game.rules.end_reason(positions, 1, len(actions), NO_ROOT)
            value = game.end_reasons[reason].value
            ended = Counter({outcome_for_first_player(value, int(game.rules.side_to_move(state))): 1})
            played = (outcomes(game.after(state, action)) for action in actions)
            tree[state.tobytes()] = ended if reason else sum(played, Counter())
        return tree[state.tobytes()]

    games = outcomes(game.notation.state_from_text(""))
    assert games == {1: 131184, -1: 77904, 0: 46080}
    assert (games.total(), len(tree)) == (255168, 5478)


@pytest.mark.parametrize(
    ("depth", "sequences"),
    [(1, 7), (2, 49), (3, 343), (4, 2401), (5, 16807), (6, 117649), (7, 823536), (8, 5673234)],
)
def test_connect_four_has_the_published_counts(depth: int, sequences: int) -> None:
    """They count move sequences; the last two are below 7 ** depth because columns fill up and games end."""
    game = get_game("connect_four")
    assert perft(game, game.notation.state_from_text(""), depth, ends=True) == sequences


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("name", NAIVE_NAMES)
def test_random_games_go_as_in_the_naive_twin(name: str, history: int) -> None:
    for playout in playouts(name):
        assert_goes_as_in_the_twin(get_game(name), naive_game(name), playout.actions, history)


def test_every_four_in_a_row_is_seen_and_nothing_else() -> None:
    """All 69 fours win; a run that leaves the board at one side and comes back at the other does not."""
    rows, cols = connect_four.ROWS, connect_four.COLS
    fours = wrapped = 0
    for cell in range(rows * cols):
        for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            cells = [cell + step * (up * cols + right) for step in range(4)]
            end_row, end_col = cell // cols + 3 * up, cell % cols + 3 * right
            inside = end_row < rows and 0 <= end_col < cols
            if not inside and max(cells) >= rows * cols:
                continue
            assert bool(connect_four.has_four(np.uint64(sum(1 << one for one in cells)))) is inside
            fours, wrapped = fours + inside, wrapped + (not inside)
    assert fours == 69
    assert wrapped > 0


def test_an_illegal_move_lists_the_legal_ones() -> None:
    notation = tic_tac_toe.GAME.notation
    state = notation.state_from_text("x../.o./...")
    with pytest.raises(ValueError, match="'5' is not a legal cell here; legal: 1 2 3 4 6 8 9"):
        notation.action_from_text(state, "5")
    with pytest.raises(ValueError, match="over"):
        notation.action_from_text(notation.state_from_text("xxx/oo./..."), "1")
