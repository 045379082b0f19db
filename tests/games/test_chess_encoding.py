"""Packed features of chess, compared with a naive encoder on python-chess boards."""

import chess
import numpy as np
import numpy.typing as npt
import pytest
from chess_agreement import STARTS, choose

from azselfplay.games.chess import GAME
from azselfplay.games.playouts import bits, features, scalars
from azselfplay.games.spec import Positions

PIECES = (chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING)
Planes = npt.NDArray[np.float32]


def naive_planes(boards: list[chess.Board], history: int) -> Planes:
    """Return the planes of the last of `boards` (all since the start), float32[planes, 8, 8]."""
    mover = boards[-1].turn
    planes = np.zeros((14 * history + 7, 8, 8), dtype=np.float32)
    for back, board in enumerate(reversed(boards[-history:])):
        for number, piece in enumerate(PIECES):
            for whose, colour in enumerate((mover, not mover)):
                for square in board.pieces(piece, colour):
                    seen = square if mover == chess.WHITE else chess.square_mirror(square)
                    planes[14 * back + 6 * whose + number, seen // 8, seen % 8] = 1
        before = boards[: len(boards) - 1 - back]
        times = sum(repetition_key(other) == repetition_key(board) for other in before)
        planes[14 * back + 12] = times >= 1
        planes[14 * back + 13] = times >= 2
    board = boards[-1]
    planes[-7] = mover == chess.BLACK
    planes[-6] = np.float32(min(board.ply() / 512, 1))
    planes[-5] = board.has_kingside_castling_rights(mover)
    planes[-4] = board.has_queenside_castling_rights(mover)
    planes[-3] = board.has_kingside_castling_rights(not mover)
    planes[-2] = board.has_queenside_castling_rights(not mover)
    planes[-1] = np.float32(min(board.halfmove_clock / 100, 1))
    return planes


def repetition_key(board: chess.Board) -> tuple[str, ...]:
    """Return men, side, castling rights, and legal en passant."""
    return tuple(board.fen(en_passant="legal").split()[:4])


def planes_of(positions: Positions, n: int, history: int) -> Planes:
    """Return the planes of `positions[n - 1]`, float32[planes, 8, 8] (written over other words)."""
    words = features(GAME, positions, n, history, fill=7)
    numbers = np.repeat(scalars(GAME, words, history)[:, None], 64, axis=1)
    return np.concatenate([bits(GAME, words, history).astype(np.float32), numbers]).reshape(-1, 8, 8)


def random_game(fen: str, plies: int, rng: np.random.Generator) -> tuple[list[chess.Board], Positions]:
    """Return a random game in which movers prefer to go back, as boards and as a line."""
    board, boards = chess.Board(fen), [chess.Board(fen)]
    positions = np.zeros((plies + 1, GAME.state_words), dtype=np.uint64)
    positions[0] = GAME.notation.state_from_text(fen)
    for n in range(plies):
        moves = sorted(move.uci() for move in board.legal_moves)
        if not moves:
            break
        move = choose(board, moves, rng, likes_going_back=True)
        GAME.rules.play(positions[n], GAME.notation.action_from_text(positions[n], move), positions[n + 1])
        board.push_uci(move)
        boards.append(board.copy())
    return boards, positions


@pytest.mark.parametrize("history", [1, 3, 8])
@pytest.mark.parametrize("fen", [chess.STARTING_FEN, *STARTS[:8]])
def test_packed_features_are_those_of_the_naive_encoder(fen: str, history: int) -> None:
    boards, positions = random_game(fen, 24, np.random.default_rng(history))
    for n in range(1, len(boards) + 1):
        np.testing.assert_array_equal(planes_of(positions, n, history), naive_planes(boards[:n], history))


def test_numbers_that_pass_their_scale_stay_at_one() -> None:
    state = GAME.notation.state_from_text("8/8/8/4k3/8/3K4/7R/8 w - - 100 400")
    assert planes_of(state[None], 1, 1)[-7:, 0, 0].tolist() == [0, 1, 0, 0, 0, 0, 1]
