"""The table of start positions holds what the window needs, and no more."""

from collections import deque

import numpy as np
import pytest

from azselfplay.games import get_game
from trainer.window import StartTable

NOTATION = get_game("chess").notation


def fen(number: int) -> str:
    """Return a different position for each number."""
    return f"8/8/8/8/5k2/8/8/KQ6 w - - 0 {number + 1}"


def test_a_row_is_used_again_once_all_its_games_have_gone() -> None:
    """A long run with a different start for every game needs no more rows than games are remembered."""
    table, window = StartTable(NOTATION, 9), deque[tuple[int, str]]()
    for number in range(300):
        text = "" if number % 3 == 0 else fen(number)
        window.append((table.add(text), text))
        if len(window) > 20:
            table.drop(window.popleft()[0])
        for row, known in window:
            assert (table.states[row] == NOTATION.state_from_text(known)).all()
    assert len(table.states) <= 32


def test_games_with_the_same_start_share_a_row() -> None:
    table = StartTable(NOTATION, 9)
    rows = {table.add("") for _ in range(3)}
    assert rows == {0}
    table.drop(0)
    table.drop(0)
    assert table.add(fen(1)) == 1
    table.drop(0)
    assert table.add(fen(2)) == 0
    assert (table.states[0] == NOTATION.state_from_text(fen(2))).all()


def test_a_start_that_cannot_be_read_changes_nothing() -> None:
    """The verifier lets none through; if one came, it would raise an error and add no row."""
    table = StartTable(NOTATION, 9)
    with pytest.raises(ValueError, match="fields"):
        table.add("nonsense")
    assert np.count_nonzero(table.states) == 0
    assert table.add(fen(1)) == 0
