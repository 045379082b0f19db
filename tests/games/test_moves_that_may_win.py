"""`maybe_wins` keeps all moves of chess and shogi that give check, and few others."""

import numpy as np
import pytest
from test_chess960 import PERFT as PERFT_960
from test_chess_actions import POSITIONS, successors

from azselfplay.games import get_game
from azselfplay.games.playouts import legal, playouts
from azselfplay.games.shogi.game_end import in_check


@pytest.mark.parametrize(
    ("name", "fen"), [*(("chess", fen) for fen in POSITIONS), *(("chess960", fen) for fen, _ in PERFT_960)]
)
def test_in_chess(name: str, fen: str) -> None:
    """As python-chess says, in the position and after each of its moves."""
    game, is_960 = get_game(name), name == "chess960"
    moves, others = 0, 0
    for board in successors(fen, chess960=is_960):
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
        rare = {one for one in kept if one.promotion or board.is_en_passant(one) or board.is_castling(one)}
        moves, others = moves + count, others + len(kept - checks - rare)
    assert others <= 0.05 * moves


def test_in_shogi() -> None:
    """In random games, of which every position that is not a check is tried."""
    game, moves, others, checks = get_game("shogi"), 0, 0, 0
    for playout in playouts("shogi"):
        for n in range(1, len(playout.positions)):
            positions = np.concatenate([playout.positions[:n], playout.positions[:1]])
            if in_check(positions[n - 1]):
                continue
            actions = np.array(legal(game, positions, n), np.uint16)
            found = np.zeros(game.max_legal, np.uint16)
            kept = set(found[: game.rules.maybe_wins(positions, n, actions, found)].tolist())
            for action in actions.tolist():
                gives_check = bool(in_check(game.after(positions[n - 1], action)))
                assert action in kept or not gives_check
                others += action in kept and not gives_check
                checks += gives_check
            moves += len(actions)
    assert others <= 0.02 * moves
    assert checks > 100
