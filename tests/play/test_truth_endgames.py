"""Endgame tables, compared with the rules, python-chess, and published figures."""

import chess
import numpy as np
import pytest
from naive_truth import best_result

from azselfplay.games.chess import GAME
from azselfplay.games.chess import endings as endgames
from azselfplay.games.chess import endings as kernel
from azselfplay.games.chess.knowledge import row_of as chess_row
from azselfplay.games.spec import State

LONGEST = {"KQK": 10, "KRK": 16, "KBNK": 33}


def sample(name: str, count: int, seed: int) -> list[State]:
    """Return legal positions of an ending, of either colour and either side to move."""
    rng, found = np.random.default_rng(seed), []
    tables = endgames.ending(name)
    while len(found) < count:
        strong, black = bool(rng.integers(2)), bool(rng.integers(2))
        index = int(rng.integers(len(tables.white)))
        if (tables.white if strong else tables.black)[index] != kernel.ILLEGAL:
            found.append(endgames.state_at(name, index, strong_to_move=strong, strong_is_black=black))
    return found


@pytest.mark.parametrize("name", endgames.ENDINGS)
def test_the_longest_mate_is_the_published_one(name: str) -> None:
    """It is counted in moves, with White to move."""
    table = endgames.ending(name).white
    assert (int(table[table < kernel.UNKNOWN].max()) + 1) // 2 == LONGEST[name]


@pytest.mark.parametrize("name", endgames.ENDINGS)
def test_a_distance_is_one_more_than_the_best_of_those_after_each_legal_move(name: str) -> None:
    for state in sample(name, 400, seed=1):
        known = endgames.probe(state)
        assert known is not None
        ended = GAME.end_value(state)
        if ended is not None:
            assert known == (ended, 0)
            continue
        after = [endgames.probe(GAME.after(state, action)) for action in GAME.legal_list(state)]
        value, plies = best_result([(-one.value, one.plies) if one else (0, 0) for one in after])
        assert known == (value, plies if value else 0)


@pytest.mark.parametrize("name", endgames.ENDINGS)
def test_entries_are_illegal_where_python_chess_says_so(name: str) -> None:
    rng, tables = np.random.default_rng(2), endgames.ending(name)
    pieces = [chess.Piece.from_symbol(letter) for letter in ("K", "k", *name[1:-1])]
    for index in rng.integers(len(tables.white), size=600).tolist():
        squares = [index >> 6 * place & 63 for place in range(len(pieces))]
        for side, table in ((chess.WHITE, tables.white), (chess.BLACK, tables.black)):
            board = chess.Board(None)
            board.turn = side
            for square, piece in zip(squares, pieces, strict=True):
                board.set_piece_at(square, piece)
            valid = board.is_valid() and len(set(squares)) == len(squares)
            assert (table[index] != kernel.ILLEGAL) == valid, board.fen()


@pytest.mark.parametrize(
    "fen",
    [
        "",
        "4k3/8/8/8/8/8/8/4K2R w K - 0 1",
        "4k3/8/8/8/8/8/8/3QKR2 w - - 0 1",
        "4k2r/8/8/8/8/8/8/3QK3 w - - 0 1",
    ],
    ids=["start", "may castle", "two men too many", "both have men"],
)
def test_a_position_without_a_table_is_not_known(fen: str) -> None:
    assert endgames.probe(GAME.notation.state_from_text(fen)) is None


def test_a_row_says_how_much_longer_each_winning_move_takes() -> None:
    row = chess_row("KQK", GAME.notation.state_from_text("7k/8/5K2/6Q1/8/8/8/8 w - - 0 1"))
    assert row is not None
    names = {a: GAME.notation.action_to_text(GAME.notation.state_from_text(row.start), a) for a in row.keeps}
    longer = {names[action]: plies for action, plies in row.longer.items()}
    assert longer["g5g7"] == 0
    assert min(plies for name, plies in longer.items() if name != "g5g7") >= 2
    assert "g5g6" not in longer, "that is stalemate"
