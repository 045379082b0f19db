"""Random games in step with python-chess; `chess_agreement.py` plays many more."""

from __future__ import annotations

import chess
import pytest
from chess_agreement import STARTS, compare_games, state_of

from azselfplay.games.chess import GAME


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_rules_agree_with_python_chess_at_every_ply_of_random_games(first_seed: int) -> None:
    tally = compare_games(first_seed, first_seed + 50)
    assert tally.games == 50
    for name in ("checkmate", "threefold_repetition", "fifty_moves", "castling", "en_passant", "promotion"):
        assert tally.met[name] > 0, f"these seeds never met {name}"


@pytest.mark.parametrize("fen", STARTS)
def test_reader_of_fen_writes_the_same_words_as_python_chess(fen: str) -> None:
    assert GAME.notation.state_from_text(fen).tolist() == state_of(chess.Board(fen)).tolist()
