"""Policy indices of shogi moves, compared with AlphaZero's scheme written out plainly."""

import itertools

import pytest
from naive_shogi import DROPS, PIECES
from naive_sparse import possible

from azselfplay.games.shogi import GAME
from azselfplay.games.shogi.notation import legal_list

KINGS = [((1, 9), (9, 8)), ((4, 8), (7, 9)), ((3, 3), (8, 4)), ((9, 2), (2, 7))]
"""Squares of both kings, so different that each line is free of them in some position."""
SQUARES = [(file, rank) for file in range(1, 10) for rank in range(1, 10)]


def sfen_of(board: dict[tuple[int, int], str], hand: str) -> str:
    """Return an SFEN in which Black is to move."""
    rows = ["".join(board.get((file, rank), "1") for file in range(9, 0, -1)) for rank in range(1, 10)]
    return f"{'/'.join(rows)} b {hand} 1"


@pytest.mark.parametrize("text", ["7g7e", "7g7f+", "", "P*5e", "resign", "7G7F", "7g7f ", "0a1b", "K*5e"])
def test_text_that_is_no_legal_move_is_refused_with_the_legal_ones(text: str) -> None:
    with pytest.raises(ValueError, match="not a legal move"):
        GAME.notation.action_from_text(GAME.notation.state_from_text(""), text)


def test_of_11259_labels_3781_can_ever_be_legal() -> None:
    """Each of these moves is legal in some position with one piece and two kings, and no piece has any other
    step."""
    met: set[int] = set()
    for square, piece, kings in itertools.product(SQUARES, PIECES, KINGS):
        board = {kings[0]: "K", kings[1]: "k"}
        if square not in board and piece != "K":
            try:
                state = GAME.notation.state_from_text(sfen_of(board | {square: piece}, DROPS))
            except ValueError:
                continue
            met.update(legal_list(state))
    assert (GAME.actions, len(met)) == (11259, 3781)
    assert sorted(met) == possible()
