"""Which moves of chess may give check, compared with python-chess."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from test_chess960 import PERFT as PERFT_960
from test_chess_actions import POSITIONS, successors

from azselfplay.games import get_game


@pytest.mark.parametrize(
    ("name", "fen"),
    [*(("chess", fen) for fen in POSITIONS), *(("chess960", fen) for fen, _ in PERFT_960)],
)
def test_all_moves_that_give_check_may_win_and_few_others(name: str, fen: str) -> None:
    """In the position and after each of its moves."""
    game, is_960 = get_game(name), name == "chess960"
    first = chess.Board(fen, chess960=True)
    boards = [first, *(_after(first, move) for move in first.legal_moves)] if is_960 else successors(fen)
    moves, others = 0, 0
    for board in boards:
        text = board.shredder_fen() if is_960 else board.fen(en_passant="fen")
        positions = np.zeros((2, game.state_words), np.uint64)
        positions[0] = game.notation.state_from_text(text)
        actions, found = np.zeros((2, game.max_legal), np.uint16)
        count = game.rules.legal_actions(positions, 1, actions)
        possible = found[: game.rules.maybe_wins(positions, 1, actions[:count], found)].tolist()
        legal = {board.uci(move): move for move in board.legal_moves}
        kept = {legal[game.notation.action_to_text(positions[0], action)] for action in possible}
        checks = {move for move in board.legal_moves if board.gives_check(move)}
        assert checks <= kept, text
        rare = {
            move for move in kept if move.promotion or board.is_en_passant(move) or board.is_castling(move)
        }
        moves, others = moves + count, others + len(kept - checks - rare)
    assert others <= 0.05 * moves


def _after(board: chess.Board, move: chess.Move) -> chess.Board:
    after = board.copy()
    after.push(move)
    return after
