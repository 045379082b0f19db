"""The material read from packed features is the one that python-chess counts."""

import chess
import numpy as np
import pytest

from azselfplay.games import GAME_NAMES, get_game
from azselfplay.games.conformance import features
from trainer.validation import Probes

GAME = get_game("chess")
WORTH = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}
POSITIONS = (
    chess.STARTING_FEN,
    "r1bqk2r/pp3ppp/2n5/8/1b1P4/2N2N2/PP3PPP/R1BQ1RK1 b kq - 0 1",
    "8/2P4k/8/8/8/5r2/8/K6B w - - 0 1",
    "8/2P4k/8/8/8/5r2/8/K6B b - - 0 1",
)


@pytest.mark.parametrize("history", [1, 8])
def test_material_is_that_of_the_side_to_move(history: int) -> None:
    """It holds for many positions at once, whatever lies behind them in memory."""
    states = [GAME.notation.state_from_text(fen)[None] for fen in POSITIONS]
    found = GAME.material(np.array([features(GAME, state, 1, history) for state in states]))
    for balance, fen in zip(found.tolist(), POSITIONS, strict=True):
        board = chess.Board(fen)
        men = board.piece_map().values()
        assert balance == sum(WORTH[man.piece_type] * (1 if man.color == board.turn else -1) for man in men)


def test_probes_are_what_they_are_called() -> None:
    """White is a queen up or down, or Black is a queen up; mirrored probes differ only in the colour."""
    probes = Probes.of(GAME, 1)
    assert probes.names == ("start", "KQK", "KKQ", "KQK_black")
    assert GAME.material(probes.packed_features).tolist() == [0, 9, -9, 9]
    _, white, _, black = probes.packed_features
    assert (white[:14] == black[:14]).all()
    for _, text in GAME.probes:
        assert chess.Board(text or chess.STARTING_FEN).is_valid()


@pytest.mark.parametrize("name", GAME_NAMES)
def test_every_game_has_a_probe(name: str) -> None:
    """Each has at least the usual start."""
    assert Probes.of(get_game(name), 1).names[0] == "start"
