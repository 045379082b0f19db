"""Policy indices of chess moves, compared with AlphaZero's scheme written out plainly."""

import chess
import pytest
from test_chess_perft import KNOWN, TRICKY

from azselfplay.games.chess import GAME
from azselfplay.games.chess.notation import legal_list

DIRECTIONS = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
KNIGHT_JUMPS = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
POSITIONS = [fen for fen, _ in KNOWN] + [fen for _, fen, *_ in TRICKY]


def plain_action(move: chess.Move, side: chess.Color) -> int:
    """Return the index of a move, from the description of the scheme."""
    origin, target = move.from_square, move.to_square
    if side == chess.BLACK:
        origin, target = chess.square_mirror(origin), chess.square_mirror(target)
    files = chess.square_file(target) - chess.square_file(origin)
    ranks = chess.square_rank(target) - chess.square_rank(origin)
    if move.promotion in (chess.KNIGHT, chess.BISHOP, chess.ROOK):
        plane = 64 + 3 * [chess.KNIGHT, chess.BISHOP, chess.ROOK].index(move.promotion) + files + 1
    elif (files, ranks) in KNIGHT_JUMPS:
        plane = 56 + KNIGHT_JUMPS.index((files, ranks))
    else:
        distance = max(abs(files), abs(ranks))
        plane = 7 * DIRECTIONS.index((files // distance, ranks // distance)) + distance - 1
    return plane * 64 + origin


def successors(fen: str, *, chess960: bool = False) -> list[chess.Board]:
    """Return the position and all that one move leads to, so that both colours are covered."""
    board = chess.Board(fen, chess960=chess960)
    boards = [board]
    for move in board.legal_moves:
        boards.append(board.copy())
        boards[-1].push(move)
    return boards


@pytest.mark.parametrize("fen", POSITIONS)
def test_every_legal_move_has_the_index_of_the_published_scheme(fen: str) -> None:
    for board in successors(fen):
        state = GAME.notation.state_from_text(board.fen(en_passant="legal"))
        actions = legal_list(state)
        assert len(set(actions)) == len(actions)
        assert sorted(actions) == sorted(plain_action(move, board.turn) for move in board.legal_moves)


def test_position_with_most_known_moves_fits_the_buffer() -> None:
    state = GAME.notation.state_from_text("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1")
    assert len(legal_list(state)) == 218 <= GAME.max_legal
